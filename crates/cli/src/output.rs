//! JSON lines on stdout, and messages on stderr.

use std::collections::BTreeSet;
use std::fmt::Display;
use std::io::{self, Write};
use std::sync::{Mutex, PoisonError};

use beamgen::RunSummary;
use beamgen::eval::Spent;
use beamgen::result::Evidence;
use serde::Serialize;
use serde_json::{Map, Value, json};

use crate::json_log::{self, Level};
use crate::printable;
use crate::printed::{Before, Graded};

/// The maximum length of a message in characters. Names and values from files may be longer.
const LONGEST: usize = 500;

/// Writes a message to stderr as one printable line of bounded length. A closed stderr is no error.
pub(crate) fn note(message: impl Display) {
    let message = message.to_string();
    if json_log::is_on() {
        let facts = json_log::message(&printable::shortened(&message, LONGEST));
        return json_log::write(Level::Info, "note", facts);
    }
    let line = printable::line(&message);
    let _ = writeln!(io::stderr(), "{}", printable::shortened(&line, LONGEST));
}

/// Writes an event to stderr: `facts` if messages are JSON, or else `text` as a note.
pub(crate) fn event(level: Level, name: &str, facts: Value, text: impl Display) {
    if json_log::is_on() {
        json_log::write(level, name, facts);
    } else {
        note(text);
    }
}

/// Writes a message as [`note`] does, unless this process has written it before.
pub(crate) fn note_once(message: impl Display) {
    static WRITTEN: Mutex<BTreeSet<String>> = Mutex::new(BTreeSet::new());
    let line = message.to_string();
    // The set is valid even if another thread panicked while it held the lock.
    let mut written = WRITTEN.lock().unwrap_or_else(PoisonError::into_inner);
    if written.insert(line.clone()) {
        note(line);
    }
}

/// Writes notes about models. A note is written only once per process.
pub(crate) fn notes(notes: impl IntoIterator<Item = String>) {
    for note in notes {
        note_once(format_args!("note: {note}"));
    }
}

pub(crate) fn bytes(bytes: &[u8]) -> io::Result<()> {
    let mut out = io::stdout().lock();
    out.write_all(bytes)?;
    out.flush()
}

pub(crate) fn json_line(out: &mut dyn Write, value: &impl Serialize) -> io::Result<()> {
    serde_json::to_writer(&mut *out, value)?;
    out.write_all(b"\n")
}

/// Returns the last line of `solve --json`. `correct` and `accuracy` are null without reference
/// answers. `ledger` has the costs of this call, `before` those of earlier calls.
pub(crate) fn summary(
    graded: &Graded,
    run: &RunSummary,
    before: &Before,
    is_interrupted: bool,
) -> Value {
    let kinds = Evidence::ALL.into_iter().zip(graded.unsound);
    let unsound: Map<String, Value> = kinds
        .map(|(by, count)| (by.name().to_owned(), count.into()))
        .collect();
    let mut totals = json!({
        "problems": graded.problems,
        "correct": (graded.graded > 0).then_some(graded.correct),
        "accuracy": graded.interval().map(|interval| interval.mean),
        "unsound": unsound,
        "withheld": graded.withheld,
        "cannot_tell": graded.cannot_tell,
        "too_long": graded.too_long,
        "memory_limited": graded.memory_limited,
        "checker_limited": graded.checker_limited,
    });
    let [both, pairs] = graded.twins();
    if pairs > 0 {
        totals["twins"] = json!({"pairs": pairs, "right_on_both": both});
    }
    if graded.verified_early > 0 {
        totals["verified_early"] = graded.verified_early.into();
        totals["spared_chains"] = graded.spared_chains.into();
    }
    if is_interrupted {
        totals["interrupted"] = true.into();
    }
    totals["ledger"] = json!(Spent::of_run(&run.ledger, run.elapsed));
    if before.problems > 0 {
        totals["before"] = json!(before);
    }
    json!({"summary": totals})
}
