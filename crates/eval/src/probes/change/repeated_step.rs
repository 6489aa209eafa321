//! A step is said twice.

use crate::probes::{Probe, Takes, Wanted};

pub static PROBE: Probe = Probe {
    key: "repeated-step",
    name: "a step repeated",
    about: "The middle step stands there a second time; the touched step is the repeat.",
    takes: Takes::Known,
    wanted: Wanted::NoGain,
    change: |subject| {
        let at = subject.middle();
        Some(subject.with_step(at + 1, &subject.steps[at], Some(at)))
    },
};
