//! The table of built-in checkers. A new checker needs a file and a row in this table.

use crate::arithmetic::Arithmetic;
use crate::checker::{Checker, PerStep};
use crate::consistency::Consistency;
use crate::exact::Exact;

/// A built-in checker.
#[derive(Clone, Copy, Debug)]
pub struct Row {
    /// The lower-case name in settings and on the command line.
    pub name: &'static str,
    /// A description of what the checker proves, in one line for help texts.
    pub about: &'static str,
    open: fn() -> Box<dyn Checker>,
}

/// The checkers that every build has.
pub const CHECKERS: &[Row] = &[
    Row {
        name: "arithmetic",
        about: "exact arithmetic of the equations in a step",
        open: || Box::new(PerStep::<Arithmetic>::default()),
    },
    Row {
        name: "consistency",
        about: "a variable or a left side whose calculation the next step gives another result",
        open: || Box::new(PerStep::<Consistency>::default()),
    },
    Row {
        name: "exact",
        about: "the one right form of each line in the bundled world",
        open: || Box::new(PerStep::<Exact>::default()),
    },
];

/// The error if a name is not in [`CHECKERS`].
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("unknown checker {name:?}: choose from {known}")]
pub struct UnknownChecker {
    name: String,
    known: String,
}

impl Row {
    /// Makes a new checker of this kind, which has no chains yet.
    #[must_use]
    pub fn open(&self) -> Box<dyn Checker> {
        (self.open)()
    }
}

/// Looks up a built-in checker.
///
/// # Errors
/// Returns an error if the name is unknown; the message lists all names.
pub fn named(name: &str) -> Result<&'static Row, UnknownChecker> {
    let found = CHECKERS.iter().find(|row| row.name == name);
    found.ok_or_else(|| UnknownChecker {
        name: name.to_owned(),
        known: CHECKERS
            .iter()
            .map(|row| row.name)
            .collect::<Vec<_>>()
            .join(", "),
    })
}
