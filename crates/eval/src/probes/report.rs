//! What is reported of a probe.

use std::collections::BTreeSet;

use serde::Serialize;

use super::{Effects, Probe, Takes, Trial, Verdict, Wanted};

/// A probe's figures and what they mean.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ProbeReport {
    /// The probe's [`Probe::key`].
    pub key: &'static str,
    /// The probe's [`Probe::name`].
    pub name: &'static str,
    /// The chains that it takes.
    pub takes: Takes,
    /// What a good model does.
    pub wanted: Wanted,
    /// Chains that were changed and scored.
    pub chains: usize,
    /// Their problems.
    pub problems: usize,
    /// Changed chains that the model refused; they are in no figure.
    pub refused: usize,
    /// The figures.
    pub effects: Effects,
    /// What they mean.
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
