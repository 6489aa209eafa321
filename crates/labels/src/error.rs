//! Errors of reading and writing files of labelled chains.

use std::io;

use crate::{Place, Reason, RecordsError};

/// An error of reading or writing a file of labelled chains. Each message is a single line that
/// says what to do.
#[derive(Debug, thiserror::Error)]
pub enum LabelsError {
    /// The file cannot be read, or a record is damaged.
    #[error(transparent)]
    Records(#[from] RecordsError),
    /// The file contains no record at all.
    #[error("{source_name}: no chains in it: write one JSON object a line")]
    Empty {
        /// The path, or `<stdin>`.
        source_name: String,
    },
    /// The first record has the fields of no known format.
    #[error("{}: unknown format (fields: {fields}): name one of {formats}", place.within(source_name))]
    Unknown {
        /// The path, or `<stdin>`.
        source_name: String,
        /// The position of the first record.
        place: Place,
        /// The first record's field names, separated by commas.
        fields: String,
        /// The names of all known formats, separated by commas.
        formats: String,
    },
    /// No record could be used, or one record could not be used in a file that needs all of them.
    #[error("{}: {reason}{}", place.within(source_name), further(*.others))]
    NoneUsable {
        /// The path, or `<stdin>`.
        source_name: String,
        /// The position of the first rejected record.
        place: Place,
        /// The reason why the first rejected record was rejected.
        reason: Reason,
        /// The number of rejected records after the first one.
        others: usize,
    },
    /// No record of a file of problems contains a problem.
    #[error(
        "{source_name}: no problems in it: write JSON objects with \"problem\" or \"question\""
    )]
    NoProblems {
        /// The path, or `<stdin>`.
        source_name: String,
    },
    /// The file of an annotation cannot be opened or appended to.
    #[error("{source_name}: {}: name a file that can be written", beamgen_files::reason(.error))]
    Unwritable {
        /// The path of the file.
        source_name: String,
        /// The cause reported by the operating system.
        error: io::Error,
    },
    /// No chain has the facts by which [`Order`](crate::annotate::Order) sorts.
    #[error("the order {order} needs {facts}, which no chain has: add them, or use another order")]
    NoFacts {
        /// The order's name on command lines.
        order: &'static str,
        /// A description of the missing facts.
        facts: &'static str,
    },
    /// The person moved to a chain or step that does not exist.
    #[error("chain {chain} has no step {step}: both count from 0")]
    NoStep {
        /// The requested index of the chain, from 0.
        chain: usize,
        /// The requested index of the step, from 0.
        step: usize,
    },
    /// A rating is outside -1 to 1.
    #[error("invalid rating {rating}: use 1 (right), 0 (neutral) or -1 (wrong)")]
    NoRating {
        /// The rejected value.
        rating: i8,
    },
    /// A record of a pool of solutions cannot be used.
    #[error("{}: {reason}", place.within(source_name))]
    NoSolutions {
        /// The path, or `<stdin>`.
        source_name: String,
        /// The position of the record in the file.
        place: Place,
        /// The fault of the record.
        reason: Reason,
    },
    /// No format has the requested name.
    #[error("unknown format {name:?}: use one of {formats}")]
    NoFormat {
        /// The requested name.
        name: String,
        /// The names of all known formats, separated by commas.
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
