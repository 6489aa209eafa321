//! The changes: a file and a row of [`PROBES`](super::PROBES) each.

pub mod answer_only;
pub mod boundaries;
pub mod filler;
pub mod giant_step;
pub mod near_empty_step;
pub mod pseudo_derivation;
pub mod question_removed;
pub mod question_swapped;
pub mod repeated_step;
pub mod step_prefix;
pub mod thank_you;
pub mod wrong_step;
