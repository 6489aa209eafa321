//! The interface between the search and a generator.

use crate::error::GenError;
use crate::finish::{Border, Finish};
use crate::generation::GeneratorConfig;
use crate::ledger::Executed;
use crate::problem::Problem;
use crate::strategy::DecodeMode;
use crate::thinking::Thought;
use crate::token_logprobs::TokenLogprobs;

/// Handle of a chain's state (its KV cache) inside a generator.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ChainId(pub u64);

/// A problem that a generator has accepted, with the chain from which its steps continue.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OpenedProblem {
    /// The chain that holds the prompt and the given steps.
    pub chain: ChainId,
    /// The number of tokens of the rendered prompt and of `begun`; given steps are not counted.
    pub prompt_tokens: usize,
    /// The given steps of the [problem](Problem::steps), in their order, and after them the whole
    /// steps of its [prefix](Problem::prefix).
    pub given: Vec<GivenStep>,
    /// The rest of the prefix after its whole steps. The text of the first sampled step begins with
    /// it.
    pub begun: String,
    /// The seed of a strategy's own random numbers. It follows from the problem and the generator's
    /// seed.
    pub strategy_seed: u64,
    /// The tag of a thought that the prompt leaves open. Text before the closing tag states no
    /// answer.
    pub thought: Option<String>,
}

impl OpenedProblem {
    /// Checks that the chain begins with the problem's steps and prefix.
    ///
    /// # Errors
    /// The name of what is missing.
    pub(crate) fn check_given(&self, problem: &Problem) -> Result<(), &'static str> {
        let Some(of_prefix) = self.given.get(problem.steps.len()..) else {
            return Err("given steps");
        };
        let texts = of_prefix.iter().map(|step| step.text.as_str());
        let begun: String = texts.chain([self.begun.as_str()]).collect();
        (begun == problem.prefix).then_some(()).ok_or("a prefix")
    }
}

/// A step that a problem gives, in the generator's tokens.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GivenStep {
    /// The text of the step, boundary included.
    pub text: String,
    /// The tokens of the step. A token that holds the ends of two steps belongs to the first of
    /// them.
    pub tokens: Vec<u32>,
    /// Whether `tokens` decode to exactly `text`.
    pub tokens_match_text: bool,
    /// The thought at the beginning of the step; `None` if it has no part of one.
    pub thought: Option<Thought>,
}

/// The way in which the next step of a chain is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StepPlan {
    /// The random stream that the step is sampled from.
    pub stream: u64,
    /// The decoding: sampled or greedy, to the end of the step or to a pause.
    pub mode: DecodeMode,
    /// The most sampled tokens of the step. Reaching the limit ends the chain with
    /// [`Finish::Budget`], but a thought only ends early.
    pub token_limit: usize,
}

/// The chain that a step starts from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Source {
    /// The chain itself, to which the step is appended.
    Itself(ChainId),
    /// A new chain with the same contents. Nothing is computed or copied for the fork.
    ForkOf(ChainId),
}

/// The steps that a forward pass has ended, and the chains that failed in it.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct PassOutput {
    /// The steps that closed or paused.
    pub steps: Vec<StepOutput>,
    /// The chains that failed in the middle of a step, with the reason. Each of them fails its
    /// problem.
    pub failed: Vec<(ChainId, GenError)>,
    /// The number of repeated requests to a server, for the chains among `steps` and `failed`.
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

/// A step that closed or paused.
#[derive(Debug, Clone, PartialEq)]
pub struct StepOutput {
    /// The chain in which the step was written.
    pub chain: ChainId,
    /// All tokens of the step, boundary or end-of-text token included. All of them are sampled,
    /// except those that close a [thought](Thought::forced) at its limit. Empty if the last token
    /// of the step before already held this step.
    pub tokens: Vec<u32>,
    /// The thought at the beginning of the step; `None` if it has no part of one.
    pub thought: Option<Thought>,
    /// The text of the step; special tokens have none. The text ends where the step ends, which may
    /// be inside a token.
    pub text: String,
    /// The bytes of the last token that belong to the next step. Empty if the chain is finished.
    pub leftover: Vec<u8>,
    /// Whether `tokens` decode to exactly `text`: no leftover bytes went into the step or out of
    /// it, and nothing was cut off.
    pub tokens_match_text: bool,
    /// The sum of the sampled tokens' log-probabilities (natural logarithm).
    pub logprob: f32,
    /// Log-probabilities of each of `tokens`, if the settings ask for them
    /// ([`GeneratorConfig::logprobs`]); empty otherwise.
    pub token_logprobs: Vec<TokenLogprobs>,
    /// The reason why the step ended, which also tells whether its text is complete.
    pub border: Border,
    /// The reason why the chain ended; `None` if it may continue. Reaching a length limit is never
    /// reported as [`Finish::EndOfText`]. The search detects stated answers by itself, but a
    /// generator that knows may report [`Finish::Answer`].
    pub finish: Option<Finish>,
    /// Whether the step is paused as planned and not closed. All its tokens so far are in `tokens`,
    /// and will be there again when the step closes.
    pub paused: bool,
}

/// The state of a model's cache memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Memory {
    /// The bytes of the pages that chains hold; a page counts once, however many chains share it.
    pub used_bytes: u64,
    /// The bytes that one token takes in the cache.
    pub bytes_per_token: u64,
    /// The number of tokens that the whole cache holds; 0 without a limit.
    pub capacity_tokens: usize,
}

impl StepOutput {
    /// Returns the number of sampled tokens.
    pub(crate) fn sampled(&self) -> usize {
        self.tokens.len().saturating_sub(self.forced())
    }

    /// Returns the number of tokens that were not sampled, but written to close a thought.
    pub(crate) fn forced(&self) -> usize {
        self.thought.map_or(0, |thought| thought.forced)
    }

    /// Whether the step ends within a thought.
    pub(crate) fn is_thought(&self) -> bool {
        self.thought
            .is_some_and(|thought| thought.bytes == self.text.len())
    }
}

impl Memory {
    /// Adds the memory of a second model that holds the same chains. The capacity is the smaller
    /// one; 0 counts as no limit.
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

/// A language model that decodes steps of many chains of many problems together.
///
/// A chain is idle, in the middle of a step, or paused there; only idle chains can be forked.
/// Results depend only on the problem's key, the streams and the texts, never on the other chains
/// in the batch.
pub trait Generator {
    /// Renders the prompt with the steps that the problem gives, and queues it to be read in a
    /// later [`pass`](Self::pass). The chains of the problem are written under `settings`. Given
    /// steps count like sampled ones, in the length of a chain and in its random numbers.
    ///
    /// # Errors
    /// The problem is refused, for example because its prompt exceeds the context. Other problems
    /// are not affected, unless the model is [lost](GenError::Lost).
    fn open(
        &mut self,
        problem: &Problem,
        key: u64,
        settings: &GeneratorConfig,
    ) -> Result<OpenedProblem, GenError>;

    /// Starts the next step of an idle chain or of a fork of it, or resumes a paused step. Returns
    /// the chain in which the step is written.
    ///
    /// The call reserves memory for the longest possible step, and for the prompt if it is still to
    /// be read. Returns `None`, with nothing changed, if that much memory is not free besides all
    /// other reservations.
    ///
    /// A resumed step keeps its stream; its `mode` and `token_limit` are replaced. The limit still
    /// counts from the beginning of the step.
    fn try_start(&mut self, source: Source, plan: StepPlan) -> Option<ChainId>;

    /// Evicts the caches of idle chains except `kept`, while no step is being decoded. An evicted
    /// chain is read again when it continues, with the same results. Returns whether that freed
    /// memory. By default nothing can be evicted.
    fn forget(&mut self, kept: ChainId) -> bool {
        let _ = kept;
        false
    }

    /// Releases the chain's memory, also in the middle of a step. Returns the number of tokens
    /// sampled for the unfinished step, those before a pause included; 0 if the chain is idle.
    fn release(&mut self, chain: ChainId) -> usize;

    /// Runs one forward pass over all chains in the middle of a step. Returns the steps that
    /// closed, whose chains are idle again, the steps that paused, and the chains that failed.
    ///
    /// # Errors
    /// The whole pass failed, which fails every problem with a step in it; or the model is
    /// [lost](GenError::Lost), which ends the run.
    fn pass(&mut self) -> Result<PassOutput, GenError>;

    /// Returns the floating-point operations of reading `tokens` tokens after `before` others of a
    /// chain, and of computing the logits of `logits` of them ([`Flops`](crate::Flops)). By
    /// default they are unknown: 0.
    fn flops(&self, before: usize, tokens: usize, logits: usize) -> u64 {
        let _ = (before, tokens, logits);
        0
    }

    /// Returns the work of all passes so far; its operations are counted like
    /// [`flops`](Self::flops). By default it is unknown.
    fn executed(&self) -> Executed {
        Executed::default()
    }

    /// Returns the number of chains in the middle of a step.
    fn active(&self) -> usize;

    /// Closes the thoughts of the chains in `chains` at their next token, so that their answers
    /// follow, because the time of their problem is nearly over. By default thoughts are not known,
    /// and none is closed.
    fn close_thoughts(&mut self, chains: &[ChainId]) {
        let _ = chains;
    }

    /// Returns the state of the cache memory, which all problems share.
    fn memory(&self) -> Memory;

    /// Checks whether [`open`](Self::open) would accept a problem under the generator's own
    /// settings. By default, every problem is accepted.
    ///
    /// # Errors
    /// The problem would be refused, for the reason that [`open`](Self::open) gives.
    fn check(&self, _problem: &Problem) -> Result<(), GenError> {
        Ok(())
    }

    /// Returns the settings in effect: a setting that is left open gets the model's value. By
    /// default nothing is filled in.
    fn resolve(&self, settings: &GeneratorConfig) -> GeneratorConfig {
        settings.clone()
    }
}
