//! The raw row of a pool: a problem with its solutions.

use std::collections::BTreeMap;

use beamgen::eval::pool::Sample;
use serde::{Deserialize, Serialize};

/// A raw row. A list has an item for each solution, and a string has a character for each.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Row {
    pub set: usize,
    pub id: String,
    pub reference: Option<String>,
    pub answers: Vec<Option<String>>,
    /// `1` for a right answer, `0` for a wrong one or none, by the source in
    /// [`SetOutline::rightness`](super::outline::SetOutline::rightness).
    pub right: String,
    /// The grader's verdicts, if the file's decide and the problem has a reference; `?` if the grader cannot decide.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub graded: Option<String>,
    /// A number that equal answers share; `null` without an answer.
    pub class: Vec<Option<u32>>,
    /// `1` for an answer that is a guess.
    pub guess: String,
    /// The number of characters in the text of each solution.
    pub length: Vec<u32>,
    /// The step scores by the name of the scorer; `null` for a solution that the scorer refused.
    pub scores: BTreeMap<String, Vec<Option<Vec<f32>>>>,
    /// The index of the first step that a checker proves wrong; the column is missing without checkers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fails: Option<Vec<Option<u32>>>,
    /// The index of the first step that people labelled wrong, or -1 if none is; `null` without labels.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub first_error: Option<Vec<Option<i64>>>,
}

impl Row {
    pub(super) fn len(&self) -> usize {
        self.right.len()
    }

    /// Returns the solutions as samples. Scores are missing, because they depend on the selector.
    pub(super) fn samples(&self) -> impl Iterator<Item = Sample> {
        let columns = self.class.iter().zip(&self.length);
        let flags = self.right.bytes().zip(self.guess.bytes());
        flags
            .zip(columns)
            .map(|((right, guess), (&class, &length))| Sample {
                correct: right == b'1',
                class,
                is_guess: guess == b'1',
                score: None,
                // Solutions in files have no token counts, so the number of characters stands for them.
                tokens: length,
            })
    }

    /// Whether a checker proves a step of this solution wrong.
    pub(super) fn is_vetoed(&self, at: usize) -> bool {
        self.fails.as_ref().is_some_and(|fails| fails[at].is_some())
    }

    /// Returns whether a step of this solution is known to be wrong. Labels of people take precedence over verdicts
    /// of checkers.
    pub(super) fn is_unsound(&self, at: usize) -> bool {
        let label = self.first_error.as_ref().and_then(|labels| labels[at]);
        label.map_or_else(|| self.is_vetoed(at), |first| first >= 0)
    }

    pub(super) fn knows_steps(&self) -> bool {
        self.fails.is_some() || self.first_error.is_some()
    }

    /// Checks that all columns have an item for each solution. The error begins with the wrong field.
    pub(super) fn check(&self, sets: usize) -> Result<(), String> {
        let count = self.len();
        let scores = self.scores.iter();
        let lengths = [
            ("answers", self.answers.len()),
            ("class", self.class.len()),
            ("guess", self.guess.len()),
            ("length", self.length.len()),
            ("graded", self.graded.as_ref().map_or(count, String::len)),
            ("fails", self.fails.as_ref().map_or(count, Vec::len)),
            (
                "first_error",
                self.first_error.as_ref().map_or(count, Vec::len),
            ),
        ];
        let lengths = lengths
            .into_iter()
            .chain(scores.map(|(name, of)| (name.as_str(), of.len())));
        if self.set >= sets {
            return Err(format!("field \"set\": the report has only {sets} sets"));
        }
        for (name, length) in lengths {
            if length != count {
                return Err(format!(
                    "field \"{name}\": {length} items for {count} solutions"
                ));
            }
        }
        // A problem cannot have more distinct answers than solutions.
        let most = self.class.iter().flatten().max();
        match most.filter(|&&most| most as usize >= count) {
            Some(most) => Err(format!("field \"class\": {most} of {count} solutions")),
            None => Ok(()),
        }
    }
}
