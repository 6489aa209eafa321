//! Steps of reasoning from a language model.
//!
//! [`LmGenerator`] decodes the next step of many chains of many problems in one forward pass at a
//! time. Three decisions shape it:
//!
//! * **Nothing is read twice.** The prompt of a problem is read once and forked. The token that
//!   closes a step has been sampled but not read. It is read when a chain continues, once for all
//!   children of the step: they sample their first tokens from the same row of logits.
//! * **Memory is reserved before it is needed.** A step starts only if there is memory for its
//!   longest form, or for its next piece of 256 tokens, next to everything already reserved. A longer
//!   step gets one piece after the other, older chains first. So a forward pass never runs out of
//!   memory.
//! * **Marks between steps are searched for in bytes.** A mark may span tokens. A token may hold
//!   half a character, or the end of a step and the beginning of the next. Bytes after the end of a
//!   step are *left over* for the chains that continue from there. So the steps of a text do not
//!   depend on its tokens. Bytes become text only when a step is closed.
#![forbid(unsafe_code)]
#![warn(missing_debug_implementations)]

mod book;
mod branch_point;
mod cut;
mod error;
mod lm;
mod plan;
mod prompts;
mod step;
mod stops;
#[cfg(feature = "structured")]
mod structured;
#[cfg(not(feature = "structured"))]
#[path = "not_structured.rs"]
mod structured;
mod thinking;

pub use beamgen_search::{GeneratorConfig, SamplingSettings};
pub use book::{Added, Chain, ChainBook, State};
pub use cut::Cuts;
pub use error::Error;
pub use lm::LmGenerator;
pub use plan::{Plans, WritingPlan, sampling_params, sampling_settings};
pub use prompts::{Prompt, Prompts, check_text};
pub use step::{Closing, Step, Verdict};
pub use stops::{Shown, Stops};
pub use structured::check_grammar;
pub use thinking::{Phase, Progress, ThinkingPlan};
