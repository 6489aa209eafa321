//! Process reward models: a probability for each step of a chain.
//!
//! A reward model is a decoder and a way to read it: how the chain is written down, at which
//! positions it is read, which head turns a hidden state into a number and which normaliser turns
//! the number into a probability. [`PrmSpec`] holds that as data (`prm.json` beside the weights).
//! An outcome reward model is read in the same way, its last score alone counting.
//!
//! [`RewardModel`] keeps the cache of every chain it has scored and reads **only new tokens**:
//! a step is read once, whatever the length of its chain. When memory runs out it forgets the
//! caches used longest ago and reads those chains again if they come back; scores do not change.
#![forbid(unsafe_code)]
#![warn(missing_debug_implementations)]

mod chains;
mod error;
mod head;
mod model;
mod prompt;
mod score;
mod spec;
mod steps;

pub use error::Error;
pub use head::Head;
pub use model::{RewardModel, same_tokenizer};
pub use prompt::Renderer;
pub use spec::{Format, HeadKind, PrmSpec};
