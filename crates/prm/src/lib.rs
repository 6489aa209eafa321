//! Process reward models: a probability for each step of a chain.
//!
//! A reward model is a decoder together with a format. The format says how a chain is written and
//! at which positions it is read. Its head turns a hidden state into numbers, and its normaliser
//! turns the numbers into a probability. [`PrmSpec`] describes a format as data: a bundled TOML
//! file for each family, or a file of the user. An outcome reward model is read in the same way;
//! only its last score counts.
//!
//! [`RewardModel`] keeps the cache of every chain it has scored and reads **only new tokens**:
//! a step is read once, whatever the length of its chain. When memory runs out it forgets the
//! caches used longest ago and reads those chains again if they come back; scores do not change.
#![deny(missing_docs)]
#![forbid(unsafe_code)]
#![warn(missing_debug_implementations)]

mod chains;
mod engines;
mod error;
mod families;
mod head;
mod label;
mod load;
mod model;
mod quantiles;
mod reading;
mod recognise;
mod score;
mod segments;
mod spec;
mod writer;
mod written;

pub use error::Error;
pub use head::Head;
pub use load::{Body, UnloadedModel};
pub use model::{RewardModel, same_tokenizer};
pub use quantiles::{QuantileReader, StepReading};
pub use recognise::Recognise;
pub use segments::ChainWriter;
pub use spec::{
    Classes, HeadSpec, LayerSpec, LogRatio, Normaliser, PrmSpec, PromptSpec, StepSpec, Tokenise,
};
pub use writer::JudgeMessage;
pub use written::Written;
