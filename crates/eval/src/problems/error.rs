//! Errors of problem files, with a message for each fault of a line.

use beamgen_records::{Place, RecordsError};

use super::MAX_PROBLEM_BYTES;

/// A problem file that could not be used. Messages are one line: file, line, field, and what to do.
#[derive(Debug, thiserror::Error)]
pub enum ProblemsError {
    /// The file cannot be read, or a record is damaged.
    #[error(transparent)]
    Records(#[from] RecordsError),
    /// The file has no line with text.
    #[error(
        "{source_name}: no problems in it: write one JSON object or one line of text a problem"
    )]
    Empty {
        /// The path of the file, or `<stdin>`.
        source_name: String,
    },
    /// A record of the file is not a problem.
    #[error("{}: {fault}", place.within(source_name))]
    Record {
        /// The path of the file, or `<stdin>`.
        source_name: String,
        /// The position of the record.
        place: Place,
        /// The fault, which is the end of the message.
        fault: LineFault,
    },
}

/// The reason why a record is not a valid problem.
#[derive(Debug, thiserror::Error)]
pub enum LineFault {
    /// The problem, documents included, exceeds [`MAX_PROBLEM_BYTES`].
    #[error(
        "field \"{field}\": {bytes} bytes, at most {MAX_PROBLEM_BYTES} fit: shorten the problem"
    )]
    LongProblem {
        /// The key of the text, "text" in a plain file.
        field: String,
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
        field: String,
    },
    /// A field has a value of another type than `wanted`.
    #[error("field \"{field}\": found {found}: write {wanted}")]
    Type {
        /// The key of the field, as documented; the file may have other capitals.
        field: String,
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
    #[error("field \"id\": \"{id}\" is also on {first}: make the ids unique")]
    Repeated {
        /// The id, given in the file or derived from the record's number.
        id: String,
        /// The position of the earlier record.
        first: Place,
    },
    /// No record has the key that the caller named.
    #[error("no \"{key}\", which was named, but {found}: name another key")]
    NoNamed {
        /// The named key.
        key: String,
        /// The quoted keys of the record, or `nothing`.
        found: String,
    },
}
