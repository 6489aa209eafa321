//! The outline of a report: files of solutions and their scorers.

use beamgen::Aggregation;
use serde::{Deserialize, Serialize};

/// The name of scores that come from the file itself.
pub(super) const FILE: &str = "file";

/// The outline of a report on pools: everything that is not in its rows.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Outline {
    /// The files of solutions, numbered by the rows.
    pub sets: Vec<SetOutline>,
    /// The scorers of the solutions, apart from scores in the files.
    pub scorers: Vec<ScorerOutline>,
    /// The names of the checkers that checked the steps.
    pub checkers: Vec<String>,
    /// The rule that turns the scores of a solution's steps into its score, in figures and in tables
    /// over the number of solutions.
    pub aggregation: Aggregation,
    /// The texts that end a step, in files of whole texts.
    pub boundaries: Vec<String>,
    /// The texts that begin a step, in files of whole texts.
    pub starts: Vec<String>,
}

/// A scorer, as a report names it.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ScorerOutline {
    /// The name of the scorer in tables and in rows.
    pub name: String,
    /// The model, as the caller named it.
    pub model: String,
    /// The number of solutions that the scorer refused.
    pub refused: usize,
}

/// A file of solutions, as a report names it.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SetOutline {
    /// The name of the file in tables and figures.
    pub name: String,
    /// The path, as the caller gave it.
    pub source: String,
    /// The name of the file's layout.
    pub layout: String,
    /// The source of the verdict on answers.
    pub rightness: Rightness,
    /// Whether the file gives the answers for votes; otherwise answers are extracted from the
    /// texts.
    pub gives_answers: bool,
    /// Whether the file's scores are log-odds: some are outside 0 to 1.
    pub log_odds: bool,
}

/// The source of the verdict on answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Rightness {
    /// The file says which solutions are right.
    File,
    /// The grader of beamgen compares answers with the references.
    Grader,
}

impl Rightness {
    /// Returns the source in words, for tables.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::File => "the file",
            Self::Grader => "beamgen's grader",
        }
    }
}
