//! Labelled chains: problems with steps, and the facts recorded on each step. Reward models are
//! trained on these chains and evaluated with them.
//!
//! A file has one [`LabelledChain`] per line, as JSON. It stores raw facts by source: people's
//! ratings, counts of rollouts, verdicts of checkers, scores of judges. Labels are not stored; a
//! [`LabelRule`] derives them from the facts. [`open`] reads the own format and all other
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
mod reason;
mod rule;
pub mod solutions;
mod source;
mod split;
mod stat;
mod targets;

pub use agreement::{Agreement, Kappa, agreement};
pub use beamgen_records::{DataSource, Place, RecordsError};
pub use chain::{Checked, LabelledChain, LabelledStep, Policy, Rated, Rollouts};
pub use error::LabelsError;
pub use event::Event;
pub use format::{FORMATS, Format};
pub use normal::{normalised, problems_of};
pub use open::{Labelled, Rejected, open, open_any, open_unlabelled, parse};
pub use reason::Reason;
pub use rule::{Agree, LabelRule, Neutral, RolloutLabel};
pub use source::{Bound, Quantity, Source};
pub use split::{Parts, split};
pub use stat::Stat;
