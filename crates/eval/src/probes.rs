//! Whether a reward model can be gamed, or is out of its depth.
//!
//! A [`Probe`] changes a labelled chain in a way whose worth is known, and the model scores it again;
//! [`ProbeReport`] says what that did, paired chain by chain. A [`Shift`] compares chains of two
//! kinds that the data name, and changes nothing. What the figures mean in plain words is decided by
//! [`RULES`].

mod changes;
mod effect;
mod probe;
mod report;
mod shift;
mod trial;
mod verdict;

pub use changes::{FIRST_PROBES, PROBES};
pub use effect::{Effect, Effects};
pub use probe::{Changed, Probe, Subject, Takes, Touched, Wanted};
pub use report::ProbeReport;
pub use shift::{SHIFTS, Shift, ShiftReport, Side};
pub use trial::Trial;
pub use verdict::{Grade, RULES, Verdict};

#[cfg(test)]
mod tests;
