//! Problem files: JSON lines, or plain text with one problem on each line.

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

/// The longest accepted line, in bytes. Reference solutions may be long, but a longer line suggests another kind of
/// file.
pub const MAX_LINE_BYTES: usize = 8 << 20;

/// The longest accepted problem, in bytes: about 64,000 tokens. Tokenising a longer one would take long, and the
/// steps of its solution need room in the context, too.
pub const MAX_PROBLEM_BYTES: usize = 256 << 10;

/// The keys of a problem's text, the preferred one first. Upper and lower case are equal.
const TEXT_KEYS: [&str; 4] = ["problem", "question", "prompt", "input"];

/// The keys of a reference answer if there is no `answer`, the preferred one first.
const ANSWER_KEYS: [&str; 5] = [
    "final_answer",
    "expected_answer",
    "ground_truth",
    "gold",
    "target",
];

/// The key of a text that precedes the `question`, as in `ASDiv` and SVAMP.
const BODY: &str = "body";

/// The key of given steps, with which every chain of the problem begins.
const STEPS: &str = "steps";

/// The key of the name of the problem's own verifier.
const VERIFIER: &str = "verifier";

/// The key of data for a verifier.
const TESTS: &str = "tests";

/// The largest number of keys in a message, so that it fits on a line.
const NAMED_KEYS: usize = 8;

/// A problem file that was read.
#[derive(Clone, Debug)]
pub struct Problems {
    /// The path of the file, or `<stdin>`, for messages.
    pub source: String,
    /// The problems in the file's order; never empty, ids never repeated.
    pub problems: Vec<Problem>,
    /// The line of each problem, from 1.
    pub lines: Vec<usize>,
    /// The number of problems without a reference answer whose records have keys that are not read, and these keys.
    pub unread: (usize, BTreeSet<String>),
}

impl Problems {
    /// Reads a problem file; `-` is the standard input.
    ///
    /// The first line that is not blank decides the format: JSON lines if it starts with `{`, else plain text. Blank
    /// lines are skipped. A problem without an id gets the number of its line, from 1.
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

    /// Makes `text` a single problem, even if it has several lines.
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

    /// Reads problems from `input`, which is called `source` in messages.
    ///
    /// # Errors
    /// [`ProblemsError`] names the file and the line.
    pub fn read(input: impl BufRead, source: &str) -> Result<Self, ProblemsError> {
        Self::read_as(None, input, source)
    }

    /// Reads problems. `table` is the kind of table to which the file's extension belongs, if any.
    fn read_as(
        table: Option<&'static Table>,
        mut input: impl BufRead,
        source: &str,
    ) -> Result<Self, ProblemsError> {
        let (mut problems, mut numbers) = (Vec::new(), Vec::new());
        let mut unread = (0, BTreeSet::new());
        // Run files refer to problems by id, so with a repeated id a resumed run would skip a problem.
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
            // Blank lines are counted too, so that messages have the line numbers of an editor.
            let text = decoded(&line, number == 1).map_err(fault)?.trim();
            if text.is_empty() {
                continue;
            }
            // The first line decides for the whole file: a change of format within a file is an error.
            let format = *format.get_or_insert_with(|| Format::of(text, table));
            // Otherwise the JSON text, with the answer in it, would be given to the model as the problem.
            if let (Format::Text, Some(&first)) = (format, numbers.first())
                && is_json_problem(text)
            {
                return Err(fault(LineFault::JsonAfterText { first }));
            }
            let (problem, keys) = format.parse(text, number).map_err(fault)?;
            unread.0 += usize::from(!keys.is_empty());
            unread.1.extend(keys);
            // This also covers ids that are line numbers: `{"id": "3"}` on line 1 and a problem without an id on line
            // 3.
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

    /// Returns a note on problems without a reference answer whose records have unread keys, since a key may hold the
    /// answer.
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

    /// Returns the error for the problem at `index`, which a model refuses. The error has the problem's line.
    pub fn refused(&self, index: usize, reason: String) -> ProblemsError {
        at(
            &self.source,
            self.lines[index],
            LineFault::Refused { reason },
        )
    }

    /// Checks that the first `count` problems have reference answers.
    ///
    /// # Errors
    /// [`ProblemsError`] has the line of the first problem without an answer.
    pub fn require_answers(&self, count: usize) -> Result<(), ProblemsError> {
        self.require_outcomes(count, |_| false)
    }

    /// Checks that each of the first `count` problems has a reference answer, or is judged by a verifier that needs
    /// none, as `is_verified` says.
    ///
    /// # Errors
    /// [`ProblemsError`] has the line of the first problem of which nothing tells whether an answer is right.
    pub fn require_outcomes(
        &self,
        count: usize,
        is_verified: impl Fn(&Problem) -> bool,
    ) -> Result<(), ProblemsError> {
        let mut problems = self.problems.iter().take(count);
        match problems.position(|problem| problem.answer.is_none() && !is_verified(problem)) {
            None => Ok(()),
            Some(index) => Err(at(&self.source, self.lines[index], LineFault::NoAnswer)),
        }
    }

    /// Checks that the first `count` problems name only verifiers in `known`, if any.
    ///
    /// # Errors
    /// [`ProblemsError`] has the line of the first problem that names another one.
    pub fn check_verifiers(&self, count: usize, known: &[&str]) -> Result<(), ProblemsError> {
        for (problem, &line) in self.problems.iter().zip(&self.lines).take(count) {
            if let Some(name) = &problem.verifier
                && !known.contains(&name.as_str())
            {
                let (name, known) = (name.clone(), known.join(", "));
                let fault = LineFault::UnknownVerifier { name, known };
                return Err(at(&self.source, line, fault));
            }
        }
        Ok(())
    }

    /// Checks that no problem has given steps, for callers that sample whole chains.
    ///
    /// # Errors
    /// [`ProblemsError`] has the line of the first problem with given steps.
    pub fn refuse_steps(&self) -> Result<(), ProblemsError> {
        let mut problems = self.problems.iter();
        match problems.position(|problem| !problem.steps.is_empty()) {
            None => Ok(()),
            Some(index) => Err(at(&self.source, self.lines[index], LineFault::GivenSteps)),
        }
    }

    /// Returns the fingerprint of all problems (ids, texts, answers, given steps, contexts, verifiers, tests). A run can only be
    /// resumed with equal problems.
    pub fn fingerprint(&self) -> String {
        let mut hash = Fingerprint::default();
        for problem in &self.problems {
            hash.field(problem.id.as_bytes());
            hash.field(problem.text.as_bytes());
            // `\0` is in no answer, so that no answer and the answer "none" have different hashes.
            hash.field(problem.answer.as_deref().unwrap_or("\0none").as_bytes());
            // These fields are hashed only if present, so that older run files keep their fingerprints.
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
            if let Some(verifier) = &problem.verifier {
                hash.field(b"\0verifier");
                hash.field(verifier.as_bytes());
            }
            if let Some(tests) = &problem.tests {
                hash.field(b"\0tests");
                hash.field(tests.to_string().as_bytes());
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
    /// Determines the format of a file from its first line. `named` is the kind of table to which the extension
    /// belongs.
    fn of(first: &str, named: Option<&'static Table>) -> Self {
        match first.strip_prefix('[').map(str::trim_start) {
            // A plain problem may begin with an interval such as `[5, 3)`.
            Some(rest) if rest.is_empty() || rest.starts_with(['{', '"']) => Self::JsonArray,
            _ if first.starts_with('{') => Self::JsonLines,
            _ => match named.or_else(|| Table::headed(first)) {
                Some(table) => Self::Table(table),
                None => Self::Text,
            },
        }
    }

    /// Parses a line to a problem. If the problem has no reference answer, the unread keys are returned too.
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
    /// Returns the kind of table if `line` is the head of one: several column names, one of them in [`TEXT_KEYS`].
    /// Prose has blanks after commas and does not match.
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

/// Returns the value under `key`, or under a key that differs only in case.
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
    // In files without `question`, a `body` may be anything.
    let body = find(object, BODY).and_then(Value::as_str);
    let body = body.filter(|body| field == "question" && !body.trim().is_empty());
    let whole = body.map(|body| format!("{} {text}", body.trim_end()));
    let answer = reference(object)?;
    let mut contexts = CONTEXT_KEYS.iter().filter_map(|&key| {
        let given = find(object, key).filter(|given| !given.is_null())?;
        Some((key, given))
    });
    // A null under the first key must not hide documents under another key.
    let context = contexts.next();
    let is_read = |key: &str| {
        let read = [field, "id", STEPS, VERIFIER, TESTS];
        let read = read.into_iter().chain(body.map(|_| BODY));
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
        verifier: scalar(object, VERIFIER)?,
        tests: find(object, TESTS)
            .filter(|tests| !tests.is_null())
            .cloned(),
        ..Problem::default()
    };
    // The limit is on all text that the model reads, which includes the documents.
    if let Some((field, _)) = context {
        checked_text(&problem.with_context(), field)?;
    }
    Ok((problem, unread))
}

fn quoted<'a>(keys: impl IntoIterator<Item = &'a String>) -> String {
    let keys = keys.into_iter().take(NAMED_KEYS);
    let keys: Vec<String> = keys.map(|key| format!("\"{key}\"")).collect();
    if !keys.is_empty() {
        keys.join(", ")
    } else {
        "nothing".to_owned()
    }
}

/// Returns the reference answer. The first source that exists is used: `answer`, one of [`ANSWER_KEYS`] (in
/// `OlympiadBench` perhaps a list of one), the marked answer of a `solution` (as in MATH).
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
    // "The answer is" within a worked solution may be about a part of the problem, and a wrong reference is worse
    // than none.
    let marked = marked.filter(|found| found.marker != Marker::Sentence);
    Ok(marked.map(|found| found.text.to_owned()))
}

/// Returns a string or a number as text, and `None` for other types.
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

/// Returns the string or number under `field` as text; `None` if the field is absent or null.
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

/// Decodes a line as UTF-8 and checks its length. The first line may begin with byte order marks. An error is
/// returned if it shows that the file is not text.
fn decoded(line: &[u8], is_first: bool) -> Result<&str, LineFault> {
    // This check precedes that of the length: a compressed file may have a very long first line, and "too long" would
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
