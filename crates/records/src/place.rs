//! The position of a record in its file.

use std::fmt;

/// The position of a record in its file, from 1. Messages show `line 3`, `item 3` or `row 3`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// The line number in a file of text. A row of separated values has the line of its first value.
    Line(usize),
    /// The item number in a JSON array.
    Item(usize),
    /// The row number in a Parquet table.
    Row(usize),
}

impl Place {
    /// Returns the number of the line, the item or the row.
    #[must_use]
    pub fn number(self) -> usize {
        let (Self::Line(number) | Self::Item(number) | Self::Row(number)) = self;
        number
    }

    /// Returns the beginning of a message about a record of `source`: `source:3`, as compilers
    /// write it, or `source: row 3`.
    #[must_use]
    pub fn within(self, source: &str) -> String {
        match self {
            Self::Line(line) => format!("{source}:{line}"),
            other => format!("{source}: {other}"),
        }
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let unit = match self {
            Self::Line(_) => "line",
            Self::Item(_) => "item",
            Self::Row(_) => "row",
        };
        write!(f, "{unit} {}", self.number())
    }
}
