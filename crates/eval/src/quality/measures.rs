//! The list of measures of scored chains, and their figures.

use serde::Serialize;
use serde::ser::Serializer;

use super::Figure;
use crate::metrics::Range;

/// A measure of scored chains. Reports in JSON use the serialised name as the key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Measure {
    /// `ProcessBench`'s a: the share of wrong chains whose first wrong step is the first flagged
    /// step (arXiv 2412.06559).
    #[serde(rename = "accuracy_on_wrong")]
    OnWrong,
    /// `ProcessBench`'s b: the share of right chains without a flag.
    #[serde(rename = "accuracy_on_right")]
    OnRight,
    /// `ProcessBench`'s F1: the harmonic mean of a and b.
    FirstErrorF1,
    /// `PRMBench`'s first-error accuracy: the share of wrong chains whose first wrong step is
    /// flagged, with or without earlier flags.
    FirstErrorFlagged,
    /// The mean of the F1 of right steps and the F1 of wrong steps (`PRMBench`, arXiv 2501.03124).
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
    /// Expected calibration error over bins with equally many steps.
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
    /// Outcome drift (arXiv 2501.07301): the share of chains of at least two steps whose lowest
    /// score is only the last step's.
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
    /// All measures, in the order of a report.
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

    /// Returns the range of the values, for the interval of a figure that resampling does not vary.
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
    /// Returns the figure; `None` if the measure has no meaning on the data.
    #[must_use]
    pub fn get(&self, of: Measure) -> Option<Figure> {
        self.0[of as usize]
    }
}

impl Serialize for Figures {
    /// Writes a map from each [`Measure`] to its figure, `null` for a measure without a meaning.
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(Measure::ALL.map(|measure| (measure, self.get(measure))))
    }
}
