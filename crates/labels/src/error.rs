//! Errors of files of labels.

use std::io;

use crate::{Place, Reason};

/// An error of a file of labels. Messages are one line.
#[derive(Debug, thiserror::Error)]
pub enum LabelsError {
    /// The file cannot be opened or read.
    #[error("{source_name}: {}: give a readable file, or `-` for stdin", beamgen_files::reason(.error))]
    Unreadable {
        /// The name of the file, or `<stdin>`.
        source_name: String,
        /// The error that the operating system reported.
        error: io::Error,
    },
    /// The file has no record.
    #[error("{source_name}: no chains in it: write one JSON object a line")]
    Empty {
        /// The name of the file, or `<stdin>`.
        source_name: String,
    },
    /// A line of JSON lines is not JSON, or contains only a part of it.
    #[error("{source_name}: line {line}: {reason}: write one JSON object a line")]
    Line {
        /// The name of the file, or `<stdin>`.
        source_name: String,
        /// The number of the line, from 1.
        line: usize,
        /// The fault of the line.
        reason: String,
    },
    /// The file begins as a JSON array and does not continue as one.
    #[error("{source_name}: not JSON: {reason}")]
    Array {
        /// The name of the file, or `<stdin>`.
        source_name: String,
        /// The message of the JSON parser, with line and column.
        reason: String,
    },
    /// The first records of the file fit no known format.
    #[error("{source_name}: {place}: unknown format (fields: {fields}): name one of {formats}")]
    Unknown {
        /// The name of the file, or `<stdin>`.
        source_name: String,
        /// The place of the first record.
        place: Place,
        /// The fields of the first record, separated by commas.
        fields: String,
        /// The names of all formats, separated by commas.
        formats: String,
    },
    /// Every record was rejected, or a record was rejected where all are needed.
    #[error("{source_name}: {place}: {reason}{}", further(*.others))]
    NoneUsable {
        /// The name of the file, or `<stdin>`.
        source_name: String,
        /// The place of the first rejected record.
        place: Place,
        /// The reason for the rejection of that record.
        reason: Reason,
        /// The number of further rejected records.
        others: usize,
    },
    /// A file of problems contains no problem's text.
    #[error(
        "{source_name}: no problems in it: write JSON objects with \"problem\" or \"question\""
    )]
    NoProblems {
        /// The name of the file, or `<stdin>`.
        source_name: String,
    },
    /// The file cannot be appended to.
    #[error("{source_name}: {}: name a file that can be written", beamgen_files::reason(.error))]
    Unwritable {
        /// The name of the file.
        source_name: String,
        /// The error that the operating system reported.
        error: io::Error,
    },
    /// The chains lack the facts that an order needs.
    #[error("the order {order} needs {facts}, which no chain has: add them, or use another order")]
    NoFacts {
        /// The name of the order.
        order: &'static str,
        /// The facts that the order needs, in words.
        facts: &'static str,
    },
    /// The step or its chain does not exist.
    #[error("chain {chain} has no step {step}: both count from 0")]
    NoStep {
        /// The index of the chain, from 0.
        chain: usize,
        /// The index of the step, from 0.
        step: usize,
    },
    /// The rating is not 1, 0 or -1.
    #[error("invalid rating {rating}: use 1 (right), 0 (neutral) or -1 (wrong)")]
    NoRating {
        /// The rating that was given.
        rating: i8,
    },
    /// A record of a pool of solutions cannot be used.
    #[error("{source_name}: {place}: {reason}")]
    NoSolutions {
        /// The name of the file, or `<stdin>`.
        source_name: String,
        /// The place of the record.
        place: Place,
        /// The reason why the record cannot be used.
        reason: Reason,
    },
    /// The name of a format is unknown.
    #[error("unknown format {name:?}: use one of {formats}")]
    NoFormat {
        /// The unknown name.
        name: String,
        /// The names of all formats, separated by commas.
        formats: String,
    },
}

fn further(count: usize) -> String {
    match count {
        0 => String::new(),
        1 => "; the record after it cannot be used either".to_owned(),
        count => format!("; the {count} records after it cannot be used either"),
    }
}
