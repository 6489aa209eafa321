//! The question is another one: the steps answer what was not asked.

use crate::probes::{Probe, Takes, Wanted};

pub static PROBE: Probe = Probe {
    key: "question-swapped",
    name: "question of another problem",
    about: "The problem is replaced by the next other problem of the data.",
    takes: Takes::Right,
    wanted: Wanted::Falls,
    change: |subject| Some(subject.with_problem(subject.other_problem?)),
};
