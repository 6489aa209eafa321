//! Reports checkers and devices that failed during a run which continued without them.

use beamgen::Solver;
use beamgen::checkers::Lost;

use crate::output;
use crate::printable;
use crate::table::counted;

/// Prints the verdicts that a solver's checkers lost, and notes about its device.
pub(crate) fn tell_of(solver: &Solver) {
    tell(solver.lost_verdicts());
    output::notes(solver.notes());
}

/// Prints a line for each checker or verifier with missing verdicts, and a line for each that was stopped.
pub(crate) fn tell<'a>(checkers: impl IntoIterator<Item = (&'a str, Lost)>) {
    for (name, lost) in checkers {
        let name = printable::line(name);
        if lost.verdicts > 0 || lost.noise > 0 {
            output::note(format_args!(
                "beamgen: {name:?}: {} missing ({}, {}); invalid lines: {}",
                counted(lost.verdicts, "verdict", "verdicts"),
                counted(lost.crashes, "exit of its process", "exits of its process"),
                counted(lost.timeouts, "timeout", "timeouts"),
                lost.noise
            ));
        }
        if let Some(reason) = lost.given_up {
            let reason = printable::line(&reason);
            output::note(format_args!(
                "beamgen: {name:?} failed and is not used any more: {reason}"
            ));
        }
    }
}
