//! What the search asks of a scorer (a process reward model, or an exact checker).

use std::sync::Arc;

use crate::error::ScoreError;
use crate::finish::Finish;
use crate::generator::Memory;
use crate::problem::Problem;

/// Handle of a scored chain's state (its KV cache) inside a scorer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ScoreId(pub u64);

/// A step to be scored.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct StepRef<'a> {
    /// Text, boundary included. Never empty or only white space.
    pub text: &'a str,
    /// The generator's tokens, if they stand for `text` and nothing else; otherwise none. With
    /// [`Finish::EndOfText`] the last one is the end-of-text token, which has no text.
    pub tokens: &'a [u32],
    /// `None` or [`Finish::Answer`] for a step that closed at its boundary.
    pub finish: Option<Finish>,
}

/// New steps of one chain.
#[derive(Debug, Clone, PartialEq)]
pub struct ScoreItem<'a> {
    /// The chain they are appended to; no other item of the call has it.
    pub id: ScoreId,
    /// At least one, in order.
    pub steps: Vec<StepRef<'a>>,
}

/// Scores of one [`ScoreItem`].
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Scored {
    /// One probability in `0.0..=1.0` per step. Zero is a score like any other; `None` where the
    /// scorer abstains: it has nothing to say about the step.
    pub probabilities: Vec<Option<f32>>,
    /// One per step: the quantiles of its probability of success (10, 50 and 90 %), from a scorer
    /// that knows how sure it is; else none at all, as of [several judges](crate::Judges).
    pub quantiles: Vec<[f32; 3]>,
    /// Tokens read for this item.
    pub read_tokens: usize,
    /// Tokens of the chain so far that were found in the cache and not read again.
    pub reused_tokens: usize,
    /// Requests to a server that had to be made again.
    pub retries: u32,
    /// Steps without a score because a checker's verdict was lost, as by a program that died.
    pub lost_verdicts: usize,
    /// What each judge said, if the scorer is [several](crate::Judges).
    pub judges: Vec<JudgeScores>,
}

impl Scored {
    /// Scores of a scorer that abstains on nothing and reads no tokens.
    pub fn of(probabilities: impl IntoIterator<Item = f32>) -> Self {
        Self {
            probabilities: probabilities.into_iter().map(Some).collect(),
            ..Self::default()
        }
    }
}

/// What one of several judges said of the steps of an item, and what that cost.
#[derive(Debug, Clone, PartialEq)]
pub struct JudgeScores {
    /// The judge.
    pub name: Arc<str>,
    /// One per step.
    pub opinions: Vec<Opinion>,
    /// Tokens that it read.
    pub read_tokens: usize,
    /// Tokens that it found in its cache.
    pub reused_tokens: usize,
}

/// What a judge says of a step.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub enum Opinion {
    /// Nobody asked it.
    #[default]
    NotAsked,
    /// It was asked and has nothing to say.
    Abstains,
    /// The probability that the step is right.
    Score(f32),
}

impl Opinion {
    /// The score, if it is one.
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

/// Whether a score is one: not a number, say, is none.
pub(crate) fn is_probability(score: f32) -> bool {
    (0.0..=1.0).contains(&score)
}

/// What a call for scores gives: one result per item, or why the whole call failed.
pub type ScoreResult = Result<Vec<Result<Scored, ScoreError>>, ScoreError>;

/// Handle of a batch that was handed over.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BatchId(pub u64);

/// What became of a batch that was handed over.
#[derive(Debug)]
pub enum Submitted {
    /// It is scored.
    Done(ScoreResult),
    /// It will be among those that [`Scorer::collect`] gives.
    Pending,
}

/// Scores the steps of many chains together, each step once.
pub trait Scorer {
    /// Accepts a problem: a chain without steps.
    ///
    /// # Errors
    /// What is wrong with this problem; other problems are not affected.
    fn open(&mut self, problem: &Problem, key: u64) -> Result<ScoreId, ScoreError>;

    /// A second chain with the same contents; nothing is computed or copied.
    fn fork(&mut self, id: ScoreId) -> ScoreId;

    /// Gives the chain's memory back.
    fn release(&mut self, id: ScoreId);

    /// Appends each item's steps to its chain and scores them, reading only what is new. The
    /// inner result, one per item, tells what is wrong with that chain alone.
    ///
    /// # Errors
    /// The whole call failed, and with it every problem that has a step in it; or the model is
    /// [lost](ScoreError::Lost) and the run cannot go on.
    fn score(&mut self, items: &[ScoreItem<'_>]) -> ScoreResult;

    /// Hands a batch over. A scorer that computes right here answers at once, as by default; one
    /// that is slow and elsewhere keeps what it needs of the items, answers
    /// [`Submitted::Pending`], and gives the scores to [`collect`](Self::collect). Steps whose
    /// scores are not waited for go on being generated meanwhile.
    ///
    /// A chain of a pending batch may be [released](Self::release) when its problem is cancelled.
    fn submit(&mut self, _batch: BatchId, items: &[ScoreItem<'_>]) -> Submitted {
        Submitted::Done(self.score(items))
    }

    /// The pending batches that are done since the last call. A run that is stopped does not wait for
    /// its own: they are among those of a later run, which passes over them. If `wait`, nothing else is to be
    /// done: it may block until one is done or a short while has passed.
    fn collect(&mut self, _wait: bool) -> Vec<(BatchId, ScoreResult)> {
        Vec::new()
    }

    /// Gives back cache memory that it borrowed from the generator and that the generator has
    /// claimed meanwhile. Called before each of the generator's passes. What is forgotten for it is
    /// read again when it is wanted; scores stay the same.
    fn evict_borrowed(&mut self) {}

    /// Its cache memory now.
    fn memory(&self) -> Memory;
}
