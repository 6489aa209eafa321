//! The first wrong step of a chain, by labels and by scores.

use serde::Serialize;

use super::ScoredChain;
use crate::metrics::first_error;

/// The first wrong step of a chain: the labelled one and the predicted one.
#[derive(Clone, Copy, Debug)]
pub(super) struct Prediction {
    /// The index of the first step labelled wrong; `None` if all steps are right.
    pub label: Option<usize>,
    /// The index of the first flagged step; `None` if no step is flagged, [`REFUSED`] if the chain has no scores.
    pub predicted: Option<usize>,
    /// True if the first wrong step is flagged, even if an earlier step is flagged too.
    pub is_flagged: bool,
}

/// The prediction for a chain that the model refused. No label has this value, so a refused chain is always a miss.
const REFUSED: usize = usize::MAX;

impl Prediction {
    /// Compares labels with scores below `threshold`; returns `None` if the labels do not determine the first wrong
    /// step.
    pub(super) fn new(chain: &ScoredChain, threshold: f32) -> Option<Self> {
        let label = chain.first_error()?;
        let predicted = match &chain.scores {
            Some(scores) => first_error(scores, threshold),
            None => Some(REFUSED),
        };
        let wrong_score = label.and_then(|at| Some(chain.scores.as_ref()?[at]));
        Some(Self {
            label,
            predicted,
            is_flagged: wrong_score.is_some_and(|score| score < threshold),
        })
    }
}

/// Returns the harmonic mean of two shares, or 0 if both are 0.
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
    pub(super) fn add(&mut self, chain: Prediction) {
        let hit = f64::from(u8::from(chain.label == chain.predicted));
        if chain.label.is_some() {
            self.wrong += 1.0;
            self.found += hit;
            self.flagged += f64::from(u8::from(chain.is_flagged));
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

    /// Returns the share of wrong chains whose first wrong step is the first flagged one (a of `ProcessBench`).
    pub(super) fn on_wrong(&self) -> Option<f64> {
        (self.wrong > 0.0).then(|| self.found / self.wrong)
    }

    /// Returns the share of right chains without a flagged step (b of `ProcessBench`).
    pub(super) fn on_right(&self) -> Option<f64> {
        (self.right > 0.0).then(|| self.kept / self.right)
    }

    /// Returns the harmonic mean of [`on_wrong`](Self::on_wrong) and [`on_right`](Self::on_right), the F1 of
    /// `ProcessBench`.
    pub(super) fn f1(&self) -> Option<f64> {
        Some(harmonic(self.on_wrong()?, self.on_right()?))
    }

    /// Returns the share of wrong chains whose first wrong step is flagged, even after earlier flags (first-error
    /// accuracy of `PRMBench`).
    pub(super) fn flagged(&self) -> Option<f64> {
        (self.wrong > 0.0).then(|| self.flagged / self.wrong)
    }
}

/// The best value of a measure over thresholds. The value is an upper bound, because the threshold is chosen on the
/// measured data.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Best {
    /// The threshold with the best value, 0.01 to 0.99.
    pub threshold: f32,
    /// The value of the measure at `threshold`, the highest of all.
    pub value: f64,
}

impl Best {
    /// Searches the thresholds 0.01, 0.02 to 0.99, as published evaluations do. The lowest threshold wins a tie.
    /// Returns `None` if `value` is `None` everywhere.
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

    /// Returns the best F1 of first errors, or `None` if the chains are all right or all wrong.
    #[must_use]
    pub fn first_error_f1(chains: &[ScoredChain]) -> Option<Self> {
        Self::of(|threshold| {
            let mut counts = FirstErrors::default();
            for prediction in chains.iter().filter_map(|c| Prediction::new(c, threshold)) {
                counts.add(prediction);
            }
            counts.f1()
        })
    }
}
