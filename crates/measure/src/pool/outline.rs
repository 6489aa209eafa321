//! The subject of a report: files of solutions, and their scorers.

use beamgen::Aggregation;
use serde::{Deserialize, Serialize};

/// The name of the scores that a file brings.
pub(super) const FILE: &str = "file";

/// The part of a report that is not in its rows.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Outline {
    /// The files.
    pub sets: Vec<SetOutline>,
    /// The scorers of the solutions, besides the files themselves.
    pub scorers: Vec<ScorerOutline>,
    /// The checkers that looked at the steps.
    pub checkers: Vec<String>,
    /// How step scores become a solution's in the plots and over k.
    pub aggregation: Aggregation,
    /// The marks that end a step where a file gives texts.
    pub boundaries: Vec<String>,
    /// The marks that begin a step there.
    pub starts: Vec<String>,
}

/// A reward model.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ScorerOutline {
    /// The name in tables.
    pub name: String,
    /// The model, as it was named.
    pub model: String,
    /// The number of solutions that it refused.
    pub refused: usize,
}

/// A file of solutions.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SetOutline {
    /// The name in tables.
    pub name: String,
    /// The file as it was named.
    pub source: String,
    /// The name of its layout.
    pub layout: String,
    /// The source of which solutions are right.
    pub rightness: Rightness,
    /// Whether the file gives the answers that count as votes; otherwise they are found in the texts.
    pub gives_answers: bool,
    /// Whether the file's scores are no probabilities, and are taken for log-odds.
    pub log_odds: bool,
}

/// The source of which solutions are right.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Rightness {
    /// The file.
    File,
    /// The grader of beamgen, against the reference answers.
    Grader,
}

impl Rightness {
    /// The source in words.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::File => "the file",
            Self::Grader => "beamgen's grader",
        }
    }
}
