//! Abstention: the share of wrong answers if only answers with a score of at least a threshold are given.

use serde::{Deserialize, Serialize};

use crate::profile::Profile;

/// The numbers of given and of wrong answers of a search at each threshold, counted on problems with reference
/// answers.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RiskCurve {
    /// The key of the search, a fingerprint of its settings and models.
    pub search: String,
    /// The number of problems, including those without an answer.
    pub problems: usize,
    /// The counts at each distinct score of a chosen chain, sorted by falling threshold.
    pub points: Vec<RiskPoint>,
    /// The profile of these searches, the reference for later ones; `None` in files of older versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub profile: Option<Profile>,
}

/// The answers at or above a threshold.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RiskPoint {
    /// The lowest score with which an answer is given.
    pub threshold: f32,
    /// The number of answers with at least this score.
    pub given: usize,
    /// The number of wrong answers among `given`.
    pub wrong: usize,
}

impl RiskPoint {
    /// Returns the share of wrong answers among the given ones, or 0 if there are none.
    #[must_use]
    pub fn risk(&self) -> f64 {
        self.wrong as f64 / self.given.max(1) as f64
    }
}

impl RiskCurve {
    /// Builds the curve from one item for each problem: the score of the chosen chain, and whether its answer is
    /// right. `None` stands for a problem without an answer or a score.
    pub fn of(search: String, answers: impl IntoIterator<Item = Option<(f32, bool)>>) -> Self {
        let mut problems = 0;
        let mut given: Vec<(f32, bool)> = Vec::new();
        for answer in answers {
            problems += 1;
            given.extend(answer);
        }
        given.sort_by(|a, b| b.0.total_cmp(&a.0));
        let mut points: Vec<RiskPoint> = Vec::new();
        let mut wrong = 0;
        for (at, (score, right)) in given.iter().enumerate() {
            wrong += usize::from(!right);
            let point = RiskPoint {
                threshold: *score,
                given: at + 1,
                wrong,
            };
            // A threshold cannot separate equal scores, so they have one point.
            match points.last_mut().filter(|last| last.threshold == *score) {
                Some(last) => *last = point,
                None => points.push(point),
            }
        }
        Self {
            search,
            problems,
            points,
            profile: None,
        }
    }

    /// Returns the point with the most answers at which the risk is at most `wanted` even after one more wrong
    /// answer. `None` means that no point is. The expected risk on other problems is then at most `wanted`, although
    /// the threshold was chosen on these problems (conformal risk control, arXiv 2208.02814).
    #[must_use]
    pub fn point(&self, wanted: f64) -> Option<RiskPoint> {
        let holds =
            |point: &&RiskPoint| (point.wrong + 1) as f64 <= wanted * (point.given + 1) as f64;
        self.points.iter().rev().find(holds).copied()
    }
}
