//! Pools of solutions that exist already: problems, each with what models wrote to solve it.
//!
//! [`open`] reads a file of any of the [`LAYOUTS`]: JSON lines, or one JSON array. Records of one
//! problem are put together.

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

/// Most solutions of a file; all of them are held in memory.
const MOST: usize = 1 << 20;

/// Most bytes of their texts.
const MOST_BYTES: usize = 1 << 30;

/// How a pool of solutions is written.
#[derive(Debug)]
pub struct Layout {
    /// The name in messages and reports.
    pub name: &'static str,
    /// The fields that it has, in a few words.
    pub about: &'static str,
    /// Whether a record looks like one of this layout.
    fits: fn(&Record) -> bool,
    read: fn(&Record) -> Result<Solved, Reason>,
}

/// All layouts. A record that fits several is of the first.
pub static LAYOUTS: [&Layout; 5] = [
    &own::LAYOUT,
    &qwen::LAYOUT,
    &search_and_learn::LAYOUT,
    &gsm8k_models::LAYOUT,
    &process_bench::LAYOUT,
];

impl Layout {
    /// The layout that a record is of.
    fn of(record: &Value) -> Option<&'static Self> {
        let record = record.as_object()?;
        LAYOUTS.into_iter().find(|layout| (layout.fits)(record))
    }

    /// All names, in one line.
    #[must_use]
    pub fn names() -> String {
        LAYOUTS.map(|layout| layout.name).join(", ")
    }
}

/// A problem and its solutions.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Solved {
    /// Names the problem within its file.
    pub id: Option<String>,
    /// The problem's text.
    pub problem: String,
    /// The reference answer.
    pub reference: Option<String>,
    /// At least one, in the file's order.
    pub solutions: Vec<Solution>,
}

/// A solution and what its file says of it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Solution {
    /// The text.
    pub text: Text,
    /// Whether its answer is right.
    pub right: Option<bool>,
    /// The answer that was taken from it; blank if there was none.
    pub answer: Option<String>,
    /// The scores of its steps, or one of the whole solution.
    pub scores: Option<Vec<f32>>,
    /// The index of the first wrong step as people marked it, or -1 if none is wrong.
    pub first_error: Option<i64>,
}

/// The text of a solution.
#[derive(Clone, Debug, PartialEq)]
pub enum Text {
    /// To be cut into steps.
    Whole(String),
    /// Cut into steps by its source.
    Steps(Vec<String>),
}

impl Default for Text {
    fn default() -> Self {
        Self::Whole(String::new())
    }
}

/// A file of solutions that was read.
#[derive(Clone, Debug)]
pub struct Pool {
    /// The name of the file in messages.
    pub source: String,
    /// The layout that it is written in.
    pub layout: &'static Layout,
    /// In the order in which they first come; at least one. Either every solution of the file says
    /// whether it is right, or every problem has a reference answer.
    pub problems: Vec<Solved>,
}

/// Reads a regular file, the first `limit` problems of it; `-` is the standard input.
///
/// # Errors
/// A file that cannot be read, is not JSON, is of no known layout, or has a record of no use. The
/// message is one line with the file and the line.
pub fn open(path: &Path, limit: Option<usize>) -> Result<Pool, LabelsError> {
    let mut reader = Reader::new(read::source(path), limit);
    read::file(path, &mut |place, record| reader.read(place, &record))?;
    reader.done()
}

/// Reads like [`open`], from anything; `source` names it in messages.
///
/// # Errors
/// The errors of [`open`].
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
    /// Whether the file says which solutions are right.
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
                "of no known layout of solutions: write one of {}",
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
                match (&there.reference, &solved.reference) {
                    (Some(one), Some(other)) if one != other => {
                        let what =
                            "the same problem stands above with another reference answer: keep one";
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

    /// Refuses what is too much, and what could not be told right from wrong.
    fn check(&mut self, solved: &Solved) -> Result<(), Reason> {
        for solution in &solved.solutions {
            let judges = *self.judges.get_or_insert(solution.right.is_some());
            if judges != solution.right.is_some() {
                let what = "whether a solution is right stands at some solutions of the file only: write it at all or at none";
                return Err(Reason::new(what));
            }
            self.bytes += match &solution.text {
                Text::Whole(text) => text.len(),
                Text::Steps(steps) => steps.iter().map(String::len).sum(),
            };
        }
        if self.judges == Some(false) && solved.reference.is_none() {
            let what = "field \"answer\": missing: write the reference answer, or at each solution whether it is right";
            return Err(Reason::new(what));
        }
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

/// The fields of a layout that has a list with an item for each solution.
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

/// The problem of a record, without solutions.
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

/// A text, which may be blank: a model may have written nothing.
fn string(value: &Value, field: &str) -> Result<String, Reason> {
    let text = value.as_str().map(str::to_owned);
    text.ok_or_else(|| Reason::new(format!("field \"{field}\": write text")))
}

/// An answer, which is nothing if it is no text and no number.
fn text_of(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Number(number) => number.to_string(),
        _ => String::new(),
    }
}

/// A score, or a list of the steps' scores.
fn scores(value: &Value, field: &str) -> Result<Vec<f32>, Reason> {
    let items = value
        .as_array()
        .map_or(std::slice::from_ref(value), Vec::as_slice);
    let score = |item: &Value| {
        let score = item.as_f64().map(|score| score as f32);
        score.filter(|score| score.is_finite()).ok_or_else(|| {
            let what = format!("field \"{field}\": write a number, or a list of the steps' scores");
            Reason::with(what, field::shown(item))
        })
    };
    items.iter().map(score).collect()
}

/// The index of the first wrong step of `count`, or -1.
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
