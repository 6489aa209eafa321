//! Reinforcement learning of a generator from verifiable answers (RLVR), from the step scores of a
//! reward model, or from both.
//!
//! * [`Algorithm`]: the table of algorithms, which differ only in the values of its fields.
//! * [`advantage`], [`credit`], [`objective`], [`mod@average`]: the estimators, pure functions of rewards, lengths
//!   and log-probabilities.
//! * `rollout` samples chains with the search, `policy` copies the trainer's weights to the engine, `learner` takes
//!   optimiser steps.
//! * [`run`]: the training loop with measurements, saved states and early stopping.

#![warn(missing_docs)]

pub mod advantage;
mod algorithm;
pub mod average;
mod batch;
pub mod credit;
mod held_out;
mod learner;
mod lesson;
mod log;
pub mod objective;
mod policy;
mod recipe;
mod reference;
mod report;
mod reward;
mod rollout;
mod run;
mod state;
mod tally;
mod watch;

pub use algorithm::{Algorithm, Baseline, Scale};
pub use average::Average;
pub use credit::Credit;
pub use held_out::hold_out;
pub use recipe::{Recipe, Reward};
pub use report::{Event, HeldOut, Update};
pub use rollout::RewardSources;
pub use run::{Ended, Job, run, write_policy};
