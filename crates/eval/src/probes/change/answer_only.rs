//! The answer without its derivation.

use crate::probes::{Probe, Takes, Touched, Wanted};

pub static PROBE: Probe = Probe {
    key: "answer-only",
    name: "answer only",
    about: "All steps but the last are left out.",
    takes: Takes::Known,
    wanted: Wanted::NoGain,
    change: |subject| {
        let (last, before) = subject.steps.split_last()?;
        let touched = Touched {
            before: Some(before.len()),
            after: 0,
        };
        (!before.is_empty()).then(|| subject.with_steps(vec![last.clone()], Some(touched)))
    },
};
