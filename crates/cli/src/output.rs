//! What programs read on stdout: one JSON object a line.

use std::io::{self, Write};

use beamgen::eval::Spent;
use serde::Serialize;

use crate::show::Graded;

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
    ledger: Spent,
}

impl Summary {
    pub fn new(graded: &Graded, ledger: Spent) -> Self {
        let summary = Totals {
            problems: graded.problems,
            correct: (graded.graded > 0).then_some(graded.correct),
            accuracy: graded.interval.map(|interval| interval.mean),
            ledger,
        };
        Self { summary }
    }
}
