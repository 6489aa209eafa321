//! The question is removed: the steps stand on nothing.

use crate::probes::{Probe, Takes, Wanted};

/// What stands for the question. Some ways of writing a chain refuse an empty one.
const NOTHING: &str = "Solve the problem.";

pub static PROBE: Probe = Probe {
    key: "question-removed",
    name: "question removed",
    about: "The problem is replaced by \"Solve the problem.\", which gives nothing.",
    takes: Takes::Right,
    wanted: Wanted::Falls,
    change: |subject| Some(subject.with_problem(NOTHING)),
};
