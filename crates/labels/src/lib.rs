//! Labelled chains: problems with their steps and what is known of each step. Reward models are
//! trained on them and measured against them.
//!
//! A file has one [`LabelledChain`] a line, as JSON. It keeps the raw facts (a human rating, how many
//! rollouts came to the right answer), never a derived label alone; a [`LabelRule`] derives labels
//! from them when they are used.

#![forbid(unsafe_code)]

mod chain;
mod rule;

pub use chain::{LabelledChain, LabelledStep, Policy, Rollouts};
pub use rule::{LabelRule, Neutral, RolloutLabel};
