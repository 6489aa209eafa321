//! JSON lines on stdout, and messages on stderr.

use std::collections::BTreeSet;
use std::fmt::Display;
use std::io::{self, Write};
use std::sync::{Mutex, PoisonError};

use beamgen::RunSummary;
use beamgen::eval::Spent;
use serde::Serialize;

use crate::printable;
use crate::printed::{Before, Graded};

/// Most characters of a message; names and values in it may have any length.
const LONGEST: usize = 500;

/// Writes a message to stderr as one printable line of bounded length. A closed stderr is no error.
pub fn note(message: impl Display) {
    let message = message.to_string();
    let line = printable::line(&message);
    let _ = writeln!(io::stderr(), "{}", printable::shortened(&line, LONGEST));
}

/// As [`note`], but each message once per process.
pub fn note_once(message: impl Display) {
    static SAID: Mutex<BTreeSet<String>> = Mutex::new(BTreeSet::new());
    let line = message.to_string();
    // The set is valid even if another thread panicked while it held the lock.
    let mut said = SAID.lock().unwrap_or_else(PoisonError::into_inner);
    if said.insert(line.clone()) {
        note(line);
    }
}

/// Writes bytes to stdout.
pub fn bytes(bytes: &[u8]) -> io::Result<()> {
    let mut out = io::stdout().lock();
    out.write_all(bytes)?;
    out.flush()
}

/// Writes one object and its newline.
pub fn json_line(out: &mut dyn Write, value: &impl Serialize) -> io::Result<()> {
    serde_json::to_writer(&mut *out, value)?;
    out.write_all(b"\n")
}

/// The last line of `solve --json`.
#[derive(Serialize)]
pub struct Summary {
    summary: Totals,
}

#[derive(Serialize)]
struct Totals {
    problems: usize,
    /// `null` if no problem has a reference answer.
    correct: Option<usize>,
    accuracy: Option<f64>,
    /// Answers withheld because their chain scored below the threshold.
    withheld: usize,
    /// Answers that could not be compared with the reference; they count as wrong.
    cannot_tell: usize,
    /// Problems that do not fit into a model's context; not among the correct ones.
    too_long: usize,
    /// Problems that lost chains because memory was short.
    memory_limited: usize,
    /// Problems that lost verdicts because a checker's program failed.
    checker_limited: usize,
    /// Whether the run was ended before all problems were done.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    interrupted: bool,
    /// The costs of this call.
    ledger: Spent,
    /// The problems of a resumed run file, by their records.
    #[serde(skip_serializing_if = "Option::is_none")]
    before: Option<Before>,
}

impl Summary {
    pub fn new(graded: &Graded, run: &RunSummary, before: Before, interrupted: bool) -> Self {
        let summary = Totals {
            problems: graded.problems,
            correct: (graded.graded > 0).then_some(graded.correct),
            accuracy: graded.interval().map(|interval| interval.mean),
            withheld: graded.withheld,
            cannot_tell: graded.cannot_tell,
            too_long: graded.too_long,
            memory_limited: graded.memory_limited,
            checker_limited: graded.checker_limited,
            interrupted,
            ledger: Spent::new(&run.ledger, run.elapsed),
            before: Some(before).filter(|before| before.problems > 0),
        };
        Self { summary }
    }
}
