//! What a checker says of a step.

use serde::{Deserialize, Serialize};

/// What a checker says of a step.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "verdict")]
pub enum Verdict {
    /// Something in it was verified, and nothing is wrong. It may still be a bad step: a right
    /// equation can be beside the point.
    Pass,
    /// It is provably wrong.
    Fail {
        /// Why, in one line.
        reason: String,
    },
    /// There is nothing to check, or it cannot be decided.
    Abstain,
    /// A verdict was owed, but the checker's program died, was late, or was given up.
    Lost,
}

impl Verdict {
    /// Provably wrong, for this reason.
    #[must_use]
    pub fn fail(reason: impl Into<String>) -> Self {
        Self::Fail {
            reason: reason.into(),
        }
    }

    /// The name in files and messages.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self {
            Self::Pass => "pass",
            Self::Fail { .. } => "fail",
            Self::Abstain => "abstain",
            Self::Lost => "lost",
        }
    }

    /// Whether it is [`Fail`](Self::Fail).
    #[must_use]
    pub fn is_fail(&self) -> bool {
        matches!(self, Self::Fail { .. })
    }

    /// Why the step is wrong, if it is.
    #[must_use]
    pub fn reason(&self) -> Option<&str> {
        match self {
            Self::Fail { reason } => Some(reason),
            _ => None,
        }
    }

    /// Both opinions as one: a failure wins over a pass, that over a lost verdict, and anything over
    /// abstaining.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        let rank = |verdict: &Self| match verdict {
            Self::Fail { .. } => 3,
            Self::Pass => 2,
            Self::Lost => 1,
            Self::Abstain => 0,
        };
        if rank(&other) > rank(&self) {
            other
        } else {
            self
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Verdict;

    #[test]
    fn a_failure_wins_and_abstaining_says_nothing() {
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
