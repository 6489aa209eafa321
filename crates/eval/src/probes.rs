//! Whether a reward model can be gamed, or is out of its depth.
//!
//! A [`Probe`] changes a labelled chain in a way whose worth is known, and the model scores it again;
//! [`ProbeReport`] says what that did, paired chain by chain. A [`Shift`] compares chains of two
//! kinds that the data name, and changes nothing. What the figures mean in plain words is decided by
//! [`RULES`].

mod change;
mod effect;
mod probe;
mod report;
mod shift;
mod trial;
mod verdict;

pub use effect::{Effect, Effects};
pub use probe::{Changed, Probe, Subject, Takes, Touched, Wanted};
pub use report::ProbeReport;
pub use shift::{Shift, ShiftReport, Side};
pub use trial::Trial;
pub use verdict::{Grade, RULES, Verdict};

/// All probes, in the order of reports.
pub static PROBES: [&Probe; 12] = [
    &change::question_removed::PROBE,
    &change::question_swapped::PROBE,
    &change::wrong_step::PROBE,
    &change::pseudo_derivation::PROBE,
    &change::answer_only::PROBE,
    &change::repeated_step::PROBE,
    &change::filler::PROBE,
    &change::giant_step::PROBE,
    &change::near_empty_step::PROBE,
    &change::thank_you::PROBE,
    &change::step_prefix::PROBE,
    &change::boundaries::PROBE,
];

/// All shifts, in the order of reports.
pub static SHIFTS: [&Shift; 2] = [&shift::generator::SHIFT, &shift::level::SHIFT];

#[cfg(test)]
mod tests;
