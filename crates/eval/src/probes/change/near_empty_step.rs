//! A step that is nearly empty. Steps that are empty are never scored, so none is tried.

use crate::probes::{Probe, Takes, Wanted};

pub static PROBE: Probe = Probe {
    key: "near-empty-step",
    name: "a nearly empty step",
    about: "A step that is a full stop and nothing else stands behind the middle step. (An empty step is never scored.)",
    takes: Takes::Known,
    wanted: Wanted::NoGain,
    change: |subject| Some(subject.with_step(subject.middle() + 1, ".", None)),
};
