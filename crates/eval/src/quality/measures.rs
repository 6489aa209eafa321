//! The figures that are reported of a set of scored chains.

use serde::Serialize;
use serde::ser::{SerializeMap, Serializer};

use super::Figure;
use crate::metrics::Range;

/// A figure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Measure {
    /// ProcessBench's a: wrong chains whose first wrong step is the first flagged one.
    OnWrong,
    /// ProcessBench's b: right chains without a flag.
    OnRight,
    /// Harmonic mean of the two (2412.06559).
    FirstErrorF1,
    /// Wrong chains whose first wrong step is flagged: PRMBench's first-error accuracy.
    FirstErrorFlagged,
    /// Half the F1 of right steps and half that of wrong ones (PRMBench, 2501.03124).
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
    EceWidth,
    /// The same over bins with equally many steps.
    EceMass,
    /// Mean score of right steps.
    ScoreRight,
    /// Mean score of wrong steps.
    ScoreWrong,
    /// Mean distance of the scores from one half, 0 to 0.5.
    Certainty,
    /// Mean entropy of the scores in bits, 0 to 1.
    Entropy,
    /// Chains of at least two steps whose lowest score is the last step's (the first of equal ones
    /// counts): outcome drift (2501.07301).
    OutcomeDrift,
    /// Pearson's correlation of score and length among right steps.
    LengthRight,
    /// The same among wrong steps.
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

    /// The key in JSON.
    #[must_use]
    pub fn key(self) -> &'static str {
        match self {
            Self::OnWrong => "accuracy_on_wrong",
            Self::OnRight => "accuracy_on_right",
            Self::FirstErrorF1 => "first_error_f1",
            Self::FirstErrorFlagged => "first_error_flagged",
            Self::PrmScore => "prm_score",
            Self::F1Right => "f1_right",
            Self::F1Wrong => "f1_wrong",
            Self::BalancedAccuracy => "balanced_accuracy",
            Self::Auc => "auc",
            Self::Brier => "brier",
            Self::EceWidth => "ece_equal_width",
            Self::EceMass => "ece_equal_mass",
            Self::ScoreRight => "mean_score_right",
            Self::ScoreWrong => "mean_score_wrong",
            Self::Certainty => "distance_from_half",
            Self::Entropy => "entropy_bits",
            Self::OutcomeDrift => "minimum_in_last_step",
            Self::LengthRight => "score_length_correlation_right",
            Self::LengthWrong => "score_length_correlation_wrong",
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
    /// A map from [`Measure::key`]; what has no meaning is `null`.
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(self.0.len()))?;
        for measure in Measure::ALL {
            map.serialize_entry(measure.key(), &self.get(measure))?;
        }
        map.end()
    }
}
