//! The effects of a change on scores: means over chains, with bootstrap intervals over problems.

use std::collections::BTreeMap;

use serde::Serialize;
use serde::ser::Serializer;

use super::Trial;
use crate::metrics::Range;
use crate::quality::{Figure, resample};

/// A figure of a probe, the mean of a value over the chains for which the value is defined. The serialised name is
/// the key in JSON reports.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Effect {
    /// The score of the chain before the change, 0 to 1.
    #[serde(rename = "chain_before")]
    Before,
    /// The score of the chain after the change, 0 to 1.
    #[serde(rename = "chain_after")]
    After,
    /// The difference of the chain's scores, after minus before the change.
    #[serde(rename = "chain_change")]
    Change,
    /// The score of the touched step before the change; defined if the step existed before.
    StepBefore,
    /// The score of the touched step after the change; defined if a single step is touched.
    StepAfter,
    /// The difference of the touched step's scores, after minus before the change.
    StepChange,
    /// The share of chains that fall below the threshold, among those at or above it before the change.
    Noticed,
    /// The share of chains whose score fell at all.
    Fell,
    /// The share of chains whose score rose at all.
    Rose,
    /// The share of chains that rise to the threshold, among wrong chains below it before the change.
    #[serde(rename = "wrong_chains_passed")]
    Passed,
}

impl Effect {
    /// All effects in the order of reports, which is that of the variants.
    pub const ALL: [Self; 10] = [
        Self::Before,
        Self::After,
        Self::Change,
        Self::StepBefore,
        Self::StepAfter,
        Self::StepChange,
        Self::Noticed,
        Self::Fell,
        Self::Rose,
        Self::Passed,
    ];

    fn range(self) -> Range {
        match self {
            Self::Change | Self::StepChange => Range::Signed,
            _ => Range::Unit,
        }
    }

    /// Returns the value for one chain, or `None` if the effect is not defined for the chain.
    fn value(self, trial: &Trial, threshold: f64) -> Option<f64> {
        let (before, after) = (trial.before, trial.after);
        let (was_below, is_below) = (before < threshold, after < threshold);
        match self {
            Self::Before => Some(before),
            Self::After => Some(after),
            Self::Change => Some(after - before),
            Self::StepBefore => trial.step_before,
            Self::StepAfter => trial.step_after,
            Self::StepChange => Some(trial.step_after? - trial.step_before?),
            // A chain that was already below the threshold cannot show that the model noticed the change.
            Self::Noticed => (!was_below).then(|| indicator(is_below)),
            Self::Fell => Some(indicator(after < before)),
            Self::Rose => Some(indicator(after > before)),
            Self::Passed => (trial.is_wrong && was_below).then(|| indicator(!is_below)),
        }
    }
}

/// Returns 1 for true and 0 for false, so that the mean is a share.
fn indicator(is: bool) -> f64 {
    f64::from(u8::from(is))
}

/// A figure for each [`Effect`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Effects {
    figures: [Option<Figure>; Effect::ALL.len()],
    chains: [usize; Effect::ALL.len()],
}

impl Effects {
    /// Measures the effects of one probe on the chains of `trials`. Scores below `threshold` mean that a chain is
    /// wrong. `seed` is for the bootstrap.
    #[must_use]
    pub fn of(trials: &[Trial], threshold: f32, seed: u64) -> Self {
        let mut numbers: BTreeMap<u32, usize> = BTreeMap::new();
        // Sums and counts for each problem. The bootstrap resamples whole problems, because the chains of a problem
        // are not independent.
        let mut sums: Vec<[(f64, f64); Effect::ALL.len()]> = Vec::new();
        for trial in trials {
            // Problems are renumbered without gaps, so that their numbers can index `sums` and `counts`.
            let next = numbers.len();
            let problem = *numbers.entry(trial.problem).or_insert(next);
            if problem == sums.len() {
                sums.push([(0.0, 0.0); Effect::ALL.len()]);
            }
            for (sum, effect) in sums[problem].iter_mut().zip(Effect::ALL) {
                if let Some(value) = effect.value(trial, f64::from(threshold)) {
                    sum.0 += value;
                    sum.1 += 1.0;
                }
            }
        }
        let chains = std::array::from_fn(|at| sums.iter().map(|sum| sum[at].1 as usize).sum());
        let figures = resample(sums.len(), Effect::ALL.map(Effect::range), seed, |counts| {
            let mut all = [(0.0, 0.0); Effect::ALL.len()];
            for (of_problem, &count) in sums.iter().zip(counts).filter(|(_, count)| **count > 0) {
                for (sum, one) in all.iter_mut().zip(of_problem) {
                    sum.0 += f64::from(count) * one.0;
                    sum.1 += f64::from(count) * one.1;
                }
            }
            all.map(|(sum, count)| (count > 0.0).then(|| sum / count))
        });
        Self { figures, chains }
    }

    /// Returns the mean of an effect, or `None` if the effect is not defined for any chain.
    #[must_use]
    pub fn get(&self, of: Effect) -> Option<Figure> {
        self.figures[of as usize]
    }

    /// Returns the number of chains for which the effect is defined.
    #[must_use]
    pub fn chains(&self, of: Effect) -> usize {
        self.chains[of as usize]
    }
}

impl Serialize for Effects {
    /// Writes a map from each [`Effect`] to its mean; `null` without a mean.
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(Effect::ALL.map(|effect| (effect, self.get(effect))))
    }
}
