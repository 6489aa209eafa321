//! Abstaining: how often answers are wrong among those whose score reaches a threshold.

use serde::{Deserialize, Serialize};

/// The answers of a search on problems with known answers, by the score of the chosen chain.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RiskCurve {
    /// What stands for the search that gave them: settings and models.
    pub search: String,
    /// Problems, those without an answer included.
    pub problems: usize,
    /// By falling threshold.
    pub points: Vec<RiskPoint>,
}

/// The answers at or above a threshold.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RiskPoint {
    /// The lowest score that is answered.
    pub threshold: f32,
    /// Answers given.
    pub given: usize,
    /// Those of them that are wrong.
    pub wrong: usize,
}

impl RiskPoint {
    /// The share of wrong ones among the answers given.
    #[must_use]
    pub fn risk(&self) -> f64 {
        self.wrong as f64 / self.given.max(1) as f64
    }
}

impl RiskCurve {
    /// The curve of these answers: the score of the chosen chain, and whether its answer is right;
    /// `None` for a problem without an answer or a score.
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
            // Equal scores are answered together.
            match points.last_mut().filter(|last| last.threshold == *score) {
                Some(last) => *last = point,
                None => points.push(point),
            }
        }
        Self {
            search,
            problems,
            points,
        }
    }

    /// The point with the most answers whose error is at most `wanted`: one more answer, counted as
    /// wrong, must not lift it above (conformal risk control, 2208.02814: so the expected error on
    /// further problems stays at `wanted` although the threshold was chosen on these). `None` if
    /// there is none.
    #[must_use]
    pub fn point(&self, wanted: f64) -> Option<RiskPoint> {
        let holds =
            |point: &&RiskPoint| (point.wrong + 1) as f64 <= wanted * (point.given + 1) as f64;
        self.points.iter().rev().find(holds).copied()
    }
}
