//! The measures of scored chains, and a list with a figure for each.

use serde::Serialize;
use serde::ser::Serializer;

use super::Figure;
use crate::metrics::Range;

/// A measure of scored chains. The serialised name is the key in JSON reports.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Measure {
    /// The share of wrong chains whose first wrong step is the first flagged one: a of `ProcessBench` (arXiv
    /// 2412.06559).
    #[serde(rename = "accuracy_on_wrong")]
    OnWrong,
    /// The share of right chains without a flagged step: b of `ProcessBench`.
    #[serde(rename = "accuracy_on_right")]
    OnRight,
    /// The harmonic mean of `OnWrong` and `OnRight`: the F1 of `ProcessBench`.
    FirstErrorF1,
    /// The share of wrong chains whose first wrong step is flagged, even after earlier flags: the first-error
    /// accuracy of `PRMBench`.
    FirstErrorFlagged,
    /// The mean of `F1Right` and `F1Wrong`: the `PRMScore` of `PRMBench` (arXiv 2501.03124).
    PrmScore,
    /// F1 of right steps.
    F1Right,
    /// F1 of wrong steps.
    F1Wrong,
    /// Mean of the accuracies on right and on wrong steps.
    BalancedAccuracy,
    /// Area under the ROC curve.
    Auc,
    /// Mean squared distance of score and label.
    Brier,
    /// Expected calibration error over equally wide bins.
    #[serde(rename = "ece_equal_width")]
    EceWidth,
    /// Expected calibration error over bins with about equally many steps.
    #[serde(rename = "ece_equal_mass")]
    EceMass,
    /// Mean score of right steps.
    #[serde(rename = "mean_score_right")]
    ScoreRight,
    /// Mean score of wrong steps.
    #[serde(rename = "mean_score_wrong")]
    ScoreWrong,
    /// Mean distance of the scores from one half, 0 to 0.5.
    #[serde(rename = "distance_from_half")]
    Certainty,
    /// Mean entropy of the scores in bits, 0 to 1.
    #[serde(rename = "entropy_bits")]
    Entropy,
    /// The share of chains of at least two steps in which the last step has the only lowest score. A high share
    /// suggests that the model scores outcomes (outcome drift, arXiv 2501.07301).
    #[serde(rename = "minimum_in_last_step")]
    OutcomeDrift,
    /// Pearson's correlation of score and length among right steps.
    #[serde(rename = "score_length_correlation_right")]
    LengthRight,
    /// Pearson's correlation of score and length among wrong steps.
    #[serde(rename = "score_length_correlation_wrong")]
    LengthWrong,
}

impl Measure {
    /// All measures in the order of reports, which is that of the variants.
    pub const ALL: [Self; 19] = [
        Self::OnWrong,
        Self::OnRight,
        Self::FirstErrorF1,
        Self::FirstErrorFlagged,
        Self::PrmScore,
        Self::F1Right,
        Self::F1Wrong,
        Self::BalancedAccuracy,
        Self::Auc,
        Self::Brier,
        Self::EceWidth,
        Self::EceMass,
        Self::ScoreRight,
        Self::ScoreWrong,
        Self::Certainty,
        Self::Entropy,
        Self::OutcomeDrift,
        Self::LengthRight,
        Self::LengthWrong,
    ];

    /// Returns the range of the measure, which decides the interval if all bootstrap samples are equal.
    pub(super) fn range(self) -> Range {
        match self {
            Self::LengthRight | Self::LengthWrong => Range::Signed,
            _ => Range::Unit,
        }
    }
}

/// A figure for each [`Measure`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Figures(pub(super) [Option<Figure>; Measure::ALL.len()]);

impl Figures {
    /// Returns the figure, or `None` if the measure is not defined on the data.
    #[must_use]
    pub fn get(&self, of: Measure) -> Option<Figure> {
        self.0[of as usize]
    }
}

impl Serialize for Figures {
    /// Writes a map from each [`Measure`] to its figure; `null` for a measure that is not defined.
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(Measure::ALL.map(|measure| (measure, self.get(measure))))
    }
}
