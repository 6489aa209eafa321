//! The interface between the search and a scorer: a reward model, a checker, or a combination of
//! judges.

use std::sync::Arc;

use crate::error::ScoreError;
use crate::finish::Finish;
use crate::generator::Memory;
use crate::ledger::Executed;
use crate::problem::Problem;

/// Handle of a chain's state (its KV cache) inside a scorer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ScoreId(pub u64);

/// A step to be scored. The steps before it in the chain are its context.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct StepRef<'a> {
    /// The text, boundary included. Never empty or only white space.
    pub text: &'a str,
    /// The generator's tokens, if they decode to exactly `text`; otherwise empty. With
    /// [`Finish::EndOfText`] the last token is the end-of-text token, which has no text.
    pub tokens: &'a [u32],
    /// The reason why the chain ended with this step. `None` or [`Finish::Answer`] for a step that
    /// closed at its boundary.
    pub finish: Option<Finish>,
}

/// The new steps of one chain, to be scored in one call.
#[derive(Debug, Clone, PartialEq)]
pub struct ScoreItem<'a> {
    /// The chain that the steps are appended to; no other item of the call names this chain.
    pub id: ScoreId,
    /// At least one step, in the order of the chain.
    pub steps: Vec<StepRef<'a>>,
}

/// The reply of a scorer to one [`ScoreItem`].
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Scored {
    /// A probability in `0.0..=1.0` for each step, in the item's order. Zero is a score like any
    /// other; `None` means that the scorer abstains on the step.
    pub probabilities: Vec<Option<f32>>,
    /// The 10, 50 and 90 % quantiles of each step's probability of success. Empty if the scorer
    /// does not estimate them or combines [several judges](crate::Judges).
    pub quantiles: Vec<[f32; 3]>,
    /// The number of tokens read for this item, the problem's included when they are read.
    pub read_tokens: usize,
    /// The number of tokens of the chain that were found in the cache and not read again.
    pub reused_tokens: usize,
    /// The floating-point operations of reading these tokens; 0 if they are unknown.
    pub flops: u64,
    /// The part of `flops` for tokens that were read before and had been forgotten.
    pub again_flops: u64,
    /// The number of requests to a server that had to be repeated.
    pub retries: u32,
    /// The number of steps without a score because a verdict was lost, for example when a checker's
    /// program crashed.
    pub lost_verdicts: usize,
    /// The opinions of the single judges, if the scorer combines [several](crate::Judges).
    pub judges: Vec<JudgeScores>,
}

impl Scored {
    /// Makes the reply of a scorer that abstains on no step and reads no tokens.
    pub fn of(probabilities: impl IntoIterator<Item = f32>) -> Self {
        Self {
            probabilities: probabilities.into_iter().map(Some).collect(),
            ..Self::default()
        }
    }
}

/// The opinions of one judge about the steps of an item, and their cost.
#[derive(Debug, Clone, PartialEq)]
pub struct JudgeScores {
    /// The judge's name, the key in trees and ledgers.
    pub name: Arc<str>,
    /// One opinion for each step of the item.
    pub opinions: Vec<Opinion>,
    /// The number of tokens that the judge read for this item.
    pub read_tokens: usize,
    /// The number of tokens of the chain that the judge found in its cache.
    pub reused_tokens: usize,
}

/// The opinion of a judge about a step, if there is one.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub enum Opinion {
    /// The judge was not asked: the step is not one that it has to score.
    #[default]
    NotAsked,
    /// The judge was asked and gives no score.
    Abstains,
    /// The probability that the step is right, in `0.0..=1.0`.
    Score(f32),
}

impl Opinion {
    /// Returns the score; `None` if the judge was not asked or abstains.
    pub fn score(self) -> Option<f32> {
        match self {
            Self::Score(score) => Some(score),
            Self::NotAsked | Self::Abstains => None,
        }
    }
}

impl From<Option<f32>> for Opinion {
    fn from(score: Option<f32>) -> Self {
        score.map_or(Self::Abstains, Self::Score)
    }
}

/// Whether a score is in `0.0..=1.0`; NaN is not.
pub(crate) fn is_probability(score: f32) -> bool {
    (0.0..=1.0).contains(&score)
}

/// The result of a call for scores: one result for each item, or the error of the whole call.
pub type ScoreResult = Result<Vec<Result<Scored, ScoreError>>, ScoreError>;

/// Handle of a batch, chosen by the search when it submits the batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BatchId(pub u64);

/// The state of a batch after it was submitted.
#[derive(Debug)]
pub enum Submitted {
    /// The scorer has scored the batch at once.
    Done(ScoreResult),
    /// The scores will be among those that [`Scorer::collect`] returns.
    Pending,
}

/// A source of step scores for many chains at once. Each step is read once.
pub trait Scorer {
    /// Opens a problem and returns a chain without steps. `key` is [`Problem::key`].
    ///
    /// # Errors
    /// The problem does not fit or cannot be rendered; other problems are not affected.
    fn open(&mut self, problem: &Problem, key: u64) -> Result<ScoreId, ScoreError>;

    /// Returns a second chain with the same contents. Nothing is computed or copied.
    fn fork(&mut self, id: ScoreId) -> ScoreId;

    /// Releases the chain's memory. Forks of the chain keep theirs.
    fn release(&mut self, id: ScoreId);

    /// Appends each item's steps to its chain and scores them, reading only what is new. An inner
    /// error concerns only the chain of its item.
    ///
    /// # Errors
    /// The whole call failed, which fails every problem with a step in it; or the model is
    /// [lost](ScoreError::Lost), which ends the run.
    fn score(&mut self, items: &[ScoreItem<'_>]) -> ScoreResult;

    /// Submits a batch. By default, the batch is scored at once with [`score`](Self::score).
    ///
    /// A slow scorer that works elsewhere copies what it needs of the items, returns
    /// [`Submitted::Pending`], and delivers the scores through [`collect`](Self::collect).
    /// Meanwhile the generator continues with chains that wait for no score.
    ///
    /// A chain of a pending batch may be [released](Self::release) when its problem is cancelled.
    fn submit(&mut self, _batch: BatchId, items: &[ScoreItem<'_>]) -> Submitted {
        Submitted::Done(self.score(items))
    }

    /// Returns the work of all calls so far. By default it is unknown.
    fn executed(&self) -> Executed {
        Executed::default()
    }

    /// Returns the batches that were pending and are done since the last call. With `wait` the
    /// caller has nothing else to do: the call may block until a batch is done or a short while has
    /// passed.
    ///
    /// A run may stop without waiting for its batches. A later run then gets them here and ignores
    /// them.
    fn collect(&mut self, _wait: bool) -> Vec<(BatchId, ScoreResult)> {
        Vec::new()
    }

    /// Releases cache memory that the scorer borrowed from the generator and that the generator has
    /// reserved since. Called before each forward pass of the generator. Evicted caches are read
    /// again when needed; scores do not change.
    fn evict_borrowed(&mut self) {}

    /// Returns the state of the cache memory, which all problems share.
    fn memory(&self) -> Memory;
}
