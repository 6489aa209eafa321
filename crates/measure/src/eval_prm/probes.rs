//! Probes of a set: its chains are changed and scored again, and the raw scores become a report.

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
    /// The number of its set.
    pub set: usize,
    /// The probe's key.
    pub probe: String,
    /// The number of the chain in its set.
    pub chain: usize,
    /// Of each step; `None` if the model refused the changed chain.
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

/// The chains that `probe` makes of the set `number`, whose rows have their scores, each with the
/// row that becomes of it.
fn changed(probe: &Probe, number: usize, set: &Set) -> Vec<(GivenChain, Row)> {
    let next = others(&set.rows, &set.chains);
    let todo = |(at, (given, row)): (usize, (&GivenChain, &ScoredChain))| {
        row.scores.as_ref()?;
        let takes = match probe.takes {
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
    };
    let chains = set.chains.iter().zip(&set.rows).enumerate();
    chains.filter_map(todo).collect()
}

/// For each problem the text of the next one of the data, for the last the first; nothing if there
/// is one only.
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

/// Scores what all probes make of the sets.
pub(super) fn score(
    model: &mut dyn Scorer,
    sets: &[Set],
    watch: &mut dyn Watch,
) -> Result<Vec<Row>, Error> {
    let each = |probe: &'static Probe| {
        let sets = sets.iter().enumerate();
        sets.map(move |(number, set)| changed(probe, number, set))
    };
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
    /// What is wrong with a row that was read: one line, the field first.
    pub(super) fn check(&self, sets: &[Vec<ScoredChain>]) -> Result<(), String> {
        if Probe::keyed(&self.probe).is_none() {
            return Err(format!("field \"probe\": \"{}\" is none", self.probe));
        }
        let Some(set) = sets.get(self.set) else {
            return Err(format!("field \"set\": there are {}", sets.len()));
        };
        let Some(chain) = set.get(self.chain) else {
            return Err(format!("field \"chain\": there are {}", set.len()));
        };
        let Some(before) = &chain.scores else {
            return Err("field \"chain\": this one has no scores".to_owned());
        };
        let Some(after) = &self.scores else {
            return Ok(());
        };
        if after.is_empty() || !after.iter().all(|score| (0.0..=1.0).contains(score)) {
            return Err("field \"scores\": not numbers from 0 to 1".to_owned());
        }
        let is_there = |touched: Touched| {
            touched.after < after.len() && touched.before.is_none_or(|at| at < before.len())
        };
        if self.touched.is_none_or(is_there) {
            Ok(())
        } else {
            Err("field \"touched\": there is no such step".to_owned())
        }
    }

    /// The scores beside those of the chain as it was.
    fn trial(&self, chain: &ScoredChain, aggregation: Aggregation) -> Option<Trial> {
        let (before, after) = (chain.scores.as_ref()?, self.scores.as_ref()?);
        let fold = |scores: &[f32]| aggregation.fold(scores.iter().copied()).map(f64::from);
        let step = |scores: &[f32], at: usize| scores.get(at).copied().map(f64::from);
        Some(Trial {
            problem: chain.problem,
            is_wrong: matches!(chain.first_error(), Some(Some(_))),
            before: fold(before)?,
            after: fold(after)?,
            step_before: self
                .touched
                .and_then(|touched| step(before, touched.before?)),
            step_after: self.touched.and_then(|touched| step(after, touched.after)),
        })
    }
}

impl SetProbes {
    /// The report of the set `number`, whose chains are `chains`.
    pub(super) fn of(
        number: usize,
        chains: &[ScoredChain],
        rows: &[Row],
        aggregation: Aggregation,
        threshold: f32,
    ) -> Self {
        let report = |probe: &'static Probe| {
            let of_probe = || {
                let of_set = rows.iter().filter(|row| row.set == number);
                of_set.filter(|row| row.probe == probe.key)
            };
            let trial = |row: &Row| row.trial(&chains[row.chain], aggregation);
            let trials: Vec<Trial> = of_probe().filter_map(trial).collect();
            let refused = of_probe().filter(|row| row.scores.is_none()).count();
            ProbeReport::of(probe, &trials, refused, threshold, SEED)
        };
        let shifts = SHIFTS.into_iter();
        let probes = Probe::in_report(rows.iter().map(|row| row.probe.as_str()));
        Self {
            probes: probes.iter().copied().map(report).collect(),
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
        let row = |problem| ScoredChain {
            problem,
            ..ScoredChain::default()
        };
        let chain = |text: &str| GivenChain {
            problem: text.to_owned(),
            ..GivenChain::default()
        };
        let (rows, chains) = ([0, 0, 1, 2].map(row), ["a", "a", "b", "c"].map(chain));
        let others = |count: usize| others(&rows[..count], &chains[..count]);
        assert_eq!(others(4), [(0, "b"), (1, "c"), (2, "a")].into());
        assert!(others(2).is_empty());
    }
}
