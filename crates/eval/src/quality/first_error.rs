//! First errors: what is known of a chain's, and what is predicted.

use serde::Serialize;

use super::ScoredChain;
use crate::metrics::first_error;

/// A chain's first error beside the predicted one.
#[derive(Clone, Copy, Debug)]
pub(super) struct Prediction {
    /// The first wrong step, or `None` if all are right.
    pub label: Option<usize>,
    /// The first flagged one. No step has the index [`REFUSED`].
    pub predicted: Option<usize>,
    /// Whether the first wrong step itself is flagged, whatever stands before it.
    pub is_flagged: bool,
}

/// What is predicted of a chain that the model refused: neither a step nor "all right".
const REFUSED: usize = usize::MAX;

impl Prediction {
    /// `None` if the labels do not tell the first error.
    pub(super) fn of(chain: &ScoredChain, threshold: f32) -> Option<Self> {
        let label = chain.first_error()?;
        let predicted = match &chain.scores {
            Some(scores) => first_error(scores, threshold),
            None => Some(REFUSED),
        };
        let flagged = |at: usize| chain.scores.as_ref().is_some_and(|s| s[at] < threshold);
        Some(Self {
            label,
            predicted,
            is_flagged: label.is_some_and(flagged),
        })
    }
}

/// The harmonic mean of two shares; 0 if both are.
pub(super) fn harmonic(a: f64, b: f64) -> f64 {
    if a + b > 0.0 {
        2.0 * a * b / (a + b)
    } else {
        0.0
    }
}

/// Weighted counts of first-error predictions.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct FirstErrors {
    wrong: f64,
    found: f64,
    flagged: f64,
    right: f64,
    kept: f64,
}

impl FirstErrors {
    pub(super) fn add(&mut self, of: Prediction) {
        let one = |is: bool| f64::from(u8::from(is));
        let hit = one(of.label == of.predicted);
        if of.label.is_some() {
            self.wrong += 1.0;
            self.found += hit;
            self.flagged += one(of.is_flagged);
        } else {
            self.right += 1.0;
            self.kept += hit;
        }
    }

    /// Adds other counts, `weight` times.
    pub(super) fn merge(&mut self, other: &Self, weight: f64) {
        self.wrong += weight * other.wrong;
        self.found += weight * other.found;
        self.flagged += weight * other.flagged;
        self.right += weight * other.right;
        self.kept += weight * other.kept;
    }

    /// `ProcessBench`'s a: the share of wrong chains whose first wrong step is the first flagged one.
    pub(super) fn on_wrong(&self) -> Option<f64> {
        (self.wrong > 0.0).then(|| self.found / self.wrong)
    }

    /// `ProcessBench`'s b: the share of right chains without a flag.
    pub(super) fn on_right(&self) -> Option<f64> {
        (self.right > 0.0).then(|| self.kept / self.right)
    }

    /// `ProcessBench`'s F1: the harmonic mean of the two.
    pub(super) fn f1(&self) -> Option<f64> {
        Some(harmonic(self.on_wrong()?, self.on_right()?))
    }

    /// `PRMBench`'s first-error accuracy: the share of wrong chains whose first wrong step is
    /// flagged, whether or not earlier ones are.
    pub(super) fn flagged(&self) -> Option<f64> {
        (self.wrong > 0.0).then(|| self.flagged / self.wrong)
    }
}

/// The best value over thresholds, and where. The threshold is chosen on the data that it is
/// measured on, so this is an upper bound and not a result.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Best {
    /// The threshold.
    pub threshold: f32,
    /// The value there.
    pub value: f64,
}

impl Best {
    /// Searches the thresholds 0.01 to 0.99 in steps of a hundredth, as published evaluations do;
    /// the lowest of several best ones. `None` if there is no value at any.
    pub fn of(mut value: impl FnMut(f32) -> Option<f64>) -> Option<Self> {
        let mut best: Option<Self> = None;
        for percent in 1..100_u8 {
            let threshold = f32::from(percent) / 100.0;
            let Some(value) = value(threshold) else {
                continue;
            };
            if best.is_none_or(|best| value > best.value) {
                best = Some(Self { threshold, value });
            }
        }
        best
    }

    /// The best first-error F1 of chains.
    #[must_use]
    pub fn first_error_f1(chains: &[ScoredChain]) -> Option<Self> {
        Self::of(|threshold| {
            let mut counts = FirstErrors::default();
            for prediction in chains.iter().filter_map(|c| Prediction::of(c, threshold)) {
                counts.add(prediction);
            }
            counts.f1()
        })
    }
}
