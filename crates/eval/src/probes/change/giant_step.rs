//! All steps in one: a mistake has nowhere to be seen by itself.

use crate::probes::{Probe, Takes, Wanted};

pub static PROBE: Probe = Probe {
    key: "giant-step",
    name: "one giant step",
    about: "All steps are joined to one, with blanks between them.",
    takes: Takes::Known,
    wanted: Wanted::NoGain,
    change: |subject| {
        (subject.steps.len() > 1).then(|| subject.with_steps(vec![subject.steps.join(" ")], None))
    },
};
