//! The table of built-in checkers. Another checker needs a file and a row here.

use crate::arithmetic::Arithmetic;
use crate::checker::{Checker, PerStep};
use crate::consistency::Consistency;
use crate::exact::Exact;

/// A built-in checker.
#[derive(Clone, Copy, Debug)]
pub struct Row {
    /// The name in settings and on the command line.
    pub name: &'static str,
    /// The kind of mistakes that the checker finds, in one line for help texts.
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

/// The error for a name that no built-in checker has.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("unknown checker {name:?}: choose from {known}")]
pub struct UnknownChecker {
    name: String,
    known: String,
}

impl Row {
    /// Creates a checker of this kind, without chains.
    #[must_use]
    pub fn open(&self) -> Box<dyn Checker> {
        (self.open)()
    }
}

/// Returns the row of the built-in checker with this name.
///
/// # Errors
/// [`UnknownChecker`], whose message lists all names.
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
