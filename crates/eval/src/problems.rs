//! Problem files: JSON lines, or plain text with a problem a line.

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

/// The longest line read. A reference solution may be long; more than this is another kind of file.
pub const MAX_LINE_BYTES: usize = 8 << 20;

/// The longest problem text. Anything longer is far over every context window, so it is refused
/// before it is tokenised.
pub const MAX_PROBLEM_BYTES: usize = 256 << 10;

/// The keys a problem's text may stand under, in the order they are tried. Capitals do not matter.
const TEXT_KEYS: [&str; 4] = ["problem", "question", "prompt", "input"];

/// The keys that a reference answer may stand under after `answer`, in the order they are tried.
const ANSWER_KEYS: [&str; 5] = [
    "final_answer",
    "expected_answer",
    "ground_truth",
    "gold",
    "target",
];

/// The story before a `question`, as in `ASDiv` and SVAMP.
const BODY: &str = "body";

/// The steps that every chain of the problem begins with.
const STEPS: &str = "steps";

/// Most keys that a message names.
const NAMED_KEYS: usize = 8;

/// A problem file that was read.
#[derive(Clone, Debug)]
pub struct Problems {
    /// What messages call the file: its path, or `<stdin>`.
    pub source: String,
    /// The problems in the file's order; never empty, ids never repeated.
    pub problems: Vec<Problem>,
    /// The line of each problem, from 1.
    pub lines: Vec<usize>,
    /// How many problems have no reference answer but keys that were not read, and these keys.
    pub unread: (usize, BTreeSet<String>),
}

impl Problems {
    /// Reads a problem file; `-` is the standard input.
    ///
    /// The format is told from the first line that is not blank: `{` begins JSON lines, anything
    /// else is text with one problem a line. Blank lines are skipped. An absent id is the line's
    /// number, counted from 1.
    ///
    /// # Errors
    /// [`ProblemsError`] names the file and the line.
    pub fn open(path: &Path) -> Result<Self, ProblemsError> {
        if path == Path::new("-") {
            return Self::read(io::stdin().lock(), "<stdin>");
        }
        let source_name = path.display().to_string();
        let extension = path.extension().unwrap_or_default();
        let is_named = |table: &&Table| extension.eq_ignore_ascii_case(table.extension);
        match File::open(path) {
            Ok(file) => {
                let table = TABLES.iter().find(is_named);
                Self::read_as(table, BufReader::new(file), &source_name)
            }
            Err(error) => Err(ProblemsError::Unreadable { source_name, error }),
        }
    }

    /// Takes a text for the only problem, however many lines it has.
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

    /// Reads problems from anything; `source` names it in messages.
    ///
    /// # Errors
    /// [`ProblemsError`] names the file and the line.
    pub fn read(input: impl BufRead, source: &str) -> Result<Self, ProblemsError> {
        Self::read_as(None, input, source)
    }

    /// Reads problems of a file whose name says that it is a `table`, if it does.
    fn read_as(
        table: Option<&'static Table>,
        mut input: impl BufRead,
        source: &str,
    ) -> Result<Self, ProblemsError> {
        let (mut problems, mut numbers) = (Vec::new(), Vec::new());
        let mut unread = (0, BTreeSet::new());
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
            let text = decoded(&line, number == 1).map_err(fault)?.trim();
            if text.is_empty() {
                continue;
            }
            let format = *format.get_or_insert_with(|| Format::of(text, table));
            if let (Format::Text, Some(&first)) = (format, numbers.first())
                && is_json_problem(text)
            {
                return Err(fault(LineFault::JsonAfterText { first }));
            }
            let (problem, keys) = format.parse(text, number).map_err(fault)?;
            unread.0 += usize::from(!keys.is_empty());
            unread.1.extend(keys);
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

    /// Returns a note on problems without a reference answer whose lines have unread keys, since the
    /// answer may be under one of them.
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
        let given = |problem: &&Problem| !problem.steps.is_empty();
        let count = self.problems.iter().filter(given).count();
        (count > 0).then(|| {
            format!(
                "{}: {} \"steps\", and all its chains begin with them",
                self.source,
                counted(count, "problem gives", "problems give"),
            )
        })
    }

    /// The error for a problem (by index) that a model refuses, with the problem's place in the
    /// file.
    pub fn refused(&self, index: usize, reason: String) -> ProblemsError {
        at(
            &self.source,
            self.lines[index],
            LineFault::Refused { reason },
        )
    }

    /// Refuses the first of the first `count` problems that has no reference answer.
    ///
    /// # Errors
    /// [`ProblemsError`] names the line of that problem.
    pub fn require_answers(&self, count: usize) -> Result<(), ProblemsError> {
        let mut problems = self.problems.iter().take(count);
        match problems.position(|problem| problem.answer.is_none()) {
            None => Ok(()),
            Some(index) => Err(at(&self.source, self.lines[index], LineFault::NoAnswer)),
        }
    }

    /// Refuses the first problem that gives steps, where chains are sampled from their beginning.
    ///
    /// # Errors
    /// [`ProblemsError`] names the line of that problem.
    pub fn refuse_steps(&self) -> Result<(), ProblemsError> {
        let given = |problem: &Problem| !problem.steps.is_empty();
        match self.problems.iter().position(given) {
            None => Ok(()),
            Some(index) => Err(at(&self.source, self.lines[index], LineFault::GivenSteps)),
        }
    }

    /// A stable hash of all ids, texts, answers, given steps, and contexts, so that a run is not
    /// resumed on other problems.
    pub fn fingerprint(&self) -> String {
        let mut hash = Fingerprint::default();
        for problem in &self.problems {
            hash.field(problem.id.as_bytes());
            hash.field(problem.text.as_bytes());
            hash.field(problem.answer.as_deref().unwrap_or("\0none").as_bytes());
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
    /// The format of a file by its first line, and by its name if that says that it is a table.
    fn of(first: &str, named: Option<&'static Table>) -> Self {
        match first.strip_prefix('[').map(str::trim_start) {
            Some(rest) if rest.is_empty() || rest.starts_with(['{', '"']) => Self::JsonArray,
            _ if first.starts_with('{') => Self::JsonLines,
            _ => match named.or_else(|| Table::headed(first)) {
                Some(table) => Self::Table(table),
                None => Self::Text,
            },
        }
    }

    /// The problem, and of one without a reference answer the keys that were not read.
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
    /// The table whose head a line is: several names, one of which stands for problems. Prose has a
    /// blank after a comma.
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

/// The value under a key, or under the same one with other capitals.
fn find<'a>(object: &'a Map<String, Value>, key: &str) -> Option<&'a Value> {
    let other = || {
        object
            .iter()
            .find(|(name, _)| name.eq_ignore_ascii_case(key))
    };
    object.get(key).or_else(|| other().map(|(_, value)| value))
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
    let body = find(object, BODY).and_then(Value::as_str);
    let body = body.filter(|body| field == "question" && !body.trim().is_empty());
    let whole = body.map(|body| format!("{} {text}", body.trim_end()));
    let answer = reference(object)?;
    let mut contexts = CONTEXT_KEYS.iter().filter_map(|&key| {
        let given = find(object, key).filter(|given| !given.is_null())?;
        Some((key, given))
    });
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
    };
    if let Some((field, _)) = context {
        checked_text(&problem.with_context(), field)?;
    }
    Ok((problem, unread))
}

/// Keys as a message names them.
fn quoted<'a>(keys: impl IntoIterator<Item = &'a String>) -> String {
    let keys = keys.into_iter().take(NAMED_KEYS);
    let keys: Vec<String> = keys.map(|key| format!("\"{key}\"")).collect();
    if !keys.is_empty() {
        keys.join(", ")
    } else {
        "nothing".to_owned()
    }
}

/// The reference answer: under `answer`, else under one of [`ANSWER_KEYS`] (`OlympiadBench` may write
/// a list of one), else what a worked `solution` marks (MATH).
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
    let marked = marked.filter(|found| found.marker != Marker::Sentence);
    Ok(marked.map(|found| found.text.to_owned()))
}

/// A string or a number as text.
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

/// A string or a number as text; an absent or null field is `None`.
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

/// The text of a line; `is_first` says that it begins the file.
fn decoded(line: &[u8], is_first: bool) -> Result<&str, LineFault> {
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
