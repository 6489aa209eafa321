//! Pools of existing solutions: problems, each with solutions that models wrote.
//!
//! [`open`] reads a file in any of the [`LAYOUTS`], as JSON lines or one JSON array. Records with
//! the same problem become one problem.

use std::collections::HashMap;
use std::io::BufRead;

use beamgen_records::{Accepted, DataSource};
use serde_json::Value;

use crate::field::{self, Record};
use crate::open::{each, json};
use crate::{LabelsError, Place, Reason};

mod gsm8k_models;
mod own;
mod process_bench;
mod qwen;
mod search_and_learn;

/// The maximum number of solutions in a file, all of which are held in memory.
const MOST: usize = 1 << 20;

/// The maximum number of bytes in all texts of solutions: 1 GiB.
const MOST_BYTES: usize = 1 << 30;

/// A layout of files of solutions: its names for the fields, and its reader.
#[derive(Debug)]
pub struct Layout {
    /// The lower-case name with hyphens for messages and reports.
    pub name: &'static str,
    /// A short description of a record's fields, for messages.
    pub about: &'static str,
    /// Whether a record belongs to this layout, judged by its fields.
    fits: fn(&Record) -> bool,
    read: fn(&Record) -> Result<Solved, Reason>,
}

/// All layouts. The first record that fits a layout decides; the first layout that fits is used.
pub static LAYOUTS: [&Layout; 5] = [
    &own::LAYOUT,
    &qwen::LAYOUT,
    &search_and_learn::LAYOUT,
    &gsm8k_models::LAYOUT,
    &process_bench::LAYOUT,
];

impl Layout {
    /// Detects the layout of a record by its fields; `None` if the record fits no layout.
    fn of(record: &Value) -> Option<&'static Self> {
        let record = record.as_object()?;
        LAYOUTS.into_iter().find(|layout| (layout.fits)(record))
    }

    /// Returns the names of all layouts, separated by commas.
    #[must_use]
    pub fn names() -> String {
        LAYOUTS.map(|layout| layout.name).join(", ")
    }
}

/// A problem and its solutions.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Solved {
    /// The problem's identifier in the file, by default the line or item number of its first
    /// record.
    pub id: Option<String>,
    /// The problem exactly as the file has it.
    pub problem: String,
    /// The reference answer, against which solutions are graded if the file does not grade them.
    pub reference: Option<String>,
    /// The solutions in the order of the file; at least one.
    pub solutions: Vec<Solution>,
}

/// A solution with the facts recorded in its file.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Solution {
    /// The solution as the model wrote it.
    pub text: Text,
    /// Whether the answer is right, if the file says so.
    pub right: Option<bool>,
    /// The answer that the file extracted from the solution; empty if the file found none.
    pub answer: Option<String>,
    /// The scores of the steps, or a single score for the whole solution.
    pub scores: Option<Vec<f32>>,
    /// The index of the first wrong step according to people, from 0, or -1 if no step is wrong.
    pub first_error: Option<i64>,
}

/// The text of a solution, with or without known steps.
#[derive(Clone, Debug, PartialEq)]
pub enum Text {
    /// A text in one piece, to be split into steps later.
    Whole(String),
    /// A text that the file has as steps.
    Steps(Vec<String>),
}

impl Default for Text {
    fn default() -> Self {
        Self::Whole(String::new())
    }
}

/// The problems of a file and what is known about the file.
#[derive(Clone, Debug)]
pub struct Pool {
    /// The name of the file in messages.
    pub source: String,
    /// The detected layout.
    pub layout: &'static Layout,
    /// The problems in the order of their first records; at least one. Either the file says of
    /// every solution whether it is right, or every problem has a reference answer.
    pub problems: Vec<Solved>,
}

/// Reads the first `limit` problems of a regular file, with all their solutions. `-` is the
/// standard input.
///
/// # Errors
/// Returns a message of one line, with the file and the position, if the file cannot be read, is
/// not JSON, has an unknown layout, or has a record that cannot be used.
pub fn open(source: impl Into<DataSource>, limit: Option<usize>) -> Result<Pool, LabelsError> {
    let source = source.into();
    let mut reader = Reader::new(source.name.clone(), limit);
    each(&source, &mut |place, record| reader.read(place, &record))?;
    reader.done()
}

/// Reads any input like [`open`]; messages call the input `source`.
///
/// # Errors
/// Returns an error if the input cannot be read, is not JSON, has an unknown layout, or has a
/// record that cannot be used.
pub fn parse(input: impl BufRead, source: &str, limit: Option<usize>) -> Result<Pool, LabelsError> {
    let mut reader = Reader::new(source.to_owned(), limit);
    let accepted = Accepted::JSON;
    beamgen_records::read(input, source, accepted, &mut |place, record| {
        reader.read(place, &json(record))
    })?;
    reader.done()
}

#[derive(Default)]
struct Reader {
    source: String,
    limit: usize,
    layout: Option<&'static Layout>,
    problems: Vec<Solved>,
    by_text: HashMap<String, usize>,
    solutions: usize,
    bytes: usize,
    /// Whether the file says which solutions are right; `None` before the first solution.
    judges: Option<bool>,
}

impl Reader {
    fn new(source: String, limit: Option<usize>) -> Self {
        Self {
            source,
            limit: limit.unwrap_or(usize::MAX),
            ..Self::default()
        }
    }

    fn read(&mut self, place: Place, record: &Value) -> Result<(), LabelsError> {
        let taken = self.take(place, record);
        taken.map_err(|reason| LabelsError::NoSolutions {
            source_name: self.source.clone(),
            place,
            reason,
        })
    }

    fn take(&mut self, place: Place, record: &Value) -> Result<(), Reason> {
        let layout = self.layout.or_else(|| Layout::of(record));
        let (Some(layout), Some(record)) = (layout, record.as_object()) else {
            let names = record.as_object().map(|record| {
                let names: Vec<&str> = record.keys().map(String::as_str).take(12).collect();
                names.join(", ")
            });
            let known = LAYOUTS.map(|layout| format!("{} ({})", layout.name, layout.about));
            let what = format!(
                "unknown layout of solutions: write one of {}",
                known.join("; ")
            );
            return Err(Reason::with(
                what,
                names.unwrap_or_else(|| "not an object".to_owned()),
            ));
        };
        self.layout = Some(layout);
        let mut solved = (layout.read)(record)?;
        if solved.solutions.is_empty() {
            return Err(Reason::new("no solution in it: leave the problem out"));
        }
        self.check(&solved)?;
        match self.by_text.get(&solved.problem) {
            Some(&at) => {
                let there = &mut self.problems[at];
                // With two references the solutions of one problem would be graded differently.
                match (&there.reference, &solved.reference) {
                    (Some(one), Some(other)) if one != other => {
                        let what =
                            "the same problem is above with another reference answer: keep one";
                        return Err(Reason::with(what, format!("{one:.40} and {other:.40}")));
                    }
                    _ => {}
                }
                there.reference = there.reference.take().or(solved.reference);
                there.solutions.append(&mut solved.solutions);
            }
            None if self.problems.len() < self.limit => {
                let number = place.number();
                solved.id = solved.id.or_else(|| Some(number.to_string()));
                self.by_text
                    .insert(solved.problem.clone(), self.problems.len());
                self.problems.push(solved);
            }
            None => {}
        }
        Ok(())
    }

    /// Refuses a file that is too large, and a solution that could not be graded.
    fn check(&mut self, solved: &Solved) -> Result<(), Reason> {
        for solution in &solved.solutions {
            let judges = *self.judges.get_or_insert(solution.right.is_some());
            if judges != solution.right.is_some() {
                let what = "only some solutions of the file say whether they are right: write it for all or for none";
                return Err(Reason::new(what));
            }
            self.bytes += match &solution.text {
                Text::Whole(text) => text.len(),
                Text::Steps(steps) => steps.iter().map(String::len).sum(),
            };
        }
        if self.judges == Some(false) && solved.reference.is_none() {
            let what = "field \"answer\": missing: write the reference answer, or for each solution whether it is right";
            return Err(Reason::new(what));
        }
        // Checked for each record, so that memory stays within the limits.
        self.solutions += solved.solutions.len();
        if self.solutions > MOST || self.bytes > MOST_BYTES {
            return Err(Reason::new(format!(
                "more than {MOST} solutions, or than {} MiB of them: split the file",
                MOST_BYTES >> 20
            )));
        }
        Ok(())
    }

    fn done(self) -> Result<Pool, LabelsError> {
        match self.layout.filter(|_| !self.problems.is_empty()) {
            Some(layout) => Ok(Pool {
                source: self.source,
                layout,
                problems: self.problems,
            }),
            None => Err(LabelsError::NoSolutions {
                source_name: self.source,
                place: Place::Line(1),
                reason: Reason::new("no solutions in it: write one JSON object a line"),
            }),
        }
    }
}

/// The names of fields in a layout with parallel lists: each list has one item per solution.
struct Columns {
    solutions: &'static str,
    answers: &'static str,
    rights: &'static str,
    scores: &'static str,
}

impl Columns {
    fn read(&self, record: &Record) -> Result<Solved, Reason> {
        let texts = field::list(record, &[self.solutions])?;
        let column = |name: &'static str| -> Result<Option<&Vec<Value>>, Reason> {
            let Some((_, Value::Array(items))) = field::any(record, &[name]) else {
                return Ok(None);
            };
            // With another length, answers would be assigned to the wrong solutions.
            if items.len() != texts.len() {
                let what = format!("field \"{name}\": write one item for each solution");
                let detail = format!("{} for {} solutions", items.len(), texts.len());
                return Err(Reason::with(what, detail));
            }
            Ok(Some(items))
        };
        let (answers, rights) = (column(self.answers)?, column(self.rights)?);
        let scores = column(self.scores)?;
        let mut solved = solved(record, &["answer", "gt"])?;
        for (at, text) in texts.iter().enumerate() {
            let right = rights.map(|all| field::truth_of(&all[at], self.rights));
            let scores = scores.map(|all| self::scores(&all[at], self.scores));
            solved.solutions.push(Solution {
                text: Text::Whole(string(text, self.solutions)?),
                right: right.transpose()?,
                answer: answers.map(|all| text_of(&all[at])),
                scores: scores.transpose()?,
                first_error: None,
            });
        }
        Ok(solved)
    }
}

/// Reads a problem and its reference, without the solutions.
fn solved(record: &Record, reference: &[&'static str]) -> Result<Solved, Reason> {
    let problem = field::text(record, &["problem", "question", "prompt"])?;
    if problem.len() > beamgen_eval::MAX_PROBLEM_BYTES {
        let most = beamgen_eval::MAX_PROBLEM_BYTES >> 10;
        return Err(Reason::new(format!(
            "the problem is longer than {most} KiB: shorten it"
        )));
    }
    let reference = field::scalar(record, reference);
    Ok(Solved {
        id: field::scalar(record, &["id", "unique_id", "idx"]),
        problem,
        reference: reference.map(|text| beamgen_eval::answer::reference(&text).to_owned()),
        solutions: Vec::new(),
    })
}

/// Reads a text that may be blank, since a model may have written nothing.
fn string(value: &Value, field: &str) -> Result<String, Reason> {
    let text = value.as_str().map(str::to_owned);
    text.ok_or_else(|| Reason::new(format!("field \"{field}\": write text")))
}

/// Converts an answer to text; empty if the value is neither text nor a number.
fn text_of(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Number(number) => number.to_string(),
        _ => String::new(),
    }
}

/// Reads one score for the whole solution, or a list of the steps' scores.
fn scores(value: &Value, field: &str) -> Result<Vec<f32>, Reason> {
    let items = value
        .as_array()
        .map_or(std::slice::from_ref(value), Vec::as_slice);
    let mut scores = Vec::with_capacity(items.len());
    for item in items {
        let score = item.as_f64().map(|score| score as f32);
        // A number above the range of `f32` becomes infinite and is refused.
        let Some(score) = score.filter(|score| score.is_finite()) else {
            let what = format!("field \"{field}\": write a number, or a list of the steps' scores");
            return Err(Reason::with(what, field::shown(item)));
        };
        scores.push(score);
    }
    Ok(scores)
}

/// Reads the index of the first wrong step, below `count`, or -1; `None` without the field.
fn first_error(record: &Record, name: &'static str, count: usize) -> Result<Option<i64>, Reason> {
    let Some((_, label)) = field::any(record, &[name]) else {
        return Ok(None);
    };
    let index = label.as_i64().filter(|at| (-1..count as i64).contains(at));
    index.map(Some).ok_or_else(|| {
        let what = format!(
            "field \"{name}\": write the index of the first wrong step from 0, or -1 for none"
        );
        Reason::with(what, format!("{} of {count} steps", field::shown(label)))
    })
}

#[cfg(test)]
mod tests;
