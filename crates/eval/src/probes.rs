//! Probes of a reward model: tests whether tricks raise its scores, and whether it works on unfamiliar data.
//!
//! A [`Probe`] changes labelled chains in a way that a good model should notice or ignore, and the model scores the
//! changed chains. [`ProbeReport`] has the differences. A [`Shift`] changes nothing and compares two kinds of chains
//! in the data. [`RULES`] defines the verdicts on the figures.

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
