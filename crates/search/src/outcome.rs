//! The outcome of a whole chain: whether it is right.

use std::fmt;

use serde::{Deserialize, Serialize};

/// The finding of a verifier about a chain.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Outcome {
    /// Whether the chain is right.
    pub kind: OutcomeKind,
    /// The reason, in one line; empty if the verifier gives none.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub reason: String,
    /// The parts of the task that the chain solves, and all its parts, such as the tests of a
    /// program.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parts: Option<(u32, u32)>,
}

impl Outcome {
    /// Makes an outcome without parts.
    pub fn new(kind: OutcomeKind, reason: impl Into<String>) -> Self {
        Self {
            kind,
            reason: reason.into(),
            parts: None,
        }
    }

    /// Whether the chain is proved right.
    pub fn is_right(&self) -> bool {
        self.kind == OutcomeKind::Right
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.kind.words())?;
        if let Some((solved, all)) = self.parts {
            write!(f, ", {solved} of {all}")?;
        }
        if !self.reason.is_empty() {
            write!(f, ": {}", self.reason)?;
        }
        Ok(())
    }
}

/// The kinds of outcomes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum OutcomeKind {
    /// The chain solves the problem.
    Right,
    /// The chain does not solve the problem.
    Wrong,
    /// The verifier cannot decide.
    Unknown,
    /// The verifier failed before it gave an outcome.
    Lost,
}

impl OutcomeKind {
    /// Returns the words for messages, such as "cannot tell".
    pub fn words(self) -> &'static str {
        match self {
            Self::Right => "right",
            Self::Wrong => "wrong",
            Self::Unknown => "cannot tell",
            Self::Lost => "lost",
        }
    }
}
