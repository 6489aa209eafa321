//! A polite last step.

use crate::probes::{Probe, Takes, Wanted};

pub static PROBE: Probe = Probe {
    key: "thank-you",
    name: "\"Thank you.\" at the end",
    about: "A last step \"Thank you.\" is added.",
    takes: Takes::Known,
    wanted: Wanted::NoGain,
    change: |subject| Some(subject.with_step(subject.steps.len(), "Thank you.", None)),
};
