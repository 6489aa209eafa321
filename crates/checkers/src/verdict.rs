//! The verdict of a checker on a step.

use serde::{Deserialize, Serialize};

/// The verdict of a checker on a step.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "verdict")]
pub enum Verdict {
    /// Something in the step was verified and nothing is provably wrong. The step may still be bad:
    /// a right equation can be beside the point.
    Pass,
    /// The step is provably wrong.
    Fail {
        /// The proof in one line, such as `34 + 8 is 42, not 43`.
        reason: String,
    },
    /// The step has nothing to check, or the check cannot decide.
    Abstain,
    /// The checker's program died, was late, or is not started any more.
    Lost,
}

impl Verdict {
    /// Creates a [`Fail`](Self::Fail) with this reason.
    #[must_use]
    pub fn fail(reason: impl Into<String>) -> Self {
        Self::Fail {
            reason: reason.into(),
        }
    }

    /// Returns the name in files and messages.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self {
            Self::Pass => "pass",
            Self::Fail { .. } => "fail",
            Self::Abstain => "abstain",
            Self::Lost => "lost",
        }
    }

    /// Whether the verdict is [`Fail`](Self::Fail).
    #[must_use]
    pub fn is_fail(&self) -> bool {
        matches!(self, Self::Fail { .. })
    }

    /// Returns the reason of a [`Fail`](Self::Fail); `None` for other verdicts.
    #[must_use]
    pub fn reason(&self) -> Option<&str> {
        match self {
            Self::Fail { reason } => Some(reason),
            _ => None,
        }
    }

    /// Combines two verdicts on one step: a failure wins over a pass, a pass over a lost verdict,
    /// and any verdict over abstaining.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        // One proof is enough, whatever another checker verified elsewhere in the step.
        if other.rank() > self.rank() {
            other
        } else {
            self
        }
    }

    fn rank(&self) -> u8 {
        match self {
            Self::Fail { .. } => 3,
            Self::Pass => 2,
            Self::Lost => 1,
            Self::Abstain => 0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Verdict;

    #[test]
    fn a_failure_wins_and_abstaining_loses() {
        let (pass, fail, none) = (Verdict::Pass, Verdict::fail("no"), Verdict::Abstain);
        assert_eq!(Verdict::Lost.and(pass.clone()), pass);
        assert_eq!(Verdict::Lost.and(none.clone()), Verdict::Lost);
        assert_eq!(none.clone().and(Verdict::Lost), Verdict::Lost);
        assert_eq!(pass.clone().and(fail.clone()), fail);
        assert_eq!(fail.clone().and(pass.clone()), fail);
        assert_eq!(none.clone().and(fail.clone()), fail);
        assert_eq!(none.clone().and(pass.clone()), pass);
        assert_eq!(pass.clone().and(none.clone()), pass);
        assert_eq!(none.clone().and(none.clone()), none);
    }
}
