//! Fine-tuning of a checkpoint on a file of examples: a generator on solutions, a reward model on
//! labelled chains.
//!
//! * [`Decoder`]: the trainable model, over the weights that the engine reads.
//! * [`Example`]: tokens with targets, from solutions ([`sft`]) or from labelled chains
//!   ([`labelled`]).
//! * [`RewardHead`]: the head that a reward model has in place of the language-model head.
//! * [`Features`]: the outputs of the frozen layers, computed once by the engine.
//! * [`fit`]: the training loop; [`export`] writes the result.

#![warn(missing_docs)]

pub mod batches;
pub(crate) mod decoder;
pub mod export;
pub(crate) mod features;
mod fit;
pub(crate) mod gradients;
mod head;
mod judged;
pub mod labelled;
mod recipe;
mod run;
pub mod sft;
pub(crate) mod state;
pub(crate) mod work;

pub use batches::{Example, Label, Read, Rows};
pub use decoder::{Decoder, Input};
pub use features::Features;
pub use fit::{Data, Fit, HeldOut, Pass, Plan, Report, Save, Updates, fit, train};
pub use head::{RewardHead, cross_entropy};
pub use judged::Judged;
pub use recipe::{Decay, Lora, Recipe, Trained};
pub use run::{Job, Task, run};
