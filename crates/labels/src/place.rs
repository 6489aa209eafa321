//! The place of a record in a file.

use std::fmt;

/// The place of a record in a file, counted from 1. In messages `line 3` or `item 3`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// The number of a line in a file of JSON lines.
    Line(usize),
    /// The number of an item in a JSON array.
    Item(usize),
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Line(line) => write!(f, "line {line}"),
            Self::Item(item) => write!(f, "item {item}"),
        }
    }
}
