//! Training a checkpoint further on a file of examples: a generator on solutions, a reward model on
//! labelled chains.
//!
//! * [`Decoder`]: the trainable model over the weights that the engine reads.
//! * [`Example`]: tokens, and what is learnt at which of them.
//! * [`Features`]: what the engine computes of the layers that are not trained, once.
//! * [`fit`]: the loop; [`export`] writes what came out.

#![warn(missing_docs)]

pub mod batches;
mod decoder;
mod example;
pub mod export;
mod features;
mod fit;
mod recipe;
mod run;
pub mod sft;
mod state;

pub use decoder::{Decoder, Input};
pub use example::Example;
pub use features::Features;
pub use fit::{Data, Fit, HeldOut, Report, fit};
pub use recipe::{Decay, Recipe, Trained};
pub use run::{Job, run};
