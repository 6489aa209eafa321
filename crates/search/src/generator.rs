//! What the search asks of a generator.

use crate::error::GenError;
use crate::finish::Finish;
use crate::problem::Problem;

/// Handle of a chain's state (its KV cache) inside a generator.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ChainId(pub u64);

/// A problem accepted by a generator.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Opened {
    /// The chain that holds the prompt and no steps.
    pub chain: ChainId,
    /// Length of the rendered prompt in tokens.
    pub prompt_tokens: usize,
}

/// A step that closed.
#[derive(Debug, Clone, PartialEq)]
pub struct Stepped {
    /// The chain it belongs to.
    pub chain: ChainId,
    /// All tokens sampled for the step, its boundary or end-of-text token included.
    pub tokens: Vec<u32>,
    /// Their text; special tokens have none.
    pub text: String,
    /// Sum of the tokens' log-probabilities (natural logarithm).
    pub logprob: f32,
    /// `None` if the step ended at a boundary and the chain may go on. Reaching a length limit is
    /// never reported as [`Finish::EndOfText`].
    pub finish: Option<Finish>,
}

/// Cache memory of a model.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Memory {
    /// Bytes of cache in use now.
    pub used_bytes: u64,
    /// Bytes of cache one token takes.
    pub bytes_per_token: u64,
}

/// Decodes steps of many chains of many problems together.
///
/// A chain is idle or in the middle of a step; it is forked only while idle. Results depend on
/// the problem's key, the streams and the texts alone, never on what else is decoded beside.
pub trait Generator {
    /// Renders and queues the prompt. It is read once, in a later [`pass`](Self::pass).
    ///
    /// # Errors
    /// What is wrong with this problem (a prompt longer than the context, say); other problems
    /// are not affected.
    fn open(&mut self, problem: &Problem, key: u64) -> Result<Opened, GenError>;

    /// A second chain with the same contents; nothing is computed or copied.
    fn fork(&mut self, chain: ChainId) -> ChainId;

    /// Gives the chain's memory back, also in the middle of a step. Returns how many tokens were
    /// sampled for that unfinished step (0 if idle).
    fn release(&mut self, chain: ChainId) -> usize;

    /// Whether memory for the longest possible next step of `chain` (and for its prompt, if it is
    /// still to be read) is free beside all that is already promised.
    fn can_start(&self, chain: ChainId) -> bool;

    /// Begins the next step of an idle chain, drawn from random stream `stream`, and promises
    /// it the memory that [`can_start`](Self::can_start) found.
    fn start_step(&mut self, chain: ChainId, stream: u64);

    /// One forward pass over all chains in the middle of a step. Returns the steps that closed;
    /// their chains are idle again.
    ///
    /// # Errors
    /// A failure of the model itself: the run cannot go on.
    fn pass(&mut self) -> Result<Vec<Stepped>, GenError>;

    /// Number of chains in the middle of a step.
    fn active(&self) -> usize;

    /// Its cache memory now.
    fn memory(&self) -> Memory;
}
