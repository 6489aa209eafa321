//! The report on one probe.

use std::collections::BTreeSet;

use serde::Serialize;

use super::{Effects, Probe, Takes, Trial, Verdict, Wanted};

/// A probe's figures and the verdict.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ProbeReport {
    /// The probe's [`Probe::key`].
    pub key: &'static str,
    /// The probe's [`Probe::name`].
    pub name: &'static str,
    /// The chains that the probe changes.
    pub takes: Takes,
    /// The reaction of a good model's score.
    pub wanted: Wanted,
    /// The number of chains that were changed and scored.
    pub chains: usize,
    /// The number of problems of the scored chains.
    pub problems: usize,
    /// The number of changed chains that the model refused. No figure includes a refused chain.
    pub refused: usize,
    /// The mean effects on the scores, with intervals.
    pub effects: Effects,
    /// The verdict on the effects, by [`RULES`](super::RULES).
    pub verdict: Verdict,
}

impl ProbeReport {
    /// Measures the trials of `probe`, with a threshold and a seed as [`Effects::of`] takes them.
    #[must_use]
    pub fn of(probe: &Probe, trials: &[Trial], refused: usize, threshold: f32, seed: u64) -> Self {
        let effects = Effects::of(trials, threshold, seed);
        let problems: BTreeSet<u32> = trials.iter().map(|trial| trial.problem).collect();
        Self {
            key: probe.key,
            name: probe.name,
            takes: probe.takes,
            wanted: probe.wanted,
            chains: trials.len(),
            problems: problems.len(),
            refused,
            effects,
            verdict: Verdict::of_probe(probe.wanted, &effects),
        }
    }
}
