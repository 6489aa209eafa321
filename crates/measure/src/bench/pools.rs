//! What the largest pool of samples says about every smaller number of them.

use beamgen::Choose;
use beamgen::eval::pass_at_k::pass_at_k;
use beamgen::eval::pool::{Sample, chosen_at_k, pass_rate};
use serde::Serialize;

use super::audit::Audit;
use super::measured::{Measured, mean};
use crate::rerank::{Aggregated, Share, aggregations, chosen, scored};

/// The samples of a cell that kept its chains, by problem and seed.
pub(super) struct Pools<'m, 'a> {
    measured: &'m Measured<'a>,
    samples: Vec<Vec<Vec<Sample>>>,
}

/// What k samples are worth.
#[derive(Clone, Debug, Serialize)]
pub(super) struct AtK {
    pub k: usize,
    /// Expected tokens sampled for k chains.
    pub generated: f64,
    pub pass: Share,
    /// `null` if the samples have no scores.
    pub best: Option<Share>,
    pub majority: Share,
    pub weighted: Option<Share>,
}

/// All of a pool.
#[derive(Clone, Debug, Serialize)]
pub(super) struct PoolCurve {
    pub set: String,
    /// The cell the samples are from.
    pub name: String,
    pub at: Vec<AtK>,
}

impl<'m, 'a> Pools<'m, 'a> {
    /// `None` if the cell kept no chains.
    pub(super) fn of(measured: &'m Measured<'a>) -> Option<Self> {
        let pool = |row: &&super::row::Row| Some(row.chains.as_ref()?.samples().collect());
        let of_problem =
            |rows: &Vec<_>| rows.iter().map(pool).collect::<Option<Vec<Vec<Sample>>>>();
        let samples = measured
            .rows
            .iter()
            .map(of_problem)
            .collect::<Option<_>>()?;
        Some(Self { measured, samples })
    }

    /// Returns the pools in which unsound chains count as wrong; `None` if they were not audited.
    pub(super) fn sound(&self) -> Option<Self> {
        let all = self.measured.rows.iter().flatten();
        let chains = all.map(|row| row.chains.as_ref());
        let letters: Vec<&str> = chains.map(|of| of.map_or("", |of| &of.audit)).collect();
        let mut samples = self.samples.clone();
        let pools = samples.iter_mut().flatten();
        for (pool, letters) in pools.zip(letters) {
            if pool.len() != letters.len() {
                return None;
            }
            for (sample, letter) in pool.iter_mut().zip(letters.chars()) {
                sample.correct &= letter == Audit::Sound.letter();
            }
        }
        let measured = self.measured;
        Some(Self { measured, samples })
    }

    /// The cell the samples are from.
    pub(super) fn name(&self) -> String {
        self.measured.cell.label()
    }

    /// The number of its set.
    pub(super) fn set(&self) -> usize {
        self.measured.set
    }

    /// How many samples a problem has, all seeds together.
    pub(super) fn samples_a_problem(&self) -> usize {
        self.samples
            .first()
            .map_or(0, |seeds| seeds.iter().map(Vec::len).sum())
    }

    /// By problem, the share of its samples that are right.
    pub(super) fn pass_rates(&self) -> Vec<f64> {
        let rate = |seeds: &Vec<Vec<Sample>>| pass_rate(&seeds.concat()).unwrap_or(0.0);
        self.samples.iter().map(rate).collect()
    }

    /// The choices of each aggregation among all samples; nothing where their steps have no scores.
    pub(super) fn aggregated(&self, set: &str) -> Vec<Aggregated> {
        let steps = |row: &&'a super::row::Row| Some(&row.chains.as_ref()?.steps);
        let rows = self.measured.rows.iter();
        let steps: Option<Vec<Vec<_>>> = rows.map(|of| of.iter().map(steps).collect()).collect();
        let Some(steps) = steps.filter(|all| all.iter().flatten().any(|of| !of.is_empty())) else {
            return Vec::new();
        };
        let share = |how, aggregation| {
            let each = |(pool, steps): (&Vec<Sample>, &&Vec<Vec<f32>>)| {
                chosen(&scored(pool.iter().copied(), *steps, aggregation), how)
            };
            let of_problem = |(pools, steps): (&Vec<Vec<Sample>>, &Vec<_>)| {
                mean(&pools.iter().zip(steps).map(each).collect::<Vec<_>>())
            };
            let by_problem = self.samples.iter().zip(&steps).map(of_problem);
            Share::over(&by_problem.collect::<Vec<_>>())
        };
        let row = |aggregation| Aggregated {
            set: set.to_owned(),
            name: self.name(),
            aggregation,
            best: share(Choose::Best, aggregation),
            weighted: share(Choose::Weighted, aggregation),
        };
        aggregations().map(row).collect()
    }

    /// The curve over k = 1, 2, 4, ... N.
    pub(super) fn curve(&self, set: &str) -> PoolCurve {
        let n = self.measured.n();
        let mut ks: Vec<usize> = std::iter::successors(Some(1), |k| Some(k * 2))
            .take_while(|&k| k < n)
            .collect();
        ks.push(n);
        PoolCurve {
            set: set.to_owned(),
            name: self.name(),
            at: ks.into_iter().filter_map(|k| self.at(k)).collect(),
        }
    }

    fn at(&self, k: usize) -> Option<AtK> {
        let scored = self.measured.cell.config.uses_scorer();
        let chosen = |how| self.share(&|pool, seed| chosen_at_k(pool, k, how, seed));
        let by_score = |how| if scored { chosen(how) } else { None };
        let pass = self.share(&|pool, _| {
            let right = pool.iter().filter(|sample| sample.correct).count();
            pass_at_k(pool.len(), right, k)
        })?;
        let length = |pool: &Vec<Sample>| {
            let tokens = pool.iter().map(|sample| f64::from(sample.tokens));
            tokens.sum::<f64>() / pool.len() as f64
        };
        let lengths: Vec<f64> = self.samples.iter().flatten().map(length).collect();
        Some(AtK {
            k,
            generated: k as f64 * mean(&lengths),
            pass,
            best: by_score(Choose::Best),
            majority: chosen(Choose::Majority)?,
            weighted: by_score(Choose::Weighted),
        })
    }

    /// The mean over problems of the mean over seeds; every pool draws from a seed of its own.
    fn share(&self, value: &dyn Fn(&[Sample], u64) -> Option<f64>) -> Option<Share> {
        let mut number = 0;
        let mut by_problem = Vec::with_capacity(self.samples.len());
        for seeds in &self.samples {
            let mut sum = 0.0;
            for pool in seeds {
                sum += value(pool, number)?;
                number += 1;
            }
            by_problem.push(sum / seeds.len() as f64);
        }
        Some(Share::over(&by_problem))
    }
}
