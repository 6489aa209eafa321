//! What a change does to the scores: paired means, with intervals over problems.

use std::collections::BTreeMap;

use serde::Serialize;
use serde::ser::Serializer;

use super::Trial;
use crate::metrics::Range;
use crate::quality::{Figure, resample};

/// A figure of a probe. Each is a mean over the chains that it is defined for. JSON has it under its
/// name as it is serialised.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Effect {
    /// The chain's score as it was.
    #[serde(rename = "chain_before")]
    Before,
    /// The changed chain's score.
    #[serde(rename = "chain_after")]
    After,
    /// The difference of the two.
    #[serde(rename = "chain_change")]
    Change,
    /// The score of the step that the touched one is compared with.
    StepBefore,
    /// The touched step's score.
    StepAfter,
    /// The difference of the two.
    StepChange,
    /// Of chains that were not below the threshold, the share that is now.
    Noticed,
    /// The share of chains whose score fell at all.
    Fell,
    /// The share of chains whose score rose at all.
    Rose,
    /// Of wrong chains that were below the threshold, the share that is no more.
    #[serde(rename = "wrong_chains_passed")]
    Passed,
}

impl Effect {
    /// All of them, in the order of reports.
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

    /// The values that it can take.
    fn range(self) -> Range {
        match self {
            Self::Change | Self::StepChange => Range::Signed,
            _ => Range::Unit,
        }
    }

    /// Its value for one chain, if it is defined for it.
    fn of(self, trial: &Trial, threshold: f64) -> Option<f64> {
        let is = |is: bool| f64::from(u8::from(is));
        let below = |score: f64| score < threshold;
        let (before, after) = (trial.before, trial.after);
        match self {
            Self::Before => Some(before),
            Self::After => Some(after),
            Self::Change => Some(after - before),
            Self::StepBefore => trial.step_before,
            Self::StepAfter => trial.step_after,
            Self::StepChange => Some(trial.step_after? - trial.step_before?),
            Self::Noticed => (!below(before)).then(|| is(below(after))),
            Self::Fell => Some(is(after < before)),
            Self::Rose => Some(is(after > before)),
            Self::Passed => (trial.is_wrong && below(before)).then(|| is(!below(after))),
        }
    }
}

/// A figure for each [`Effect`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Effects {
    figures: [Option<Figure>; Effect::ALL.len()],
    chains: [usize; Effect::ALL.len()],
}

impl Effects {
    /// Measures trials of one probe. A score below `threshold` calls a chain wrong; the draws of the
    /// bootstrap come from `seed`.
    #[must_use]
    pub fn of(trials: &[Trial], threshold: f32, seed: u64) -> Self {
        let mut numbers: BTreeMap<u32, usize> = BTreeMap::new();
        let mut sums: Vec<[(f64, f64); Effect::ALL.len()]> = Vec::new();
        for trial in trials {
            let next = numbers.len();
            let problem = *numbers.entry(trial.problem).or_insert(next);
            if problem == sums.len() {
                sums.push([(0.0, 0.0); Effect::ALL.len()]);
            }
            for (sum, effect) in sums[problem].iter_mut().zip(Effect::ALL) {
                if let Some(value) = effect.of(trial, f64::from(threshold)) {
                    sum.0 += value;
                    sum.1 += 1.0;
                }
            }
        }
        let chains = |at: usize| sums.iter().map(|of| of[at].1 as usize).sum();
        let chains = std::array::from_fn(chains);
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

    /// The figure; `None` if no chain defines it.
    #[must_use]
    pub fn get(&self, of: Effect) -> Option<Figure> {
        self.figures[of as usize]
    }

    /// How many chains the figure is a mean of.
    #[must_use]
    pub fn chains(&self, of: Effect) -> usize {
        self.chains[of as usize]
    }
}

impl Serialize for Effects {
    /// A map from each [`Effect`]; what has no meaning is `null`.
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(Effect::ALL.map(|effect| (effect, self.get(effect))))
    }
}
