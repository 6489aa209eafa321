//! Fine-tuning of a checkpoint on a file of examples: a generator on solutions, a reward model on
//! labelled chains.
//!
//! * [`Decoder`]: the trainable model, made from a checkpoint or with fresh weights.
//! * [`Example`]: a token sequence with targets, from solutions ([`sft`]) or labelled chains ([`labelled`]).
//! * [`RewardHead`]: the head of a reward model, which replaces the language-model head.
//! * [`LogRatio`]: the log-ratio of two models, an implicit reward model without a head.
//! * [`Features`]: the outputs of the frozen layers, which the engine computes once for all epochs.
//! * [`fit`]: the training loop. [`export`] writes the trained checkpoint.

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
mod ratio;
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
pub use ratio::{LogRatio, Reference};
pub use recipe::{Decay, Lora, Recipe, Trained};
pub use run::{Job, Task, run};
