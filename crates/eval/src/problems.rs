//! Problem files: JSON lines, JSON arrays, tables, or plain text with one problem on each line.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::io::BufRead;

use beamgen_records::{Accepted, DataSource, Place, Record};
use beamgen_search::Problem;
use serde_json::{Map, Value};

use crate::answer::Marker;
use crate::chains::{CONTEXT_KEYS, context_of, kind, steps_of};
use crate::number::counted;
use crate::{Fingerprint, answer};
pub use error::{LineFault, ProblemsError};
pub use sets::NamedKeys;

mod error;
mod sets;
#[cfg(test)]
mod tests;

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

/// The records that problem files may have. A table from a pipe is recognised by the name of a column.
const ACCEPTED: Accepted = Accepted {
    text: true,
    special_files: true,
    columns: &TEXT_KEYS,
};

/// The part of a problem file that a caller wants.
#[derive(Clone, Copy, Debug, Default)]
pub struct Wanted {
    /// The index of the first problem, from 0.
    pub start: usize,
    /// The index after the last problem; `None`: the end of the file.
    pub end: Option<usize>,
    /// The number of these problems to keep, from the first on; `None`: all. The others are read and are part of the
    /// [fingerprint](Problems::fingerprint), but take no memory.
    pub limit: Option<usize>,
}

/// A problem file that was read.
#[derive(Clone, Debug)]
pub struct Problems {
    /// The path of the file, or `<stdin>`, for messages.
    pub source: String,
    /// The problems in the file's order, as many as are [wanted](Wanted::limit); never empty, ids never repeated.
    pub problems: Vec<Problem>,
    /// The position of each problem.
    pub places: Vec<Place>,
    /// All problems of the file, also those that are not kept.
    whole: Whole,
    /// The number of problems without a reference answer whose records have keys that are not read, and these keys.
    pub unread: (usize, BTreeSet<String>),
    /// The keys and properties that were found in a file; `None` for problems of no file.
    pub found: Option<Found>,
}

/// A summary of all problems that were read.
#[derive(Clone, Debug, Default)]
struct Whole {
    count: usize,
    /// The number of problems with given steps.
    given: usize,
    hash: Fingerprint,
}

impl Whole {
    /// Adds a problem: its id, text, answer, given steps, context, verifier and tests.
    fn add(&mut self, problem: &Problem) {
        self.count += 1;
        self.given += usize::from(!problem.steps.is_empty());
        let hash = &mut self.hash;
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
}

/// A summary of the layout of a problem file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Found {
    /// The published data sets whose layout records have.
    pub sets: BTreeSet<&'static str>,
    /// The number of reference answers by the key that they were read from.
    pub answers: BTreeMap<String, usize>,
    /// The lowest and the highest level of difficulty, if records have levels.
    pub levels: Option<(i64, i64)>,
}

impl Problems {
    /// Reads a problem file; `-` is the standard input.
    ///
    /// The format is detected as [`beamgen_records::read_file`] says: JSON lines, a JSON array, CSV, TSV or Parquet,
    /// also compressed, else plain text. The keys of published data sets are known; other records are read by the
    /// usual keys. Blank lines are skipped. A problem without an id gets the number of its line, item or row, from 1.
    ///
    /// # Errors
    /// [`ProblemsError`] names the file and the record.
    pub fn open(source: impl Into<DataSource>) -> Result<Self, ProblemsError> {
        Self::open_with(source, &NamedKeys::default(), Wanted::default())
    }

    /// Reads the wanted part of a problem file as [`open`](Self::open) does, by the keys that the caller names.
    ///
    /// # Errors
    /// [`ProblemsError`] names the file and the record, also one that lacks a named key.
    pub fn open_with(
        source: impl Into<DataSource>,
        keys: &NamedKeys,
        wanted: Wanted,
    ) -> Result<Self, ProblemsError> {
        let source = source.into();
        let mut reader = Reader::new(source.name.clone(), keys, wanted);
        beamgen_records::read_source(&source, ACCEPTED, &mut |place, record| {
            reader.take(place, record)
        })?;
        reader.done()
    }

    /// Makes `text` a single problem, even if it has several lines.
    ///
    /// # Errors
    /// [`ProblemsError`] names the file and the line.
    pub fn question(text: &str) -> Result<Self, ProblemsError> {
        let keys = NamedKeys::default();
        let mut reader = Reader::new("the question".to_owned(), &keys, Wanted::default());
        reader.take(Place::Line(1), Record::Text(text.trim().to_owned()))?;
        Ok(Self {
            found: None,
            ..reader.done()?
        })
    }

    /// Reads problems from `input`, which is called `source` in messages.
    ///
    /// # Errors
    /// [`ProblemsError`] names the file and the record.
    pub fn read(input: impl BufRead, source: &str) -> Result<Self, ProblemsError> {
        let keys = NamedKeys::default();
        let mut reader = Reader::new(source.to_owned(), &keys, Wanted::default());
        beamgen_records::read(input, source, ACCEPTED, &mut |place, record| {
            reader.take(place, record)
        })?;
        reader.done()
    }

    /// Returns problems that a program made, in place of a file. Ids must not be repeated.
    #[must_use]
    pub fn made(source: String, problems: Vec<Problem>) -> Self {
        let mut whole = Whole::default();
        for problem in &problems {
            whole.add(problem);
        }
        Self {
            source,
            places: (1..=problems.len()).map(Place::Row).collect(),
            problems,
            whole,
            unread: Default::default(),
            found: None,
        }
    }

    /// Whether problems of the file are missing here, since a [limit](Wanted::limit) left them out.
    #[must_use]
    pub fn is_cut(&self) -> bool {
        self.whole.count > self.problems.len()
    }

    /// Returns a sentence on the layout of a file: the number of problems and of answers, the keys of the answers, and the
    /// levels.
    pub fn found_note(&self) -> Option<String> {
        let Found {
            sets,
            answers,
            levels,
        } = self.found.as_ref()?;
        let mut note = format!(
            "{}: {}",
            self.source,
            counted(self.whole.count, "problem", "problems")
        );
        if !sets.is_empty() {
            let sets: Vec<&str> = sets.iter().copied().collect();
            note.push_str(&format!(" in the layout of {}", sets.join(", ")));
        }
        for (key, &count) in answers {
            let answers = counted(count, "answer", "answers");
            note.push_str(&format!(", {answers} from \"{key}\""));
        }
        if answers.is_empty() {
            note.push_str(", no reference answers");
        }
        match levels {
            Some((first, last)) if first == last => note.push_str(&format!(", level {first}")),
            Some((first, last)) => note.push_str(&format!(", levels {first} to {last}")),
            None => {}
        }
        Some(note)
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
        let count = self.whole.given;
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
            self.places[index],
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
            Some(index) => Err(at(&self.source, self.places[index], LineFault::NoAnswer)),
        }
    }

    /// Checks that the first `count` problems name only verifiers in `known`, if any.
    ///
    /// # Errors
    /// [`ProblemsError`] has the line of the first problem that names another one.
    pub fn check_verifiers(&self, count: usize, known: &[&str]) -> Result<(), ProblemsError> {
        for (problem, &place) in self.problems.iter().zip(&self.places).take(count) {
            if let Some(name) = &problem.verifier
                && !known.contains(&name.as_str())
            {
                let (name, known) = (name.clone(), known.join(", "));
                let fault = LineFault::UnknownVerifier { name, known };
                return Err(at(&self.source, place, fault));
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
            Some(index) => Err(at(&self.source, self.places[index], LineFault::GivenSteps)),
        }
    }

    /// Returns the fingerprint of all problems that were read (ids, texts, answers, given steps, contexts, verifiers,
    /// tests), also of those beyond the [limit](Wanted::limit). A run can only be resumed with equal problems.
    pub fn fingerprint(&self) -> String {
        self.whole.hash.clone().finish()
    }
}

/// Collects the problems of a file.
struct Reader<'a> {
    source: String,
    keys: &'a NamedKeys,
    wanted: Wanted,
    /// The number of records so far, those before [`Wanted::start`] included.
    read: usize,
    /// The place of the first record, and of the last one with the number of records there.
    began: Option<Place>,
    last: Option<(Place, usize)>,
    problems: Vec<Problem>,
    places: Vec<Place>,
    whole: Whole,
    unread: (usize, BTreeSet<String>),
    found: Found,
    /// Run files refer to problems by id, so with a repeated id a resumed run would skip a problem.
    first: HashMap<String, Place>,
}

impl<'a> Reader<'a> {
    fn new(source: String, keys: &'a NamedKeys, wanted: Wanted) -> Self {
        Self {
            source,
            keys,
            wanted,
            read: 0,
            began: None,
            last: None,
            whole: Whole::default(),
            problems: Vec::new(),
            places: Vec::new(),
            unread: (0, BTreeSet::new()),
            found: Found::default(),
            first: HashMap::new(),
        }
    }

    fn take(&mut self, place: Place, record: Record) -> Result<(), ProblemsError> {
        let at_place = match self.last {
            Some((last, count)) if last == place => count + 1,
            _ => 1,
        };
        let Wanted { start, end, limit } = self.wanted;
        let is_wanted = (start..end.unwrap_or(usize::MAX)).contains(&self.read);
        let problem = match record {
            Record::Text(text) => self.text(text, place),
            Record::Json(Value::Object(object)) => self.object(&object, place, at_place, is_wanted),
            Record::Json(other) => Err(LineFault::NotAnObject {
                found: kind(&other),
            }),
        };
        let problem = problem.map_err(|fault| at(&self.source, place, fault))?;
        self.read += 1;
        self.began.get_or_insert(place);
        self.last = Some((place, at_place));
        if !is_wanted {
            return Ok(());
        }
        self.whole.add(&problem);
        // A repeated id beyond the limit is found when the limit is raised.
        if limit.is_some_and(|limit| self.problems.len() >= limit) {
            return Ok(());
        }
        // This also covers ids that are line numbers: `{"id": "3"}` on line 1 and a problem without an id on line 3.
        if let Some(first) = self.first.insert(problem.id.clone(), place) {
            let id = problem.id;
            return Err(at(&self.source, place, LineFault::Repeated { id, first }));
        }
        self.problems.push(problem);
        self.places.push(place);
        Ok(())
    }

    fn text(&self, text: String, place: Place) -> Result<Problem, LineFault> {
        // Otherwise the JSON text, with the answer in it, would be given to the model as the problem.
        if let Some(first) = self.began
            && is_json_problem(&text)
        {
            let first = first.number();
            return Err(LineFault::JsonAfterText { first });
        }
        check_text(&text, "text")?;
        Ok(Problem {
            id: place.number().to_string(),
            text,
            ..Problem::default()
        })
    }

    fn object(
        &mut self,
        object: &Map<String, Value>,
        place: Place,
        at_place: usize,
        is_wanted: bool,
    ) -> Result<Problem, LineFault> {
        let set = match self.keys {
            NamedKeys { problem: None, .. } => sets::of(object),
            _ => None,
        };
        let (text, field) = match set {
            Some(set) => set.text(object)?,
            None => usual_text(object, self.keys)?,
        };
        check_text(&text, field)?;
        let id = scalar(object, set.map_or("id", |set| set.id))?;
        let answer = match set {
            Some(set) if self.keys.names_no_answer() => set.answer(object)?,
            _ => self.keys.answer(object)?,
        };
        let mut contexts = CONTEXT_KEYS.iter().filter_map(|&key| {
            let given = find(object, key).filter(|given| !given.is_null())?;
            Some((key, given))
        });
        // A null under the first key must not hide documents under another key.
        let context = contexts.next();
        let problem = Problem {
            id: id.unwrap_or_else(|| usual_id(place, at_place)),
            text,
            answer: answer.as_ref().map(|(answer, _)| answer.clone()),
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
                .cloned()
                .or_else(|| set?.tests(object)),
            ..Problem::default()
        };
        // The limit is on all text that the model reads, which includes the documents.
        if let Some((field, _)) = context {
            check_text(&problem.with_context(), field)?;
        }
        if !is_wanted {
            return Ok(problem);
        }
        if let Some((_, key)) = &answer {
            *self.found.answers.entry(key.clone()).or_default() += 1;
        } else if problem.tests.is_none() {
            let read = [field, BODY, "id", STEPS, VERIFIER, TESTS];
            let others = object.iter().filter(|(key, value)| {
                let mut read = read.into_iter().chain(context.map(|(key, _)| key));
                !value.is_null() && !read.any(|read| key.eq_ignore_ascii_case(read))
            });
            let keys: Vec<&String> = others.map(|(key, _)| key).collect();
            self.unread.0 += usize::from(!keys.is_empty());
            // A table may have any number of columns; the note names only a few.
            for key in keys {
                if self.unread.1.len() < NAMED_KEYS {
                    self.unread.1.insert(key.clone());
                }
            }
        }
        self.found.sets.extend(set.map(|set| set.name));
        if let Some(level) = level(object) {
            let (low, high) = self.found.levels.unwrap_or((level, level));
            self.found.levels = Some((low.min(level), high.max(level)));
        }
        Ok(problem)
    }

    fn done(self) -> Result<Problems, ProblemsError> {
        if self.problems.is_empty() {
            return Err(ProblemsError::Empty {
                source_name: self.source,
            });
        }
        Ok(Problems {
            source: self.source,
            problems: self.problems,
            places: self.places,
            whole: self.whole,
            unread: self.unread,
            found: Some(self.found),
        })
    }
}

/// Returns the id of a record without one: its number, and for a further record on the same line its rank there.
fn usual_id(place: Place, at_place: usize) -> String {
    match at_place {
        1 => place.number().to_string(),
        rank => format!("{}-{rank}", place.number()),
    }
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

/// Returns the text of a problem, by the named key or the usual ones, with the key.
fn usual_text<'a>(
    object: &Map<String, Value>,
    keys: &'a NamedKeys,
) -> Result<(String, &'a str), LineFault> {
    let (field, value) = match keys.problem.as_deref() {
        Some(key) => (key, named(object, key)?),
        None => TEXT_KEYS
            .iter()
            .find_map(|&key| Some((key, find(object, key)?)))
            .ok_or_else(|| LineFault::NoText {
                found: quoted(object.keys()),
            })?,
    };
    let Value::String(text) = value else {
        return Err(LineFault::Type {
            field: field.to_owned(),
            found: kind(value),
            wanted: "a string",
        });
    };
    // In files without `question`, a `body` may be anything.
    let body = find(object, BODY).and_then(Value::as_str);
    let body = body.filter(|body| field == "question" && !body.trim().is_empty());
    let text = match body {
        Some(body) => format!("{} {text}", body.trim_end()),
        None => text.clone(),
    };
    Ok((text, field))
}

/// Returns the value under a key that the caller named.
fn named<'a>(object: &'a Map<String, Value>, key: &str) -> Result<&'a Value, LineFault> {
    find(object, key).ok_or_else(|| LineFault::NoNamed {
        key: key.to_owned(),
        found: quoted(object.keys()),
    })
}

impl NamedKeys {
    fn names_no_answer(&self) -> bool {
        self.answer.is_none() && self.solution.is_none()
    }

    /// Returns the reference answer and its key. The first source that exists is used: the named key, `answer`, one
    /// of [`ANSWER_KEYS`] (perhaps a list of one), the marked answer of a `solution` (as in MATH).
    fn answer(&self, object: &Map<String, Value>) -> Result<Option<(String, String)>, LineFault> {
        if let Some(key) = &self.solution {
            named(object, key)?;
            return Ok(marked(object, key).map(|answer| (answer, key.clone())));
        }
        if let Some(key) = &self.answer {
            named(object, key)?;
            return Ok(referred(object, key).map(|answer| (answer, key.clone())));
        }
        let known = scalar(object, "answer")?;
        let known = known.map(|answer| (answer::reference(&answer).to_owned(), "answer"));
        let others = ANSWER_KEYS.iter();
        let found = known
            .or_else(|| {
                others
                    .into_iter()
                    .find_map(|key| Some((referred(object, key)?, *key)))
            })
            .or_else(|| Some((marked(object, "solution")?, "solution")))
            // Some sets have the bare number there.
            .or_else(|| {
                let solution = find(object, "solution").filter(|value| value.is_number())?;
                Some((text_of(solution)?, "solution"))
            });
        Ok(found.map(|(answer, key)| (answer, key.to_owned())))
    }
}

/// Returns the level of difficulty: a number, or the number in a text such as `Level 3`.
fn level(object: &Map<String, Value>) -> Option<i64> {
    match find(object, "level")? {
        Value::Number(level) => level.as_i64(),
        Value::String(level) => {
            let level = level.strip_prefix("Level ").unwrap_or(level);
            level.trim().parse().ok()
        }
        _ => None,
    }
}

/// Returns the object under `key`.
fn object_at<'a>(
    object: &'a Map<String, Value>,
    key: &str,
) -> Result<&'a Map<String, Value>, LineFault> {
    let value = find(object, key).unwrap_or(&Value::Null);
    value.as_object().ok_or_else(|| LineFault::Type {
        field: key.to_owned(),
        found: kind(value),
        wanted: "an object",
    })
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

/// Returns the reference answer under `key`: a text or a number, or a list of one.
fn referred(object: &Map<String, Value>, key: &str) -> Option<String> {
    let given = find(object, key)?;
    let answer = match given.as_array() {
        Some(list) if list.len() == 1 => text_of(&list[0]),
        _ => text_of(given),
    };
    answer.map(|answer| answer::reference(&answer).to_owned())
}

/// Returns the marked answer of the worked solution under `key`.
fn marked(object: &Map<String, Value>, key: &str) -> Option<String> {
    marked_in(find(object, key)?.as_str()?)
}

fn marked_in(solution: &str) -> Option<String> {
    // "The answer is" within a worked solution may be about a part of the problem, and a wrong reference is worse
    // than none.
    let marked = answer::extract_marked(solution);
    let marked = marked.filter(|found| found.marker != Marker::Sentence);
    marked.map(|found| found.text.to_owned())
}

/// Returns a string or a number as text, and `None` for other types.
fn text_of(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Number(number) => Some(number.to_string()),
        _ => None,
    }
}

fn check_text(text: &str, field: &str) -> Result<(), LineFault> {
    let field = || field.to_owned();
    if text.trim().is_empty() {
        return Err(LineFault::BlankText { field: field() });
    }
    if text.len() > MAX_PROBLEM_BYTES {
        return Err(LineFault::LongProblem {
            field: field(),
            bytes: text.len(),
        });
    }
    Ok(())
}

/// Returns the string or number under `field` as text; `None` if the field is absent or null.
fn scalar(object: &Map<String, Value>, field: &str) -> Result<Option<String>, LineFault> {
    let value = find(object, field).filter(|value| !value.is_null());
    let Some(value) = value else {
        return Ok(None);
    };
    let text = text_of(value).ok_or_else(|| LineFault::Type {
        field: field.to_owned(),
        found: kind(value),
        wanted: "a string or a number",
    });
    text.map(Some)
}

fn at(source: &str, place: Place, fault: LineFault) -> ProblemsError {
    ProblemsError::Record {
        source_name: source.to_owned(),
        place,
        fault,
    }
}
