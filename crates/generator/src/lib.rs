//! Steps of reasoning from a language model.
//!
//! [`LmGenerator`] decodes the next step of many chains of many problems in one forward pass at a
//! time. Three decisions shape it:
//!
//! * **Nothing is read twice.** The prompt of a problem is read once and forked. The token that
//!   closes a step has been sampled but not read. It waits until the chain continues, and is then
//!   read once for all children of the step, which sample their first tokens from the same row.
//! * **Memory is reserved before it is needed.** A step starts only if its longest form fits next
//!   to everything already reserved, so a forward pass never runs out.
//! * **Boundaries are looked for in bytes.** A boundary may span tokens. A token may hold half a
//!   character, or the end of a step and the beginning of the next. Bytes after the end are *left
//!   over* for the chains that continue from there. So the steps of a text do not depend on its
//!   tokens; bytes become text only when the step is closed.
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

pub use beamgen_search::{GeneratorConfig, SamplingSettings};
pub use book::{Chain, ChainBook, State};
pub use cut::Cuts;
pub use error::Error;
pub use lm::LmGenerator;
pub use plan::{Plans, WritingPlan, sampling_params, sampling_settings};
pub use prompts::{Prompt, Prompts, check_text};
pub use step::{Closing, Step, Verdict};
pub use stops::{Shown, Stops};
pub use structured::check_grammar;
