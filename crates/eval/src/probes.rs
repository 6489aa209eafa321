//! Probes of a reward model: can the model be gamed, and does it hold on unfamiliar data?
//!
//! A [`Probe`] changes a labelled chain in a way whose worth is known, and the model scores the
//! chain again; [`ProbeReport`] has the paired differences. A [`Shift`] changes nothing and
//! compares two kinds of chains that the data name. [`RULES`] turns the figures into plain words.

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
