//! The table of built-in checkers: one more is a file and a row.

use crate::arithmetic::Arithmetic;
use crate::checker::{Checker, PerStep};
use crate::consistency::Consistency;
use crate::exact::Exact;

/// A built-in checker.
#[derive(Clone, Copy, Debug)]
pub struct Row {
    /// Its name in settings.
    pub name: &'static str,
    /// What it looks at, in one line.
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

/// There is no checker of that name.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("there is no checker {name:?}: choose from {known}")]
pub struct UnknownChecker {
    name: String,
    known: String,
}

impl Row {
    /// A checker of this kind, without chains.
    #[must_use]
    pub fn open(&self) -> Box<dyn Checker> {
        (self.open)()
    }
}

/// The row of that name.
///
/// # Errors
/// There is none; the message lists all.
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
