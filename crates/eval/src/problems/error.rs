//! Errors of problem files, with a message for each fault of a line.

use std::io;

use super::{MAX_LINE_BYTES, MAX_PROBLEM_BYTES};

/// A problem file that could not be used. Messages are one line: file, line, field, and what to do.
#[derive(Debug, thiserror::Error)]
pub enum ProblemsError {
    /// The file cannot be opened or read.
    #[error("{source_name}: {}: give a readable file of problems, or `-` for stdin", beamgen_files::reason(.error))]
    Unreadable {
        /// The path of the file, or `<stdin>`.
        source_name: String,
        /// The error of the operating system.
        error: io::Error,
    },
    /// The file has no line with text.
    #[error(
        "{source_name}: no problems in it: write one JSON object or one line of text a problem"
    )]
    Empty {
        /// The path of the file, or `<stdin>`.
        source_name: String,
    },
    /// A line of the file is not a problem.
    #[error("{source_name}:{line}: {fault}")]
    Line {
        /// The path of the file, or `<stdin>`.
        source_name: String,
        /// The number of the line, counted from 1 with blank lines.
        line: usize,
        /// The fault, which is the end of the message.
        fault: LineFault,
    },
}

/// The reason why a line is not a valid problem.
#[derive(Debug, thiserror::Error)]
pub enum LineFault {
    /// The line exceeds [`MAX_LINE_BYTES`], so the file is probably of another kind.
    #[error("the line is longer than {} MiB: split the file into one problem a line", MAX_LINE_BYTES >> 20)]
    LongLine,
    /// The problem, documents included, exceeds [`MAX_PROBLEM_BYTES`].
    #[error(
        "field \"{field}\": {bytes} bytes, at most {MAX_PROBLEM_BYTES} fit: shorten the problem"
    )]
    LongProblem {
        /// The key of the text, "text" in a plain file.
        field: &'static str,
        /// The length of the problem with its documents, in bytes.
        bytes: usize,
    },
    /// The line is valid, but a model refuses its problem.
    #[error("field \"problem\": {reason}")]
    Refused {
        /// The message of the model's error, with the limit.
        reason: String,
    },
    /// The problem has no reference answer, but the run measures accuracy.
    #[error(
        "field \"answer\": missing: add the reference answer, accuracy cannot be measured without it"
    )]
    NoAnswer,
    /// The problem names a verifier that the settings do not have.
    #[error(
        "field \"verifier\": no {name:?} in the settings: choose from {known}, or add it to [verifier.others]"
    )]
    UnknownVerifier {
        /// The name in the problem.
        name: String,
        /// The names in the settings, separated by commas.
        known: String,
    },
    /// The line has bytes that are not valid UTF-8.
    #[error("invalid UTF-8 at byte {at} of the line: save the file as UTF-8")]
    Encoding {
        /// The offset of the first invalid byte in the line, from 0.
        at: usize,
    },
    /// The file is JSON lines, and this line is not JSON.
    #[error("not JSON ({reason}): write one object a line")]
    Json {
        /// The message of the JSON parser.
        reason: String,
    },
    /// The line is a JSON object, but the first line of the file is plain text.
    #[error(
        "a JSON object, but line {first} is plain text, so the file is read as text: remove that line, or write all lines as JSON"
    )]
    JsonAfterText {
        /// The number of the first line that is not blank, counted from 1.
        first: usize,
    },
    /// The line is a JSON value other than an object.
    #[error(
        "found {found} where an object is wanted: write one object a line, such as {{\"problem\": \"...\"}}"
    )]
    NotAnObject {
        /// The JSON type with its article, for example `a number`.
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
    /// The file begins like a binary format, for example Parquet. The string is the whole message.
    #[error("{0}")]
    Packed(&'static str),
    /// The record has no key for the text of a problem.
    #[error(
        "field \"problem\": missing (\"question\", \"prompt\" and \"input\" do as well), found {found}: add the problem's text"
    )]
    NoText {
        /// The quoted keys of the record, or `nothing`.
        found: String,
    },
    /// The text of the problem has only white space.
    #[error("field \"{field}\": empty: add the problem's text")]
    BlankText {
        /// The key of the text.
        field: &'static str,
    },
    /// A field has a value of another type than `wanted`.
    #[error("field \"{field}\": found {found}: write {wanted}")]
    Type {
        /// The key of the field, as documented; the file may have other capitals.
        field: &'static str,
        /// The JSON type of the value with its article.
        found: &'static str,
        /// The accepted types in words, the end of the message.
        wanted: &'static str,
    },
    /// The given steps or the documents are not lists of texts. The string is the whole message.
    #[error("{0}")]
    Texts(String),
    /// The record has given steps, but the command samples whole chains.
    #[error("field \"steps\": chains are sampled from their first step here: leave it out")]
    GivenSteps,
    /// The id of the problem is also on an earlier line.
    #[error("field \"id\": \"{id}\" is also on line {first}: make the ids unique")]
    Repeated {
        /// The id, given in the file or derived from a line number.
        id: String,
        /// The number of the earlier line, counted from 1.
        first: usize,
    },
}

/// A kind of table of separated values, recognised only so that the error can suggest a conversion.
#[derive(Debug)]
pub struct Table {
    /// The extension of such files, without the dot.
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
