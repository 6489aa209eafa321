//! The effect of a change on the scores: paired means, with bootstrap intervals over problems.

use std::collections::BTreeMap;

use serde::Serialize;
use serde::ser::Serializer;

use super::Trial;
use crate::metrics::Range;
use crate::quality::{Figure, resample};

/// A figure of a probe: the mean of a value over the chains that define it. Reports in JSON use the
/// serialised name as the key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Effect {
    /// The chain's score before the change, 0 to 1.
    #[serde(rename = "chain_before")]
    Before,
    /// The chain's score after the change, 0 to 1.
    #[serde(rename = "chain_after")]
    After,
    /// The chain's score after the change less the score before it.
    #[serde(rename = "chain_change")]
    Change,
    /// The score of the touched step before the change.
    StepBefore,
    /// The score of the touched step after the change.
    StepAfter,
    /// The touched step's score after the change less the score before it.
    StepChange,
    /// The share of the chains at or above the threshold that fall below it.
    Noticed,
    /// The share of chains whose score fell at all.
    Fell,
    /// The share of chains whose score rose at all.
    Rose,
    /// The share of the wrong chains below the threshold that are lifted to it.
    #[serde(rename = "wrong_chains_passed")]
    Passed,
}

impl Effect {
    /// All effects, in the order of reports.
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

    /// Returns the value for one chain; `None` if the chain does not define it.
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
            // A chain that was below already cannot show that the fault was noticed.
            Self::Noticed => (!was_below).then(|| indicator(is_below)),
            Self::Fell => Some(indicator(after < before)),
            Self::Rose => Some(indicator(after > before)),
            Self::Passed => (trial.is_wrong && was_below).then(|| indicator(!is_below)),
        }
    }
}

/// Returns 1 for true, so that a mean of indicators is a share.
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
    /// Measures the trials of one probe. A score below `threshold` calls a chain wrong. `seed` is
    /// the seed of the bootstrap.
    #[must_use]
    pub fn of(trials: &[Trial], threshold: f32, seed: u64) -> Self {
        let mut numbers: BTreeMap<u32, usize> = BTreeMap::new();
        // Sums and counts by problem: the bootstrap samples whole problems, because chains of one
        // problem are not independent.
        let mut sums: Vec<[(f64, f64); Effect::ALL.len()]> = Vec::new();
        for trial in trials {
            // Renumbered without gaps, so that a problem is an index into the bootstrap's counts.
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

    /// Returns the mean with its interval; `None` if no chain defines the effect.
    #[must_use]
    pub fn get(&self, of: Effect) -> Option<Figure> {
        self.figures[of as usize]
    }

    /// Returns the number of chains in the mean.
    #[must_use]
    pub fn chains(&self, of: Effect) -> usize {
        self.chains[of as usize]
    }
}

impl Serialize for Effects {
    /// Writes a map from each [`Effect`] to its figure, `null` if no chain defines the effect.
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(Effect::ALL.map(|effect| (effect, self.get(effect))))
    }
}
