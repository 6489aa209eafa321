//! Labelled chains: problems with their steps and the facts that are recorded on each step. Reward
//! models are trained on them and measured against them.
//!
//! A file has one [`LabelledChain`] a line, as JSON. It keeps the raw facts by source: ratings of
//! people, counts of rollouts, verdicts of checkers, scores of judges. Labels are not stored: a
//! [`LabelRule`] derives them from the facts when they are used. [`open`] reads this and all other
//! [`FORMATS`].

#![forbid(unsafe_code)]

mod agreement;
pub mod annotate;
mod chain;
mod check;
mod error;
mod event;
mod export;
mod facts;
mod field;
mod format;
pub mod monte_carlo;
mod normal;
mod open;
mod place;
mod read;
mod reason;
mod rule;
pub mod solutions;
mod source;
mod split;
mod stat;
mod targets;

pub use agreement::{Agreement, Kappa, agreement};
pub use chain::{Checked, LabelledChain, LabelledStep, Policy, Rated, Rollouts};
pub use error::LabelsError;
pub use event::Event;
pub use format::{FORMATS, Format};
pub use normal::{normalised, problems_of};
pub use open::{Labelled, Rejected, open, open_any, open_unlabelled, parse};
pub use place::Place;
pub use reason::Reason;
pub use rule::{Agree, LabelRule, Neutral, RolloutLabel};
pub use source::{Bound, Quantity, Source};
pub use split::{Parts, split};
pub use stat::Stat;
