//! The first wrong step of a chain by its labels, and by a model's scores.

use serde::Serialize;

use super::ScoredChain;
use crate::metrics::first_error;

/// The labelled and the predicted first wrong step of one chain.
#[derive(Clone, Copy, Debug)]
pub(super) struct Prediction {
    /// The index of the first wrong step; `None` if all steps are right.
    pub label: Option<usize>,
    /// The index of the first flagged step; `None` without a flag, and [`REFUSED`] without scores.
    pub predicted: Option<usize>,
    /// Whether the first wrong step is flagged, with or without earlier flags.
    pub is_flagged: bool,
}

/// The prediction for a chain that the model refused. The index equals neither a step's nor `None`,
/// so a refused chain always counts as a miss.
const REFUSED: usize = usize::MAX;

impl Prediction {
    /// Predicts the first error of a chain; returns `None` if the labels do not determine it.
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

/// Returns the harmonic mean of two shares; 0 if both are 0.
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

    /// Returns `ProcessBench`'s a: the share of wrong chains whose first wrong step is the first
    /// flagged step.
    pub(super) fn on_wrong(&self) -> Option<f64> {
        (self.wrong > 0.0).then(|| self.found / self.wrong)
    }

    /// Returns `ProcessBench`'s b: the share of right chains without a flag.
    pub(super) fn on_right(&self) -> Option<f64> {
        (self.right > 0.0).then(|| self.kept / self.right)
    }

    /// Returns `ProcessBench`'s F1: the harmonic mean of a and b.
    pub(super) fn f1(&self) -> Option<f64> {
        Some(harmonic(self.on_wrong()?, self.on_right()?))
    }

    /// Returns `PRMBench`'s first-error accuracy: the share of wrong chains whose first wrong step
    /// is flagged, with or without earlier flags.
    pub(super) fn flagged(&self) -> Option<f64> {
        (self.wrong > 0.0).then(|| self.flagged / self.wrong)
    }
}

/// The best value of a measure over thresholds. The threshold is chosen on the data that it is
/// measured on, so the value is an upper bound and not a result.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Best {
    /// The threshold of the best value, 0.01 to 0.99.
    pub threshold: f32,
    /// The value at the threshold.
    pub value: f64,
}

impl Best {
    /// Searches the thresholds 0.01 to 0.99 in steps of a hundredth, as published evaluations do. A
    /// tie goes to the lowest threshold. Returns `None` if no threshold has a value.
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

    /// Returns the best first-error F1 of chains over thresholds.
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
