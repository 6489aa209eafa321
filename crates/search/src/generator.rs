//! What the search asks of a generator.

use crate::error::GenError;
use crate::finish::{Border, Finish};
use crate::generation::GeneratorConfig;
use crate::problem::Problem;
use crate::strategy::DecodeMode;

/// Handle of a chain's state (its KV cache) inside a generator.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ChainId(pub u64);

/// A problem accepted by a generator.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OpenedProblem {
    /// The chain that holds the prompt and the given steps.
    pub chain: ChainId,
    /// Length of the rendered prompt in tokens, without the given steps.
    pub prompt_tokens: usize,
    /// The steps of the [problem](Problem::steps), in their order.
    pub given: Vec<GivenStep>,
    /// Follows from the problem and the generator's seed; strategies draw from it.
    pub strategy_seed: u64,
    /// The tag of a thought that the prompt leaves open ([`opened_by`](crate::thoughts::opened_by)):
    /// what the chain says begins after the tag that closes it.
    pub thought: Option<&'static str>,
}

/// A step that a problem gives, as the generator reads it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GivenStep {
    /// The text, with the boundary.
    pub text: String,
    /// The tokens. A token that holds the ends of two steps belongs to the first.
    pub tokens: Vec<u32>,
    /// Whether `tokens` stand for `text` and nothing else.
    pub tokens_match_text: bool,
}

/// How the next step of a chain is to be written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StepPlan {
    /// The random stream it is drawn from.
    pub stream: u64,
    /// Sampled or greedy, to its end or to a pause.
    pub mode: DecodeMode,
    /// Most tokens it may have: reaching it is [`Finish::Budget`].
    pub token_limit: usize,
}

/// Where a step starts from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Source {
    /// This chain goes on.
    Itself(ChainId),
    /// A second chain with the same contents; nothing is computed or copied for it.
    ForkOf(ChainId),
}

/// What a pass brought.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct PassOutput {
    /// Steps that closed or paused.
    pub steps: Vec<StepOutput>,
    /// Chains in the middle of a step that failed, and why. Each ends its problem.
    pub failed: Vec<(ChainId, GenError)>,
    /// Of the chains among these: requests to a server that had to be made again.
    pub retried: Vec<(ChainId, u32)>,
}

impl From<Vec<StepOutput>> for PassOutput {
    fn from(steps: Vec<StepOutput>) -> Self {
        Self {
            steps,
            ..Self::default()
        }
    }
}

/// A step that closed.
#[derive(Debug, Clone, PartialEq)]
pub struct StepOutput {
    /// The chain it belongs to.
    pub chain: ChainId,
    /// All tokens sampled for the step, its boundary or end-of-text token included. None if a token
    /// of the step before held this step too.
    pub tokens: Vec<u32>,
    /// The step's share of the chain's text; special tokens have none. It ends where the step ends,
    /// which may be within a token.
    pub text: String,
    /// What the last tokens stand for behind that end, in bytes: the next step's text begins with
    /// it. Empty if the chain is finished.
    pub leftover: Vec<u8>,
    /// Whether `tokens` stand for `text` and nothing else: nothing was carried into the step or out
    /// of it, nor cut off.
    pub tokens_match_text: bool,
    /// Sum of the tokens' log-probabilities (natural logarithm).
    pub logprob: f32,
    /// The reason that the step ended.
    pub border: Border,
    /// `None` if the chain may go on. Reaching a length limit is never reported as
    /// [`Finish::EndOfText`]. Whether the step states the answer is for the search to find out; a
    /// generator may know it all the same.
    pub finish: Option<Finish>,
    /// The step is not closed: it is held up where its plan said, and its chain is paused. All its
    /// tokens so far are here, and will be here again when it closes.
    pub paused: bool,
}

/// Cache memory of a model.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Memory {
    /// Bytes of cache in use now.
    pub used_bytes: u64,
    /// Bytes of cache one token takes.
    pub bytes_per_token: u64,
    /// Tokens that the whole cache holds.
    pub capacity_tokens: usize,
}

impl Memory {
    /// The memory of two models that hold the same chains. One without a limit has the capacity 0.
    #[must_use]
    pub fn beside(self, other: Self) -> Self {
        let capacities = [self.capacity_tokens, other.capacity_tokens];
        let limits = capacities.into_iter().filter(|&tokens| tokens > 0);
        Self {
            used_bytes: self.used_bytes + other.used_bytes,
            bytes_per_token: self.bytes_per_token + other.bytes_per_token,
            capacity_tokens: limits.min().unwrap_or(0),
        }
    }
}

/// Decodes steps of many chains of many problems together.
///
/// A chain is idle, in the middle of a step, or paused there; it is forked only while idle. Results
/// depend on the problem's key, the streams and the texts alone, never on what else is decoded
/// beside.
pub trait Generator {
    /// Renders and queues the prompt with the steps that the problem gives. It is read once, in a
    /// later [`pass`](Self::pass). The problem's chains are written as `settings` say, and go on
    /// as if the given steps had been sampled: their tokens count for the length of a chain and
    /// for its random numbers.
    ///
    /// # Errors
    /// What is wrong with this problem (a prompt longer than the context, say); other problems
    /// are not affected, unless the model is [lost](GenError::Lost).
    fn open(
        &mut self,
        problem: &Problem,
        key: u64,
        settings: &GeneratorConfig,
    ) -> Result<OpenedProblem, GenError>;

    /// Begins the next step of an idle chain, or of a fork of it, or takes up a paused one again;
    /// returns the chain that the step is written in. It reserves memory for the longest possible
    /// step (and for the prompt, if it is still to be read). `None`, and nothing has changed, if
    /// that is not free beside all that is reserved already.
    ///
    /// A step taken up again keeps its stream; only `mode` and `token_limit` (for the whole step)
    /// are new.
    fn try_start(&mut self, source: Source, plan: StepPlan) -> Option<ChainId>;

    /// Forgets what idle chains hold in the cache, but not what `kept` does, while no step is under
    /// way; whoever goes on from one of them reads it again, and the results are the same. Returns
    /// whether that freed memory. By default nothing can be forgotten.
    fn forget(&mut self, kept: ChainId) -> bool {
        let _ = kept;
        false
    }

    /// Gives the chain's memory back, also in the middle of a step. Returns how many tokens were
    /// sampled for that unfinished step (0 if idle; those of a pause included).
    fn release(&mut self, chain: ChainId) -> usize;

    /// One forward pass over all chains in the middle of a step. Returns the steps that closed,
    /// whose chains are idle again, those that paused, and the chains that failed.
    ///
    /// # Errors
    /// The whole pass failed, and with it every problem that has a step in it; or the model is
    /// [lost](GenError::Lost) and the run cannot go on.
    fn pass(&mut self) -> Result<PassOutput, GenError>;

    /// Number of chains in the middle of a step.
    fn active(&self) -> usize;

    /// Its cache memory now.
    fn memory(&self) -> Memory;

    /// Whether [`open`](Self::open) would take a problem with the settings that the generator was
    /// made with; by default it would.
    ///
    /// # Errors
    /// As [`open`](Self::open).
    fn check(&self, _problem: &Problem) -> Result<(), GenError> {
        Ok(())
    }

    /// Settings as they act: what is left open has the value that the model gives it. By default
    /// nothing is filled in.
    fn resolve(&self, settings: &GeneratorConfig) -> GeneratorConfig {
        settings.clone()
    }
}
