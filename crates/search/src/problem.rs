use serde::{Deserialize, Serialize};

use crate::stream::hash_bytes;

/// A question to be answered.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Problem {
    /// Name in reports. Need not be unique: results are told apart by their position in the input.
    pub id: String,
    /// The text given to the generator and to the scorer.
    pub text: String,
    /// The reference answer, if known. The search never looks at it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub answer: Option<String>,
    /// The steps that every chain begins with, exactly as if they had been sampled; none of them
    /// blank. A step that lacks a boundary at its end gets one.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub steps: Vec<String>,
}

impl Problem {
    /// Stable 64-bit key of id and text: the same on every machine and in every run, so that a
    /// problem draws the same random numbers whatever else is solved beside it. Given steps do not
    /// change it: a chain goes on from them as from steps that it sampled.
    pub fn key(&self) -> u64 {
        let id = hash_bytes(self.id.as_bytes(), 0);
        hash_bytes(self.text.as_bytes(), id)
    }
}

impl From<&str> for Problem {
    /// A problem that is named "1", without a reference answer.
    fn from(text: &str) -> Self {
        Self {
            id: "1".to_owned(),
            text: text.to_owned(),
            ..Self::default()
        }
    }
}

impl From<String> for Problem {
    fn from(text: String) -> Self {
        Self::from(text.as_str())
    }
}

impl From<&Problem> for Problem {
    fn from(problem: &Problem) -> Self {
        problem.clone()
    }
}
