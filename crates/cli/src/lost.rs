//! Notes on what a run lost and continued without.

use beamgen::Solver;
use beamgen::checkers::Lost;

use crate::output;
use crate::printable;
use crate::table::counted;

/// Prints what a solver's checkers lost and what became of its device.
pub(crate) fn tell_of(solver: &Solver) {
    tell(solver.lost_verdicts());
    output::notes(solver.notes());
}

/// A line for each checker that lost something, and one for each that was given up.
pub(crate) fn tell<'a>(checkers: impl IntoIterator<Item = (&'a str, Lost)>) {
    for (name, lost) in checkers {
        let name = printable::line(name);
        if lost.verdicts > 0 || lost.noise > 0 {
            output::note(format_args!(
                "beamgen: the checker {name:?}: {} lost ({}, {}); lines that were no answers: {}",
                counted(lost.verdicts, "verdict", "verdicts"),
                counted(lost.crashes, "end of its process", "ends of its process"),
                counted(lost.timeouts, "timeout", "timeouts"),
                lost.noise
            ));
        }
        if let Some(reason) = lost.given_up {
            let reason = printable::line(&reason);
            output::note(format_args!(
                "beamgen: the checker {name:?} was given up: {reason}"
            ));
        }
    }
}
