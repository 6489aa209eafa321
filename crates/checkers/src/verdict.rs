//! The verdict on one step.

use serde::{Deserialize, Serialize};

/// A checker's verdict on one step of a chain.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "verdict")]
pub enum Verdict {
    /// Something in the step was verified and nothing was proved wrong. The step may still be bad,
    /// since a true equation may be irrelevant.
    Pass,
    /// The step was proved wrong.
    Fail {
        /// The proof in one line, e.g. `34 + 8 is 42, not 43`.
        reason: String,
    },
    /// The step has nothing to check, or the checker cannot decide.
    Abstain,
    /// The external program gave no verdict: it crashed, was late, or was given up.
    Lost,
}

impl Verdict {
    /// Makes a [`Fail`](Self::Fail); `reason` should be one line.
    #[must_use]
    pub fn fail(reason: impl Into<String>) -> Self {
        Self::Fail {
            reason: reason.into(),
        }
    }

    /// Returns the lower-case name, which is also the serialized form.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self {
            Self::Pass => "pass",
            Self::Fail { .. } => "fail",
            Self::Abstain => "abstain",
            Self::Lost => "lost",
        }
    }

    /// Whether the step was proved wrong.
    #[must_use]
    pub fn is_fail(&self) -> bool {
        matches!(self, Self::Fail { .. })
    }

    /// Returns the proof of a [`Fail`](Self::Fail); `None` for other verdicts.
    #[must_use]
    pub fn reason(&self) -> Option<&str> {
        match self {
            Self::Fail { reason } => Some(reason),
            _ => None,
        }
    }

    /// Combines two verdicts on one step. The stronger one wins: `Fail`, then `Pass`, then `Lost`,
    /// then `Abstain`.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        // On equal rank the first verdict stays, so the first proof is reported.
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
