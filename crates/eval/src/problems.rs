//! Problem files: JSON lines, or plain text with one problem in each line.

use std::collections::{BTreeSet, HashMap};
use std::fs::File;
use std::io::{self, BufRead, BufReader};
use std::path::Path;

use beamgen_files::{json_reason, read_line};
use beamgen_search::Problem;
use serde_json::{Map, Value};

use crate::answer::Marker;
use crate::chains::{CONTEXT_KEYS, context_of, kind, steps_of};
use crate::number::counted;
use crate::{Fingerprint, answer};
use error::TABLES;
pub(crate) use error::Table;
pub use error::{LineFault, ProblemsError};

mod error;
#[cfg(test)]
mod tests;

/// The longest line that is read, in bytes. A reference solution may be long, but a longer line is
/// a sign of another kind of file.
pub const MAX_LINE_BYTES: usize = 8 << 20;

/// The longest problem text, in bytes. A longer text is far over every context window, so it is
/// refused before the tokeniser has to read it.
pub const MAX_PROBLEM_BYTES: usize = 256 << 10;

/// The keys of a problem's text, in the order of preference. Capitals do not matter.
const TEXT_KEYS: [&str; 4] = ["problem", "question", "prompt", "input"];

/// The keys of a reference answer after `answer`, in the order of preference.
const ANSWER_KEYS: [&str; 5] = [
    "final_answer",
    "expected_answer",
    "ground_truth",
    "gold",
    "target",
];

/// The key of the story before a `question`, as in `ASDiv` and SVAMP.
const BODY: &str = "body";

/// The key of the steps that every chain of the problem begins with.
const STEPS: &str = "steps";

/// The most keys that a message names.
const NAMED_KEYS: usize = 8;

/// A problem file that was read.
#[derive(Clone, Debug)]
pub struct Problems {
    /// The name of the file in messages: its path, or `<stdin>`.
    pub source: String,
    /// The problems in the file's order; never empty, ids never repeated.
    pub problems: Vec<Problem>,
    /// The line of each problem, from 1.
    pub lines: Vec<usize>,
    /// The number of problems without a reference answer but with unread keys, and these keys.
    pub unread: (usize, BTreeSet<String>),
}

impl Problems {
    /// Reads a problem file; `-` is the standard input.
    ///
    /// The first line that is not blank decides the format: `{` begins JSON lines, and anything
    /// else is text with one problem in each line. Blank lines are skipped. The id of a problem
    /// without an id is the line's number, from 1.
    ///
    /// # Errors
    /// [`ProblemsError`] names the file and the line.
    pub fn open(path: &Path) -> Result<Self, ProblemsError> {
        if path == Path::new("-") {
            return Self::read(io::stdin().lock(), "<stdin>");
        }
        let source_name = path.display().to_string();
        let extension = path.extension().unwrap_or_default();
        match File::open(path) {
            Ok(file) => {
                let mut tables = TABLES.iter();
                let table = tables.find(|table| extension.eq_ignore_ascii_case(table.extension));
                Self::read_as(table, BufReader::new(file), &source_name)
            }
            Err(error) => Err(ProblemsError::Unreadable { source_name, error }),
        }
    }

    /// Makes a text the only problem, also if the text has several lines.
    ///
    /// # Errors
    /// [`ProblemsError`] names the file and the line.
    pub fn question(text: &str) -> Result<Self, ProblemsError> {
        let (source, number) = ("the question", 1);
        let parsed = Format::Text.parse(text.trim(), number);
        let (problem, _) = parsed.map_err(|fault| at(source, number, fault))?;
        Ok(Self {
            source: source.to_owned(),
            problems: vec![problem],
            lines: vec![number],
            unread: (0, BTreeSet::new()),
        })
    }

    /// Reads problems from any reader; `source` is its name in messages.
    ///
    /// # Errors
    /// [`ProblemsError`] names the file and the line.
    pub fn read(input: impl BufRead, source: &str) -> Result<Self, ProblemsError> {
        Self::read_as(None, input, source)
    }

    /// Reads problems. `table` is the kind of table that the file's name suggests, if any.
    fn read_as(
        table: Option<&'static Table>,
        mut input: impl BufRead,
        source: &str,
    ) -> Result<Self, ProblemsError> {
        let (mut problems, mut numbers) = (Vec::new(), Vec::new());
        let mut unread = (0, BTreeSet::new());
        // Ids name problems in run files, so a repeated id would make a resume skip a problem.
        let mut first_lines: HashMap<String, usize> = HashMap::new();
        let mut format = None;
        let mut line = Vec::new();
        for number in 1.. {
            let read = read_line(&mut input, &mut line, MAX_LINE_BYTES);
            let read = read.map_err(|error| ProblemsError::Unreadable {
                source_name: source.to_owned(),
                error,
            })?;
            if read == 0 {
                break;
            }
            let fault = |fault| at(source, number, fault);
            // Blank lines count in the numbers, so messages name the line that an editor shows.
            let text = decoded(&line, number == 1).map_err(fault)?.trim();
            if text.is_empty() {
                continue;
            }
            // Decided once: a file that changes its format in the middle is an error and not two
            // formats.
            let format = *format.get_or_insert_with(|| Format::of(text, table));
            // Otherwise the JSON would be solved as a text, with its braces and its answer in it.
            if let (Format::Text, Some(&first)) = (format, numbers.first())
                && is_json_problem(text)
            {
                return Err(fault(LineFault::JsonAfterText { first }));
            }
            let (problem, keys) = format.parse(text, number).map_err(fault)?;
            unread.0 += usize::from(!keys.is_empty());
            unread.1.extend(keys);
            // Also for ids that are line numbers: `{"id": "3"}` on line 1 clashes with line 3.
            if let Some(first) = first_lines.insert(problem.id.clone(), number) {
                let id = problem.id;
                return Err(fault(LineFault::Repeated { id, first }));
            }
            problems.push(problem);
            numbers.push(number);
        }
        if problems.is_empty() {
            return Err(ProblemsError::Empty {
                source_name: source.to_owned(),
            });
        }
        Ok(Self {
            source: source.to_owned(),
            problems,
            lines: numbers,
            unread,
        })
    }

    /// Returns a note on problems without a reference answer whose lines have unread keys, since
    /// the answer may be under one of them.
    pub fn unread_note(&self) -> Option<String> {
        let (count, keys) = &self.unread;
        (*count > 0).then(|| {
            format!(
                "{}: {} no reference answer; not read: {}; write it under \"answer\"",
                self.source,
                counted(*count, "problem has", "problems have"),
                quoted(keys)
            )
        })
    }

    /// Returns a note on the problems that give steps, which are often solutions in other files.
    pub fn given_note(&self) -> Option<String> {
        let problems = self.problems.iter();
        let count = problems.filter(|problem| !problem.steps.is_empty()).count();
        (count > 0).then(|| {
            format!(
                "{}: {} \"steps\", and all its chains begin with them",
                self.source,
                counted(count, "problem gives", "problems give"),
            )
        })
    }

    /// Returns the error for a problem (by index) that a model refuses, with the problem's line.
    pub fn refused(&self, index: usize, reason: String) -> ProblemsError {
        at(
            &self.source,
            self.lines[index],
            LineFault::Refused { reason },
        )
    }

    /// Checks that each of the first `count` problems has a reference answer.
    ///
    /// # Errors
    /// [`ProblemsError`] names the line of the first problem without one.
    pub fn require_answers(&self, count: usize) -> Result<(), ProblemsError> {
        let mut problems = self.problems.iter().take(count);
        match problems.position(|problem| problem.answer.is_none()) {
            None => Ok(()),
            Some(index) => Err(at(&self.source, self.lines[index], LineFault::NoAnswer)),
        }
    }

    /// Checks that no problem gives steps, for callers that sample chains from their beginning.
    ///
    /// # Errors
    /// [`ProblemsError`] names the line of the first problem that gives steps.
    pub fn refuse_steps(&self) -> Result<(), ProblemsError> {
        let mut problems = self.problems.iter();
        match problems.position(|problem| !problem.steps.is_empty()) {
            None => Ok(()),
            Some(index) => Err(at(&self.source, self.lines[index], LineFault::GivenSteps)),
        }
    }

    /// Returns the fingerprint of all ids, texts, answers, given steps and contexts, so that a run
    /// is not resumed on other problems.
    pub fn fingerprint(&self) -> String {
        let mut hash = Fingerprint::default();
        for problem in &self.problems {
            hash.field(problem.id.as_bytes());
            hash.field(problem.text.as_bytes());
            // A text that no answer can be, so "no answer" and the answer "none" differ.
            hash.field(problem.answer.as_deref().unwrap_or("\0none").as_bytes());
            // Hashed only if present: files from before these fields keep their fingerprints.
            if !problem.steps.is_empty() {
                hash.field(b"\0steps");
            }
            for step in &problem.steps {
                hash.field(step.as_bytes());
            }
            if !problem.context.is_empty() {
                hash.field(b"\0context");
            }
            for document in &problem.context {
                hash.field(document.as_bytes());
            }
        }
        hash.finish()
    }
}

#[derive(Clone, Copy)]
enum Format {
    JsonLines,
    Text,
    JsonArray,
    Table(&'static Table),
}

impl Format {
    /// Determines the format of a file from its first line, and from the kind of table that its
    /// name suggests.
    fn of(first: &str, named: Option<&'static Table>) -> Self {
        match first.strip_prefix('[').map(str::trim_start) {
            // `[5, 3)` and the like begin a problem in plain text.
            Some(rest) if rest.is_empty() || rest.starts_with(['{', '"']) => Self::JsonArray,
            _ if first.starts_with('{') => Self::JsonLines,
            _ => match named.or_else(|| Table::headed(first)) {
                Some(table) => Self::Table(table),
                None => Self::Text,
            },
        }
    }

    /// Parses a line. Returns the problem, and the unread keys if the problem has no reference
    /// answer.
    fn parse(self, text: &str, number: usize) -> Result<(Problem, Vec<String>), LineFault> {
        match self {
            Self::JsonArray => Err(LineFault::Array),
            Self::Table(table) => Err(LineFault::Table(table)),
            Self::Text => {
                let text = checked_text(text, "text")?;
                let problem = Problem {
                    id: number.to_string(),
                    text,
                    answer: None,
                    ..Problem::default()
                };
                Ok((problem, Vec::new()))
            }
            Self::JsonLines => {
                match serde_json::from_str(text).map_err(|e| LineFault::Json {
                    reason: json_reason(&e),
                })? {
                    Value::Object(object) => from_object(&object, number),
                    other => Err(LineFault::NotAnObject {
                        found: kind(&other),
                    }),
                }
            }
        }
    }
}

impl Table {
    /// Returns the kind of table if a line is its head: several names, one of them a key of problem
    /// texts. Prose does not match, because it has a blank after a comma.
    fn headed(line: &str) -> Option<&'static Self> {
        TABLES.iter().find(|table| {
            let names = line.split(table.separator);
            let names: Vec<&str> = names.map(|name| name.trim_matches('"')).collect();
            names.len() > 1
                && names.iter().all(|name| is_column(name))
                && TEXT_KEYS
                    .iter()
                    .any(|key| names.iter().any(|name| key.eq_ignore_ascii_case(name)))
        })
    }
}

/// Whether a text may be the name of a column.
fn is_column(name: &str) -> bool {
    let mut inner = name.chars();
    name.starts_with(char::is_alphabetic)
        && inner.all(|c| c.is_alphanumeric() || "_-. ".contains(c))
}

/// Whether a line would be a problem in a file of JSON lines.
fn is_json_problem(text: &str) -> bool {
    let object: Option<Map<String, Value>> = text
        .starts_with('{')
        .then(|| serde_json::from_str(text).ok())
        .flatten();
    object.is_some_and(|object| TEXT_KEYS.iter().any(|&key| find(&object, key).is_some()))
}

/// Returns the value under a key, or else under the same key with other capitals.
fn find<'a>(object: &'a Map<String, Value>, key: &str) -> Option<&'a Value> {
    object.get(key).or_else(|| {
        let mut others = object.iter();
        let other = others.find(|(name, _)| name.eq_ignore_ascii_case(key));
        other.map(|(_, value)| value)
    })
}

fn from_object(
    object: &Map<String, Value>,
    number: usize,
) -> Result<(Problem, Vec<String>), LineFault> {
    let (field, value) = TEXT_KEYS
        .iter()
        .find_map(|&key| Some((key, find(object, key)?)))
        .ok_or_else(|| LineFault::NoText {
            found: quoted(object.keys()),
        })?;
    let Value::String(text) = value else {
        return Err(LineFault::Type {
            field,
            found: kind(value),
            wanted: "a string",
        });
    };
    let id = scalar(object, "id")?.unwrap_or_else(|| number.to_string());
    // Only with `question`: in other files a `body` may be anything.
    let body = find(object, BODY).and_then(Value::as_str);
    let body = body.filter(|body| field == "question" && !body.trim().is_empty());
    let whole = body.map(|body| format!("{} {text}", body.trim_end()));
    let answer = reference(object)?;
    let mut contexts = CONTEXT_KEYS.iter().filter_map(|&key| {
        let given = find(object, key).filter(|given| !given.is_null())?;
        Some((key, given))
    });
    // A null under the first key does not hide the documents under a later key.
    let context = contexts.next();
    let is_read = |key: &str| {
        let read = [field, "id", STEPS].into_iter().chain(body.map(|_| BODY));
        let mut read = read.chain(context.map(|(key, _)| key));
        read.any(|read| key.eq_ignore_ascii_case(read))
    };
    let others = object
        .iter()
        .filter(|(key, value)| !value.is_null() && !is_read(key));
    let unread = match answer {
        Some(_) => Vec::new(),
        None => others.map(|(key, _)| key.clone()).collect(),
    };
    let problem = Problem {
        id,
        text: checked_text(whole.as_deref().unwrap_or(text), field)?,
        answer,
        steps: match find(object, STEPS).filter(|steps| !steps.is_null()) {
            Some(steps) => steps_of(steps, STEPS).map_err(LineFault::Texts)?,
            None => Vec::new(),
        },
        context: match context {
            Some((key, given)) => context_of(given, key).map_err(LineFault::Texts)?,
            None => Vec::new(),
        },
        ..Problem::default()
    };
    // The limit is for what the model reads, so the documents count with the problem.
    if let Some((field, _)) = context {
        checked_text(&problem.with_context(), field)?;
    }
    Ok((problem, unread))
}

/// Formats keys for a message, at most [`NAMED_KEYS`].
fn quoted<'a>(keys: impl IntoIterator<Item = &'a String>) -> String {
    let keys = keys.into_iter().take(NAMED_KEYS);
    let keys: Vec<String> = keys.map(|key| format!("\"{key}\"")).collect();
    if !keys.is_empty() {
        keys.join(", ")
    } else {
        "nothing".to_owned()
    }
}

/// Returns the reference answer: under `answer`, else under one of [`ANSWER_KEYS`] (`OlympiadBench`
/// may write a list of one), else the marked answer of a worked `solution` (MATH).
fn reference(object: &Map<String, Value>) -> Result<Option<String>, LineFault> {
    let other = |key: &&str| {
        let given = find(object, key)?;
        match given.as_array() {
            Some(list) if list.len() == 1 => text_of(&list[0]),
            _ => text_of(given),
        }
    };
    let others = || ANSWER_KEYS.iter().find_map(other);
    if let Some(answer) = scalar(object, "answer")?.or_else(others) {
        return Ok(Some(answer::reference(&answer).to_owned()));
    }
    let solution = find(object, "solution").and_then(Value::as_str);
    let marked = solution.and_then(answer::extract_marked);
    // "The answer is" in the middle of a worked solution may be about a part of the problem. A
    // wrong reference is worse than none.
    let marked = marked.filter(|found| found.marker != Marker::Sentence);
    Ok(marked.map(|found| found.text.to_owned()))
}

/// Returns a string or a number as text; `None` for other types.
fn text_of(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Number(number) => Some(number.to_string()),
        _ => None,
    }
}

fn checked_text(text: &str, field: &'static str) -> Result<String, LineFault> {
    if text.trim().is_empty() {
        return Err(LineFault::BlankText { field });
    }
    if text.len() > MAX_PROBLEM_BYTES {
        return Err(LineFault::LongProblem {
            field,
            bytes: text.len(),
        });
    }
    Ok(text.to_owned())
}

/// Returns a field's string or number as text; `None` for an absent or null field.
fn scalar(object: &Map<String, Value>, field: &'static str) -> Result<Option<String>, LineFault> {
    let value = find(object, field).filter(|value| !value.is_null());
    let Some(value) = value else {
        return Ok(None);
    };
    let text = text_of(value).ok_or_else(|| LineFault::Type {
        field,
        found: kind(value),
        wanted: "a string or a number",
    });
    text.map(Some)
}

/// Decodes a line. The first line of a file may begin with byte order marks, or show that the file
/// is not text.
fn decoded(line: &[u8], is_first: bool) -> Result<&str, LineFault> {
    // Before the length: a compressed file may have no newline for megabytes, and "too long" would
    // mislead.
    if is_first && let Some(packed) = beamgen_files::packed(line) {
        return Err(LineFault::Packed(packed));
    }
    if line.len() > MAX_LINE_BYTES {
        return Err(LineFault::LongLine);
    }
    let mut skipped = 0;
    // A tool that adds a byte order mark may have added it to a file that had one.
    while is_first && line[skipped..].starts_with(b"\xef\xbb\xbf") {
        skipped += 3;
    }
    std::str::from_utf8(&line[skipped..]).map_err(|error| LineFault::Encoding {
        at: skipped + error.valid_up_to(),
    })
}

fn at(source: &str, line: usize, fault: LineFault) -> ProblemsError {
    ProblemsError::Line {
        source_name: source.to_owned(),
        line,
        fault,
    }
}
