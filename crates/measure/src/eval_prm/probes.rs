//! Probes of an evaluation: chains are changed and scored again, and reports are computed from both scores.

use std::collections::BTreeMap;

use beamgen::Aggregation;
use beamgen::eval::GivenChain;
use beamgen::eval::probes::{
    PROBES, Probe, ProbeReport, SHIFTS, ShiftReport, Subject, Takes, Touched, Trial,
};
use beamgen::eval::quality::ScoredChain;
use beamgen::scorer::Scorer;
use serde::{Deserialize, Serialize};

use super::SEED;
use super::data::Set;
use crate::scores::judge;
use crate::{Error, Watch};

/// The scores of one changed chain.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Row {
    pub set: usize,
    /// The key of the probe that changed the chain.
    pub probe: String,
    /// The number of the chain in its set.
    pub chain: usize,
    /// The scores of the changed chain's steps; `None` if the model refused the chain.
    pub scores: Option<Vec<f32>>,
    /// The step that the change is about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub touched: Option<Touched>,
}

/// The probes of a set.
#[derive(Serialize)]
pub struct SetProbes {
    /// A report for each probe.
    pub probes: Vec<ProbeReport>,
    /// The shifts whose kinds the data name.
    pub shifts: Vec<ShiftReport>,
}

/// Returns the changed copies of the chains in `set`, each with a row that still lacks scores. `number` is the index
/// of the set, whose own chains must be scored already.
fn changed(probe: &Probe, number: usize, set: &Set) -> Vec<(GivenChain, Row)> {
    let next = others(&set.rows, &set.chains);
    let chains = set.chains.iter().zip(&set.rows).enumerate();
    chains
        .filter_map(|(at, (given, row))| {
            // A probe compares the scores before and after, so a chain without scores is of no use.
            row.scores.as_ref()?;
            let takes = match probe.takes {
                // `Some(None)` means that all steps are labelled right.
                Takes::Right => row.first_error() == Some(None),
                Takes::Known => row.first_error().is_some(),
            };
            let subject = Subject {
                problem: &given.problem,
                steps: &given.steps,
                other_problem: next.get(&row.problem).copied(),
            };
            let changed = takes.then(|| probe.change(&subject)).flatten()?;
            let chain = GivenChain {
                id: format!("{}, {}", given.id, probe.name),
                problem: changed.problem,
                steps: changed.steps,
                ..GivenChain::default()
            };
            let row = Row {
                set: number,
                probe: probe.key.to_owned(),
                chain: at,
                scores: None,
                touched: changed.touched,
            };
            Some((chain, row))
        })
        .collect()
}

/// Returns another problem's text for each problem: the text of the next one, and of the first one for the last. The
/// map is empty if there is only one problem.
fn others<'a>(rows: &[ScoredChain], chains: &'a [GivenChain]) -> BTreeMap<u32, &'a str> {
    let mut texts: BTreeMap<u32, &str> = BTreeMap::new();
    for (row, chain) in rows.iter().zip(chains) {
        texts.entry(row.problem).or_insert(&chain.problem);
    }
    if texts.len() < 2 {
        return BTreeMap::new();
    }
    let next = texts.values().copied().cycle().skip(1);
    texts.keys().copied().zip(next).collect()
}

pub(super) fn score(
    model: &mut dyn Scorer,
    sets: &[Set],
    watch: &mut dyn Watch,
) -> Result<Vec<Row>, Error> {
    let each = |probe: &'static Probe| {
        let sets = sets.iter().enumerate();
        sets.map(move |(number, set)| changed(probe, number, set))
    };
    // Chains are changed a first time to count them and a second time to score them, because keeping all copies would
    // need much memory.
    let total = PROBES.into_iter().flat_map(each).map(|todo| todo.len());
    let total = total.sum();
    watch.begin(total, "changed chains", total as f64);
    let mut rows = Vec::new();
    for todo in PROBES.into_iter().flat_map(each) {
        let (chains, mut some): (Vec<GivenChain>, Vec<Row>) = todo.into_iter().unzip();
        for (row, scores) in some.iter_mut().zip(judge(model, &chains, watch)?) {
            row.scores = scores;
        }
        rows.append(&mut some);
    }
    Ok(rows)
}

impl Row {
    /// Checks a row that was read from a file. The error is one line that begins with the wrong field.
    pub(super) fn check(&self, sets: &[Vec<ScoredChain>]) -> Result<(), String> {
        if Probe::keyed(&self.probe).is_none() {
            return Err(format!("field \"probe\": unknown probe \"{}\"", self.probe));
        }
        let Some(set) = sets.get(self.set) else {
            return Err(format!(
                "field \"set\": the report has only {} sets",
                sets.len()
            ));
        };
        let Some(chain) = set.get(self.chain) else {
            return Err(format!(
                "field \"chain\": the set has only {} chains",
                set.len()
            ));
        };
        let Some(before) = &chain.scores else {
            return Err("field \"chain\": the chain has no scores".to_owned());
        };
        let Some(after) = &self.scores else {
            return Ok(());
        };
        if after.is_empty() || !after.iter().all(|score| (0.0..=1.0).contains(score)) {
            return Err("field \"scores\": not numbers from 0 to 1".to_owned());
        }
        if self.touched.is_none_or(|touched: Touched| {
            touched.after < after.len() && touched.before.is_none_or(|at| at < before.len())
        }) {
            Ok(())
        } else {
            Err("field \"touched\": the step does not exist".to_owned())
        }
    }

    /// Combines the scores with those of the original chain; returns `None` if one of the two was refused.
    fn trial(&self, chain: &ScoredChain, aggregation: Aggregation) -> Option<Trial> {
        let (before, after) = (chain.scores.as_ref()?, self.scores.as_ref()?);
        let [was, is] = [before, after].map(|scores| aggregation.fold(scores.iter().copied()));
        Some(Trial {
            problem: chain.problem,
            is_wrong: matches!(chain.first_error(), Some(Some(_))),
            before: f64::from(was?),
            after: f64::from(is?),
            step_before: self
                .touched
                .and_then(|touched| step_score(before, touched.before?)),
            step_after: self
                .touched
                .and_then(|touched| step_score(after, touched.after)),
        })
    }
}

fn step_score(scores: &[f32], at: usize) -> Option<f64> {
    scores.get(at).copied().map(f64::from)
}

impl SetProbes {
    /// Computes the reports on the set with index `number`, whose original chains are `chains`.
    pub(super) fn of(
        number: usize,
        chains: &[ScoredChain],
        rows: &[Row],
        aggregation: Aggregation,
        threshold: f32,
    ) -> Self {
        let shifts = SHIFTS.into_iter();
        let probes = Probe::in_report(rows.iter().map(|row| row.probe.as_str()));
        Self {
            probes: probes
                .iter()
                .map(|&probe| {
                    let of_set = rows.iter().filter(|row| row.set == number);
                    let of_probe = of_set.filter(|row| row.probe == probe.key);
                    // A refused chain gives no trial, so it is counted separately.
                    let refused = of_probe.clone().filter(|row| row.scores.is_none()).count();
                    let trials: Vec<Trial> = of_probe
                        .filter_map(|row| row.trial(&chains[row.chain], aggregation))
                        .collect();
                    ProbeReport::of(probe, &trials, refused, threshold, SEED)
                })
                .collect(),
            shifts: shifts
                .filter_map(|shift| shift.report(chains, SEED))
                .collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn another_problem_is_the_next_one_and_never_the_same() {
        let (rows, chains) = (
            [0, 0, 1, 2].map(|problem| ScoredChain {
                problem,
                ..ScoredChain::default()
            }),
            ["a", "a", "b", "c"].map(|text| GivenChain {
                problem: text.to_owned(),
                ..GivenChain::default()
            }),
        );
        let others = |count: usize| others(&rows[..count], &chains[..count]);
        assert_eq!(others(4), [(0, "b"), (1, "c"), (2, "a")].into());
        assert!(others(2).is_empty());
    }
}
