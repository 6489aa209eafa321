//! Measures strategies and reward models, and writes reports of them.
//!
//! [`bench`](mod@bench) solves problems under several settings and stores a raw row for each. [`eval_prm`] compares
//! the step scores of a reward model with labels. [`calibrate`] fits a map from scores to probabilities. [`pool`]
//! chooses among existing solutions. [`label`] labels steps by rollouts, [`check`] counts the verdicts of checkers.
//! Reports are functions of the raw rows, so they can be drawn again at any time.
//!
//! Nothing here prints or reads the command line: a caller follows a measurement through [`Watch`].

#![forbid(unsafe_code)]
#![deny(missing_docs)]

pub mod bench;
pub mod calibrate;
pub mod check;
mod error;
pub mod eval_prm;
mod intervals;
pub mod label;
pub mod monitor;
pub mod pool;
pub mod printable;
mod report;
mod rerank;
pub mod scores;
mod watch;

pub use beamgen::eval::number::{counted, grouped, operations};
pub use error::Error;
pub use report::about::{About, Machine, date_of};
pub use report::numbers::{megabytes, percent};
pub use report::slug;
pub use rerank::{AGGREGATIONS, Aggregated, Share};
pub use watch::Watch;
