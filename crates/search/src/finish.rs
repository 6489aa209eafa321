use serde::{Deserialize, Serialize};
use strum::{Display, IntoStaticStr};

/// The reason why a chain ended.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, Display, IntoStaticStr,
)]
#[serde(rename_all = "kebab-case")]
#[strum(serialize_all = "kebab-case")]
pub enum Finish {
    /// The generator sampled an end-of-text token.
    EndOfText,
    /// A closed step states the final answer.
    Answer,
    /// The chain came to one of the texts at which it has to stop
    /// ([`GeneratorConfig::stop`](crate::GeneratorConfig::stop)).
    Stop,
    /// A step reached the limit of tokens per step before its boundary.
    StepCap,
    /// The chain reached the limit of tokens per chain, or the context of a model.
    ChainCap,
    /// The chain reached the limit of steps without stating an answer.
    MaxSteps,
    /// The token budget of the problem was spent.
    Budget,
    /// Memory was too short to continue the chain.
    NoMemory,
}

impl Finish {
    /// Whether the chain came to its own end. A chain that ran into a limit is not complete: it
    /// takes no slot among the survivors and has no answer.
    pub fn is_complete(self) -> bool {
        matches!(self, Self::EndOfText | Self::Answer | Self::Stop)
    }

    /// Returns the name in configurations and output, such as `"end-of-text"`.
    pub fn name(self) -> &'static str {
        self.into()
    }
}

/// The reason why a step ended, which tells whether its text is complete.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Border {
    /// The step is complete: a boundary, the beginning of the next step, or the end of the text.
    Boundary,
    /// The fixed length of steps, which may end inside a sentence, a word or a number.
    Length,
    /// A limit or a pause: the step is incomplete.
    Limit,
}
