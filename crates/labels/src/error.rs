//! What can be wrong with a file of labels.

use std::io;

use crate::{Place, Reason};

/// A file of labels that cannot be used. Messages are one line.
#[derive(Debug, thiserror::Error)]
pub enum LabelsError {
    /// It cannot be opened or read.
    #[error("{source_name}: {}: give a readable file, or `-` for stdin", beamgen_files::reason(.error))]
    Unreadable {
        /// The file.
        source_name: String,
        /// The error of the operating system.
        error: io::Error,
    },
    /// There is not one record in it.
    #[error("{source_name}: no chains in it: write one JSON object a line")]
    Empty {
        /// The file.
        source_name: String,
    },
    /// A line of JSON lines is not JSON, or not one line of it.
    #[error("{source_name}: line {line}: {reason}: write one JSON object a line")]
    Line {
        /// The file.
        source_name: String,
        /// From 1.
        line: usize,
        /// What is wrong with it.
        reason: String,
    },
    /// It begins as a JSON array and does not go on as one.
    #[error("{source_name}: not JSON: {reason}")]
    Array {
        /// The file.
        source_name: String,
        /// What the parser said, with line and column.
        reason: String,
    },
    /// Its first records are of no known format.
    #[error(
        "{source_name}: {place}: its fields ({fields}) are of no known format: name one of {formats}"
    )]
    Unknown {
        /// The file.
        source_name: String,
        /// The first record.
        place: Place,
        /// The first record's fields.
        fields: String,
        /// The formats there are.
        formats: String,
    },
    /// Every record was rejected, or one was where all are needed.
    #[error("{source_name}: {place}: {reason}{}", further(*.others))]
    NoneUsable {
        /// The file.
        source_name: String,
        /// The first record.
        place: Place,
        /// Why it was rejected.
        reason: Reason,
        /// How many more records were rejected.
        others: usize,
    },
    /// A file of problems has no problem's text in it.
    #[error(
        "{source_name}: no problems in it: write JSON objects with \"problem\" or \"question\""
    )]
    NoProblems {
        /// The file.
        source_name: String,
    },
    /// A file cannot be appended to.
    #[error("{source_name}: {}: name a file that can be written", beamgen_files::reason(.error))]
    Unwritable {
        /// The file.
        source_name: String,
        /// The error of the operating system.
        error: io::Error,
    },
    /// The chains lack the facts that an order goes by.
    #[error(
        "the order {order} goes by {facts}, which no chain has: add them, or take another order"
    )]
    NoFacts {
        /// The order.
        order: &'static str,
        /// The facts.
        facts: &'static str,
    },
    /// There is no such step among the chains that are rated.
    #[error("there is no step {step} of a chain {chain} (both from 0): name one that is there")]
    NoStep {
        /// The chain, from 0.
        chain: usize,
        /// The step, from 0.
        step: usize,
    },
    /// A rating is none of the three.
    #[error("a rating is 1 (right), 0 (neutral) or -1 (wrong), not {rating}")]
    NoRating {
        /// The rating.
        rating: i8,
    },
    /// A record of a pool of solutions cannot be used.
    #[error("{source_name}: {place}: {reason}")]
    NoSolutions {
        /// The file.
        source_name: String,
        /// The record.
        place: Place,
        /// Why.
        reason: Reason,
    },
    /// There is no format of this name.
    #[error("no format {name:?}: one of {formats}")]
    NoFormat {
        /// The name.
        name: String,
        /// The formats there are.
        formats: String,
    },
}

fn further(count: usize) -> String {
    match count {
        0 => String::new(),
        1 => "; the record behind it is of no use either".to_owned(),
        count => format!("; the {count} records behind it are of no use either"),
    }
}
