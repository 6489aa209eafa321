//! Sums over the steps and chains of a problem, from which all measures except the ROC area are computed. A bootstrap
//! sample only adds up these sums with weights.

use super::calibration::Sums;
use super::first_error::FirstErrors;
use super::{Confusion, Measure, Moments};

#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Tally {
    pub first_errors: FirstErrors,
    /// The number of chains with at least two scores whose last score is lower than all others.
    pub drifted: f64,
    /// The number of chains with at least two scores, the denominator of outcome drift.
    pub could_drift: f64,
    pub confusion: Confusion,
    /// The moments of score and length: of wrong steps at index 0, of right steps at index 1.
    pub lengths: [Moments; 2],
    pub width: Sums,
    pub mass: Sums,
    /// The number of scored steps with a label, one half included.
    pub steps: f64,
    /// The sum of the squared differences of score and label.
    pub squares: f64,
    /// The sum of the distances of scores from one half.
    pub certain: f64,
    pub entropy: f64,
    /// The number and the sum of scores: of wrong steps at index 0, of right steps at index 1.
    pub scores: [(f64, f64); 2],
}

impl Tally {
    /// Adds the sums of `other` `weight` times, as a bootstrap sample repeats a problem.
    pub(super) fn merge(&mut self, other: &Self, weight: f64) {
        self.first_errors.merge(&other.first_errors, weight);
        self.drifted += weight * other.drifted;
        self.could_drift += weight * other.could_drift;
        self.confusion.merge(&other.confusion, weight);
        for class in 0..2 {
            self.lengths[class].merge(&other.lengths[class], weight);
            self.scores[class].0 += weight * other.scores[class].0;
            self.scores[class].1 += weight * other.scores[class].1;
        }
        self.width.merge(&other.width, weight);
        self.mass.merge(&other.mass, weight);
        self.steps += weight * other.steps;
        self.squares += weight * other.squares;
        self.certain += weight * other.certain;
        self.entropy += weight * other.entropy;
    }

    /// Returns the value of a measure, or `None` if it is not defined on these sums. [`Measure::Auc`] is never
    /// defined, because it needs the order of scores.
    pub(super) fn value(&self, measure: Measure) -> Option<f64> {
        match measure {
            Measure::OnWrong => self.first_errors.on_wrong(),
            Measure::OnRight => self.first_errors.on_right(),
            Measure::FirstErrorF1 => self.first_errors.f1(),
            Measure::FirstErrorFlagged => self.first_errors.flagged(),
            Measure::PrmScore => self.confusion.prm_score(),
            Measure::F1Right => self.confusion.f1_right(),
            Measure::F1Wrong => self.confusion.f1_wrong(),
            Measure::BalancedAccuracy => self.confusion.balanced_accuracy(),
            Measure::Auc => None,
            Measure::Brier => mean(self.squares, self.steps),
            Measure::EceWidth => self.width.error(),
            Measure::EceMass => self.mass.error(),
            Measure::ScoreRight => mean(self.scores[1].1, self.scores[1].0),
            Measure::ScoreWrong => mean(self.scores[0].1, self.scores[0].0),
            Measure::Certainty => mean(self.certain, self.steps),
            Measure::Entropy => mean(self.entropy, self.steps),
            Measure::OutcomeDrift => mean(self.drifted, self.could_drift),
            Measure::LengthRight => self.lengths[1].correlation(),
            Measure::LengthWrong => self.lengths[0].correlation(),
        }
    }
}

fn mean(sum: f64, count: f64) -> Option<f64> {
    (count > 0.0).then(|| sum / count)
}
