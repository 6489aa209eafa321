//! The position of a record in its file.

use std::fmt;

/// The position of a record in its file, from 1. Messages show `line 3` or `item 3`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// The line number in a file of JSON lines.
    Line(usize),
    /// The item number in a JSON array.
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
