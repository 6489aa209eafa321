//! Accuracy at every smaller number of samples, estimated from a cell with many stored samples.

use beamgen::Choose;
use beamgen::eval::pass_at_k::pass_at_k;
use beamgen::eval::pool::{Sample, chosen_at_k, pass_rate};
use serde::Serialize;

use super::audit::Audit;
use super::measured::{Measured, mean};
use crate::rerank::{Aggregated, Share, aggregations, chosen, scored};

/// The samples of a cell that stored its chains, indexed by problem, seed and chain.
pub(super) struct Pools<'m, 'a> {
    measured: &'m Measured<'a>,
    samples: Vec<Vec<Vec<Sample>>>,
}

/// The expected figures if only k of a problem's samples had been made.
#[derive(Clone, Debug, Serialize)]
pub(super) struct AtK {
    pub k: usize,
    /// The expected number of tokens to sample k chains.
    pub generated: f64,
    pub pass: Share,
    /// The accuracy of best-of-k; `null` in JSON if the samples have no scores.
    pub best: Option<Share>,
    pub majority: Share,
    pub weighted: Option<Share>,
}

#[derive(Clone, Debug, Serialize)]
pub(super) struct PoolCurve {
    pub set: String,
    /// The label of the cell that stored the samples.
    pub name: String,
    pub at: Vec<AtK>,
}

impl<'m, 'a> Pools<'m, 'a> {
    /// Returns `None` if the cell did not store its chains.
    pub(super) fn of(measured: &'m Measured<'a>) -> Option<Self> {
        let samples = measured
            .rows
            .iter()
            .map(|rows| {
                rows.iter()
                    .map(|row| Some(row.chains.as_ref()?.samples().collect()))
                    .collect::<Option<Vec<Vec<Sample>>>>()
            })
            // A cell stores the chains of all its rows or of none.
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
            // Without an audit, a row has no letters.
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

    pub(super) fn name(&self) -> String {
        self.measured.cell.label()
    }

    /// Returns the index of the cell's set in the outline.
    pub(super) fn set(&self) -> usize {
        self.measured.set
    }

    /// Returns the number of samples of each problem, summed over seeds.
    pub(super) fn samples_a_problem(&self) -> usize {
        self.samples
            .first()
            .map_or(0, |seeds| seeds.iter().map(Vec::len).sum())
    }

    /// Returns the share of right samples of each problem, over all seeds.
    pub(super) fn pass_rates(&self) -> Vec<f64> {
        self.samples
            .iter()
            .map(|seeds| pass_rate(&seeds.concat()).unwrap_or(0.0))
            .collect()
    }

    /// Returns the accuracy of choices by each aggregation of step scores, among all samples. The list is empty if
    /// the steps have no scores.
    pub(super) fn aggregated(&self, set: &str) -> Vec<Aggregated> {
        let rows = self.measured.rows.iter();
        let steps: Option<Vec<Vec<_>>> = rows
            .map(|seeds| {
                let chains = seeds.iter().map(|row| row.chains.as_ref());
                chains.map(|chains| Some(&chains?.steps)).collect()
            })
            .collect();
        let Some(steps) = steps.filter(|all| all.iter().flatten().any(|of| !of.is_empty())) else {
            return Vec::new();
        };
        let share = |how, aggregation| {
            let by_problem = self.samples.iter().zip(&steps).map(|(pools, steps)| {
                mean(
                    &pools
                        .iter()
                        .zip(steps)
                        .map(|(pool, steps)| {
                            chosen(&scored(pool.iter().copied(), *steps, aggregation), how)
                        })
                        .collect::<Vec<_>>(),
                )
            });
            Share::over(&by_problem.collect::<Vec<_>>())
        };
        aggregations()
            .map(|aggregation| Aggregated {
                set: set.to_owned(),
                name: self.name(),
                aggregation,
                best: share(Choose::Best, aggregation),
                weighted: share(Choose::Weighted, aggregation),
            })
            .collect()
    }

    /// Returns the figures at k = 1, 2, 4 and so on up to N.
    pub(super) fn curve(&self, set: &str) -> PoolCurve {
        let n = self.measured.n();
        let mut ks: Vec<usize> = std::iter::successors(Some(1), |k| Some(k * 2))
            .take_while(|&k| k < n)
            .collect();
        // N is included even if it is not a power of two.
        ks.push(n);
        PoolCurve {
            set: set.to_owned(),
            name: self.name(),
            at: ks.into_iter().filter_map(|k| self.at(k)).collect(),
        }
    }

    fn at(&self, k: usize) -> Option<AtK> {
        let scored = self.measured.cell.config.uses_scorer();
        let pass = self.share(&|pool, _| {
            let right = pool.iter().filter(|sample| sample.correct).count();
            pass_at_k(pool.len(), right, k)
        })?;
        let pools = self.samples.iter().flatten();
        let lengths = pools.map(|pool| {
            let tokens = pool.iter().map(|sample| f64::from(sample.tokens));
            tokens.sum::<f64>() / pool.len() as f64
        });
        let lengths: Vec<f64> = lengths.collect();
        Some(AtK {
            k,
            // Chains are sampled independently, so k of them have k times the mean number of tokens.
            generated: k as f64 * mean(&lengths),
            pass,
            best: scored.then(|| self.chosen(k, Choose::Best)).flatten(),
            majority: self.chosen(k, Choose::Majority)?,
            weighted: scored.then(|| self.chosen(k, Choose::Weighted)).flatten(),
        })
    }

    fn chosen(&self, k: usize, how: Choose) -> Option<Share> {
        self.share(&|pool, seed| chosen_at_k(pool, k, how, seed))
    }

    /// Returns the mean of `value` over seeds and then over problems. Each pool is passed another seed, so that
    /// random subsets of different pools are independent.
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
