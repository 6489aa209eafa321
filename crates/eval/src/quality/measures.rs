//! The figures that are reported of a set of scored chains.

use serde::Serialize;
use serde::ser::Serializer;

use super::Figure;
use crate::metrics::Range;

/// A figure. JSON has it under its name as it is serialised.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Measure {
    /// `ProcessBench`'s a: wrong chains whose first wrong step is the first flagged one.
    #[serde(rename = "accuracy_on_wrong")]
    OnWrong,
    /// `ProcessBench`'s b: right chains without a flag.
    #[serde(rename = "accuracy_on_right")]
    OnRight,
    /// Harmonic mean of the two (2412.06559).
    FirstErrorF1,
    /// Wrong chains whose first wrong step is flagged: `PRMBench`'s first-error accuracy.
    FirstErrorFlagged,
    /// Half the F1 of right steps and half that of wrong ones (`PRMBench`, 2501.03124).
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
    /// The same over bins with equally many steps.
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
    /// Chains of at least two steps whose lowest score is the last step's (the first of equal ones
    /// counts): outcome drift (2501.07301).
    #[serde(rename = "minimum_in_last_step")]
    OutcomeDrift,
    /// Pearson's correlation of score and length among right steps.
    #[serde(rename = "score_length_correlation_right")]
    LengthRight,
    /// The same among wrong steps.
    #[serde(rename = "score_length_correlation_wrong")]
    LengthWrong,
}

impl Measure {
    /// All of them, in the order of a report.
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

    /// The values that it can take.
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
    /// The figure; `None` if it has no meaning on the data.
    #[must_use]
    pub fn get(&self, of: Measure) -> Option<Figure> {
        self.0[of as usize]
    }
}

impl Serialize for Figures {
    /// A map from each [`Measure`]; what has no meaning is `null`.
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(Measure::ALL.map(|measure| (measure, self.get(measure))))
    }
}
