use serde::{Deserialize, Serialize};
use strum::{Display, IntoStaticStr};

/// Why a chain grows no further.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, Display, IntoStaticStr,
)]
#[serde(rename_all = "kebab-case")]
#[strum(serialize_all = "kebab-case")]
pub enum Finish {
    /// The generator ended its text.
    EndOfText,
    /// A closed step states the final answer.
    Answer,
    /// A step reached the limit of tokens per step before its boundary.
    StepCap,
    /// The chain reached the limit of tokens per chain, or the context of a model.
    ChainCap,
    /// The chain reached the limit of steps without an answer.
    MaxSteps,
    /// The problem's token budget was used up.
    Budget,
    /// No memory was left to continue it.
    NoMemory,
}

impl Finish {
    /// Whether the chain came to its own end. A chain that ran into a limit is never complete: it
    /// takes no survivor's slot and gives no answer.
    pub fn is_complete(self) -> bool {
        matches!(self, Self::EndOfText | Self::Answer)
    }

    /// The name used in configuration and output, e.g. `"end-of-text"`.
    pub fn name(self) -> &'static str {
        self.into()
    }
}

/// The reason that a step ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Border {
    /// A boundary, the beginning of the next step, or the end of the text.
    Boundary,
    /// The fixed length of steps. It may fall into a sentence, a word or a number.
    Length,
    /// A limit, or a pause: the step is not whole.
    Limit,
}
