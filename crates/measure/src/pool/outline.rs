//! The outline of a report on pools: files of solutions, scorers and checkers.

use beamgen::Aggregation;
use serde::{Deserialize, Serialize};

/// The name under which rows store scores that the file contains.
pub(super) const FILE: &str = "file";

/// The description of pools. A report is computed from the outline and the rows only.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Outline {
    /// The files of solutions. Rows contain indices into this list.
    pub sets: Vec<SetOutline>,
    /// The models that scored the solutions. Scores in the files have no entry.
    pub scorers: Vec<ScorerOutline>,
    /// The names of the checkers that judged every step; empty without checkers.
    pub checkers: Vec<String>,
    /// The main aggregation of step scores into the score of a solution. Figures and tables over k show only this
    /// one.
    pub aggregation: Aggregation,
    /// The texts after which a solution is split into steps, unless the file has steps.
    pub boundaries: Vec<String>,
    /// The texts before which a solution is split into steps, unless the file has steps.
    pub starts: Vec<String>,
}

/// A reward model that scored the solutions of all files.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ScorerOutline {
    /// The key of the scores in rows, also the name in tables.
    pub name: String,
    /// The model as named by the caller, for the reader of the report.
    pub model: String,
    /// The number of solutions that the model refused; these have no score.
    pub refused: usize,
}

/// A file of solutions.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SetOutline {
    /// The slug of the file's name, made unique in the report by a number.
    pub name: String,
    /// The path of the file, as given by the caller.
    pub source: String,
    /// The name of the layout that the file was read in.
    pub layout: String,
    /// The source of the verdicts that decide which solutions are right.
    pub rightness: Rightness,
    /// True if the file has an answer for each solution. Otherwise answers are extracted from the solutions' texts.
    pub gives_answers: bool,
    /// True if some of the file's scores are outside 0 to 1, so that all are read as log-odds.
    pub log_odds: bool,
}

/// The source of the verdicts on solutions: some files have their own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Rightness {
    /// The file decides: it has a verdict on every solution.
    File,
    /// The grader decides: it compares answers with the file's references.
    Grader,
}

impl Rightness {
    /// Returns the source in words, for the text of a report.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::File => "the file",
            Self::Grader => "beamgen's grader",
        }
    }
}
