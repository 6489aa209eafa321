//! What can be wrong with a problem file.

use std::io;

use super::{MAX_LINE_BYTES, MAX_PROBLEM_BYTES};

/// A problem file that could not be used. Messages are one line: file, line, field, and what to do.
#[derive(Debug, thiserror::Error)]
pub enum ProblemsError {
    /// The file cannot be opened or read.
    #[error("{source_name}: {}: give a readable file of problems, or `-` for stdin", beamgen_files::reason(.error))]
    Unreadable {
        /// The file.
        source_name: String,
        /// The error of the operating system.
        error: io::Error,
    },
    /// There is not one problem in the file.
    #[error(
        "{source_name}: no problems in it: write one JSON object or one line of text a problem"
    )]
    Empty {
        /// The file.
        source_name: String,
    },
    /// A line of the file is not a problem.
    #[error("{source_name}:{line}: {fault}")]
    Line {
        /// The file.
        source_name: String,
        /// Its line, from 1.
        line: usize,
        /// What is wrong with the line.
        fault: LineFault,
    },
}

/// What is wrong with a line of a problem file.
#[derive(Debug, thiserror::Error)]
pub enum LineFault {
    /// Over [`MAX_LINE_BYTES`].
    #[error("the line is longer than {} MiB: split the file into one problem a line", MAX_LINE_BYTES >> 20)]
    LongLine,
    /// Over [`MAX_PROBLEM_BYTES`].
    #[error(
        "field \"{field}\": {bytes} bytes, at most {MAX_PROBLEM_BYTES} fit: shorten the problem"
    )]
    LongProblem {
        /// The key of the text, "text" in a plain file.
        field: &'static str,
        /// Its length.
        bytes: usize,
    },
    /// The text is fine, but a model cannot take it.
    #[error("field \"problem\": {reason}")]
    Refused {
        /// What the model says.
        reason: String,
    },
    /// No reference answer where one is needed.
    #[error(
        "field \"answer\": missing: add the reference answer, accuracy cannot be measured without it"
    )]
    NoAnswer,
    /// Bytes that are not UTF-8.
    #[error("invalid UTF-8 at byte {at} of the line: save the file as UTF-8")]
    Encoding {
        /// Offset of the first bad byte within the line.
        at: usize,
    },
    /// The file is JSON lines, and this line is not JSON.
    #[error("not JSON ({reason}): write one object a line")]
    Json {
        /// What the parser said.
        reason: String,
    },
    /// A problem in JSON in a file that began as plain text.
    #[error(
        "a JSON object, but line {first} is plain text, so the file is read as text: remove that line, or write all lines as JSON"
    )]
    JsonAfterText {
        /// The file's first line that is not blank.
        first: usize,
    },
    /// JSON, but not an object.
    #[error(
        "found {found} where an object is wanted: write one object a line, such as {{\"problem\": \"...\"}}"
    )]
    NotAnObject {
        /// What was found.
        found: &'static str,
    },
    /// The whole file is one JSON array.
    #[error("a JSON array: write one object a line (`jq -c '.[]' FILE` does it)")]
    Array,
    /// The file is a table of separated values.
    #[error(
        "a table with {} between its values: write JSON lines (`python3 -c 'import csv,json,sys; [print(json.dumps(row)) for row in \
         csv.DictReader(sys.stdin, delimiter=\"{}\")]' < FILE > FILE.jsonl` does it)", .0.name, .0.typed
    )]
    Table(&'static Table),
    /// The file's first bytes are those of a format that is not text.
    #[error("{0}")]
    Packed(&'static str),
    /// None of the keys for the problem's text is there.
    #[error(
        "field \"problem\": missing (\"question\", \"prompt\" and \"input\" do as well), there is {found}: add the problem's text"
    )]
    NoText {
        /// The keys that are there, quoted.
        found: String,
    },
    /// The text is there but blank.
    #[error("field \"{field}\": empty: add the problem's text")]
    BlankText {
        /// The key of the text.
        field: &'static str,
    },
    /// A field of another type.
    #[error("field \"{field}\": found {found}: write {wanted}")]
    Type {
        /// The key.
        field: &'static str,
        /// The type it has.
        found: &'static str,
        /// The types it may have.
        wanted: &'static str,
    },
    /// The given steps, or the documents, are no texts.
    #[error("{0}")]
    Texts(String),
    /// Given steps where chains are sampled from their beginning.
    #[error("field \"steps\": chains are sampled from their first step here: leave it out")]
    GivenSteps,
    /// An id used before.
    #[error("field \"id\": \"{id}\" stands on line {first} already: make the ids unique")]
    Repeated {
        /// The id.
        id: String,
        /// The line that has it first.
        first: usize,
    },
}

/// A kind of table of separated values.
#[derive(Debug)]
pub struct Table {
    /// The extension of its files' names.
    pub(super) extension: &'static str,
    pub(super) separator: char,
    /// The separator in words.
    name: &'static str,
    /// The separator in a string of Python.
    typed: &'static str,
}

/// The kinds of tables that are recognised, in the order they are tried.
pub(super) static TABLES: [Table; 2] = [
    Table {
        extension: "tsv",
        separator: '\t',
        name: "tabs",
        typed: "\\t",
    },
    Table {
        extension: "csv",
        separator: ',',
        name: "commas",
        typed: ",",
    },
];
