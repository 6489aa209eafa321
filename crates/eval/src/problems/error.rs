//! Errors of problem files.

use std::io;

use super::{MAX_LINE_BYTES, MAX_PROBLEM_BYTES};

/// A problem file that could not be used. Messages are one line: file, line, field, and what to do.
#[derive(Debug, thiserror::Error)]
pub enum ProblemsError {
    /// The file cannot be opened or read.
    #[error("{source_name}: {}: give a readable file of problems, or `-` for stdin", beamgen_files::reason(.error))]
    Unreadable {
        /// The file's path, or `stdin`.
        source_name: String,
        /// The error of the operating system.
        error: io::Error,
    },
    /// The file has no problem: every line is blank.
    #[error(
        "{source_name}: no problems in it: write one JSON object or one line of text a problem"
    )]
    Empty {
        /// The file's path, or `stdin`.
        source_name: String,
    },
    /// A line of the file is not a problem.
    #[error("{source_name}:{line}: {fault}")]
    Line {
        /// The file's path, or `stdin`.
        source_name: String,
        /// The number of the line, from 1.
        line: usize,
        /// The fault of the line.
        fault: LineFault,
    },
}

/// The fault of a line of a problem file.
#[derive(Debug, thiserror::Error)]
pub enum LineFault {
    /// The line has more than [`MAX_LINE_BYTES`] bytes.
    #[error("the line is longer than {} MiB: split the file into one problem a line", MAX_LINE_BYTES >> 20)]
    LongLine,
    /// The problem's text has more than [`MAX_PROBLEM_BYTES`] bytes.
    #[error(
        "field \"{field}\": {bytes} bytes, at most {MAX_PROBLEM_BYTES} fit: shorten the problem"
    )]
    LongProblem {
        /// The key of the text, "text" in a plain file.
        field: &'static str,
        /// The length of the text in bytes.
        bytes: usize,
    },
    /// The text is well-formed, but a model cannot take it.
    #[error("field \"problem\": {reason}")]
    Refused {
        /// The model's error, which names the limit.
        reason: String,
    },
    /// The reference answer is missing where accuracy is to be measured.
    #[error(
        "field \"answer\": missing: add the reference answer, accuracy cannot be measured without it"
    )]
    NoAnswer,
    /// The line has bytes that are not UTF-8.
    #[error("invalid UTF-8 at byte {at} of the line: save the file as UTF-8")]
    Encoding {
        /// The offset of the first bad byte in the line, from 0.
        at: usize,
    },
    /// The file is JSON lines, and this line is not JSON.
    #[error("not JSON ({reason}): write one object a line")]
    Json {
        /// The JSON parser's error.
        reason: String,
    },
    /// The line is a JSON object in a file that began as plain text.
    #[error(
        "a JSON object, but line {first} is plain text, so the file is read as text: remove that line, or write all lines as JSON"
    )]
    JsonAfterText {
        /// The number of the file's first line that is not blank, from 1.
        first: usize,
    },
    /// The line is a JSON value, but not an object.
    #[error(
        "found {found} where an object is wanted: write one object a line, such as {{\"problem\": \"...\"}}"
    )]
    NotAnObject {
        /// The JSON type with its article, such as `a number`.
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
    /// The file begins like a format that is not text, such as Parquet; the field is the whole
    /// message.
    #[error("{0}")]
    Packed(&'static str),
    /// The line has none of the keys for the problem's text.
    #[error(
        "field \"problem\": missing (\"question\", \"prompt\" and \"input\" do as well), found {found}: add the problem's text"
    )]
    NoText {
        /// The keys of the line, quoted.
        found: String,
    },
    /// The problem's text is empty or blank.
    #[error("field \"{field}\": empty: add the problem's text")]
    BlankText {
        /// The key of the text.
        field: &'static str,
    },
    /// The field has a value of another type.
    #[error("field \"{field}\": found {found}: write {wanted}")]
    Type {
        /// The key of the field.
        field: &'static str,
        /// The JSON type of the value, with its article.
        found: &'static str,
        /// The types that the field may have.
        wanted: &'static str,
    },
    /// The given steps or the documents are not lists of texts; the field is the whole message.
    #[error("{0}")]
    Texts(String),
    /// The line gives first steps where chains are sampled from the beginning.
    #[error("field \"steps\": chains are sampled from their first step here: leave it out")]
    GivenSteps,
    /// An earlier line has the same id.
    #[error("field \"id\": \"{id}\" is also on line {first}: make the ids unique")]
    Repeated {
        /// The repeated id.
        id: String,
        /// The number of the first line with this id, from 1.
        first: usize,
    },
}

/// A kind of table of separated values, recognised so that the error can name a converter.
#[derive(Debug)]
pub struct Table {
    /// The extension of the file names, without a dot.
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
