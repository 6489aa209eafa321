//! Steps that end elsewhere.

use crate::probes::{Probe, Takes, Wanted};

pub static PROBE: Probe = Probe {
    key: "boundaries",
    name: "two steps in one",
    about: "Every two steps are joined to one, with a blank between them.",
    takes: Takes::Known,
    wanted: Wanted::Same,
    change: |subject| {
        let joined = subject.steps.chunks(2).map(|pair| pair.join(" "));
        (subject.steps.len() > 1).then(|| subject.with_steps(joined.collect(), None))
    },
};
