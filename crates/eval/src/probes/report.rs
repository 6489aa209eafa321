//! The report on one probe: its figures, and the verdict on them.

use std::collections::BTreeSet;

use serde::Serialize;

use super::{Effects, Probe, Takes, Trial, Verdict, Wanted};

/// The result of one probe on all chains of the data.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ProbeReport {
    /// The probe's [`Probe::key`].
    pub key: &'static str,
    /// The probe's [`Probe::name`].
    pub name: &'static str,
    /// The chains that the probe was applied to, from [`Probe::takes`].
    pub takes: Takes,
    /// The reaction of the score that a good model shows.
    pub wanted: Wanted,
    /// The number of chains that were changed and scored, which all figures are about.
    pub chains: usize,
    /// The number of distinct problems among these chains, the units of the bootstrap.
    pub problems: usize,
    /// The number of changed chains that the model refused, which no figure includes.
    pub refused: usize,
    /// The mean scores before and after the change and their differences, with intervals.
    pub effects: Effects,
    /// The verdict on `effects` in plain words, by [`RULES`](super::RULES).
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
