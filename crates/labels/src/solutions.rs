//! Pools of existing solutions: problems with the solutions that models wrote for them.
//!
//! [`open`] reads a file in any of the [`LAYOUTS`]: JSON lines, or one JSON array. Records of the
//! same problem are joined.

use std::collections::HashMap;
use std::io::BufRead;
use std::path::Path;

use serde_json::Value;

use crate::field::{self, Record};
use crate::{LabelsError, Place, Reason, read};

mod gsm8k_models;
mod own;
mod process_bench;
mod qwen;
mod search_and_learn;

/// The largest number of solutions in a file; all of them are held in memory.
const MOST: usize = 1 << 20;

/// The largest number of bytes of all solutions together.
const MOST_BYTES: usize = 1 << 30;

/// A layout of files of solutions.
#[derive(Debug)]
pub struct Layout {
    /// The name in messages and reports, lower case with hyphens.
    pub name: &'static str,
    /// The fields of a record, in a few words.
    pub about: &'static str,
    /// Whether a record has the fields of this layout.
    fits: fn(&Record) -> bool,
    read: fn(&Record) -> Result<Solved, Reason>,
}

/// All layouts. If a record fits several layouts, the first one counts.
pub static LAYOUTS: [&Layout; 5] = [
    &own::LAYOUT,
    &qwen::LAYOUT,
    &search_and_learn::LAYOUT,
    &gsm8k_models::LAYOUT,
    &process_bench::LAYOUT,
];

impl Layout {
    /// Returns the layout that a record fits.
    fn of(record: &Value) -> Option<&'static Self> {
        let record = record.as_object()?;
        LAYOUTS.into_iter().find(|layout| (layout.fits)(record))
    }

    /// Returns all names, separated by commas.
    #[must_use]
    pub fn names() -> String {
        LAYOUTS.map(|layout| layout.name).join(", ")
    }
}

/// A problem and its solutions.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Solved {
    /// The problem's name within its file; by default the number of its record.
    pub id: Option<String>,
    /// The text of the problem, without white space changes.
    pub problem: String,
    /// The reference answer, if the file has it.
    pub reference: Option<String>,
    /// The solutions in the file's order; at least one.
    pub solutions: Vec<Solution>,
}

/// A solution with the facts that its file records.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Solution {
    /// The text of the solution, whole or in steps.
    pub text: Text,
    /// Whether the solution's answer is right, according to the file.
    pub right: Option<bool>,
    /// The answer that the file extracted from the solution; blank if there was none.
    pub answer: Option<String>,
    /// The scores of the steps, or a single score of the whole solution.
    pub scores: Option<Vec<f32>>,
    /// The index of the first wrong step as marked by people, from 0, or -1 if no step is wrong.
    pub first_error: Option<i64>,
}

/// The text of a solution, with or without steps.
#[derive(Clone, Debug, PartialEq)]
pub enum Text {
    /// A text that is still to be split into steps.
    Whole(String),
    /// A text that its source split into steps.
    Steps(Vec<String>),
}

impl Default for Text {
    fn default() -> Self {
        Self::Whole(String::new())
    }
}

/// The contents of a file of solutions.
#[derive(Clone, Debug)]
pub struct Pool {
    /// The name of the file in messages.
    pub source: String,
    /// The layout of the file.
    pub layout: &'static Layout,
    /// The problems in the order of their first solutions; at least one. Either every solution of
    /// the file is marked right or wrong, or every problem has a reference answer.
    pub problems: Vec<Solved>,
}

/// Reads the first `limit` problems of a regular file; `-` is the standard input.
///
/// # Errors
/// The file cannot be read, is not JSON, has an unknown layout, or has a record that cannot be
/// used. The message is one line with the file and the line.
pub fn open(path: &Path, limit: Option<usize>) -> Result<Pool, LabelsError> {
    let mut reader = Reader::new(read::source(path), limit);
    read::file(path, &mut |place, record| reader.read(place, &record))?;
    reader.done()
}

/// Reads like [`open`], from any input; `source` is its name in messages.
///
/// # Errors
/// The input cannot be read, is not JSON, has an unknown layout, or has a bad record.
pub fn parse(input: impl BufRead, source: &str, limit: Option<usize>) -> Result<Pool, LabelsError> {
    let mut reader = Reader::new(source.to_owned(), limit);
    read::records(input, source, &mut |place, record| {
        reader.read(place, &record)
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
    /// Whether the file marks solutions as right or wrong; `None` before the first solution.
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
                // Two references would grade the solutions of one problem differently.
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
                let (Place::Line(number) | Place::Item(number)) = place;
                solved.id = solved.id.or_else(|| Some(number.to_string()));
                self.by_text
                    .insert(solved.problem.clone(), self.problems.len());
                self.problems.push(solved);
            }
            None => {}
        }
        Ok(())
    }

    /// Refuses files that are too large, and solutions that could be neither right nor wrong.
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
        // Checked while reading, so that the limits bound the memory.
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

/// The fields of a layout in which each field is a list with an item for each solution.
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
            // A shorter list would assign answers to the wrong solutions.
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

/// Reads the problem of a record, without solutions.
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

/// Reads a text, which may be blank: a model may have written nothing.
fn string(value: &Value, field: &str) -> Result<String, Reason> {
    let text = value.as_str().map(str::to_owned);
    text.ok_or_else(|| Reason::new(format!("field \"{field}\": write text")))
}

/// Returns an answer as text; blank if it is neither text nor a number.
fn text_of(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Number(number) => number.to_string(),
        _ => String::new(),
    }
}

/// Reads a score of the whole solution, or a list of the steps' scores.
fn scores(value: &Value, field: &str) -> Result<Vec<f32>, Reason> {
    let items = value
        .as_array()
        .map_or(std::slice::from_ref(value), Vec::as_slice);
    let mut scores = Vec::with_capacity(items.len());
    for item in items {
        let score = item.as_f64().map(|score| score as f32);
        // An f64 above the range of f32 becomes infinite.
        let Some(score) = score.filter(|score| score.is_finite()) else {
            let what = format!("field \"{field}\": write a number, or a list of the steps' scores");
            return Err(Reason::with(what, field::shown(item)));
        };
        scores.push(score);
    }
    Ok(scores)
}

/// Reads the index of the first wrong step of `count` steps, or -1.
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
