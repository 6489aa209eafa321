//! Step-wise search over reasoning chains.
//!
//! A [`Generator`] writes steps, a [`Scorer`] scores them, a [`Strategy`] keeps the promising
//! chains and drops the others, and [`run`] drives many problems through them at once. This crate
//! is pure logic: it never sees a tensor, opens no file and has no clock of its own.
//!
//! Three decisions shape it:
//!
//! * **One scheduler for every strategy.** Beam search, best-of-N and greedy decoding run on the
//!   same loop and are charged by the same [`Ledger`], so comparisons are fair.
//! * **Results do not depend on the batch.** A chain's random stream follows from its place in the
//!   tree ([`child_stream`]), siblings are reported together, and strategies see trees instead of
//!   the order of arrival. A problem has the same tree by itself and among hundreds.
//! * **Memory is never an error.** Steps wait for memory. If no chain can continue, the youngest
//!   problem is set back and started again later. If a problem is the only one in flight, it gives up
//!   its worst waiting chain ([`Finish::NoMemory`]).
#![forbid(unsafe_code)]
#![warn(missing_debug_implementations)]

mod aggregation;
mod choose;
mod config;
mod error;
mod event;
mod finish;
mod generation;
mod generator;
mod given;
mod grammar;
mod judges;
mod ledger;
mod most;
mod numbers;
mod outcome;
mod prefix;
mod problem;
mod request;
mod result;
mod rollouts;
mod scheduler;
mod scorer;
mod step_generator;
mod step_scorer;
pub mod strategy;
mod stream;
mod thinking;
pub mod thoughts;
mod token_logprobs;
mod tree;
mod verifier;
mod width;

pub use aggregation::Aggregation;
pub use choose::{Answer, Answers, Choose, FinishedChain, Standing, choose};
pub use config::SearchConfig;
pub use error::{Cause, ConfigError, GenError, ScoreError, SearchError};
pub use event::{ChainEvent, Event};
pub use finish::{Border, Finish};
pub use generation::{GeneratorConfig, SamplingSettings};
pub use generator::{
    ChainId, Generator, GivenStep, Memory, OpenedProblem, PassOutput, Source, StepOutput, StepPlan,
};
pub use given::{GivenChain, GivenReply, GivenScores, score_chains, steps_of};
pub use grammar::Grammar;
pub use judges::{Combine, Judge, Judges};
pub use ledger::{Clock, Executed, Flops, JudgeSpent, Ledger, Seconds, StoppedClock};
pub use most::Most;
pub use numbers::{number_or_nan, numbers_or_nan};
pub use outcome::{Outcome, OutcomeKind};
pub use prefix::Prefix;
pub use problem::{Problem, Role, Turn};
pub use request::{CancelToken, Intake, Next, Request, RequestList, Settings, StrategyFactory};
pub use result::{AnswerVotes, Evidence, ProblemResult, RunSummary, Stopped, Unsound};
pub use rollouts::{Poll, RolloutValue, RolloutsConfig};
pub use scheduler::{Callbacks, Models, Sink, run, run_with, serve};
pub use scorer::{
    BatchId, JudgeScores, Opinion, ScoreId, ScoreItem, ScoreResult, Scored, Scorer, StepRef,
    Submitted,
};
pub use step_generator::{StepByStep, StepGenerator};
pub use step_scorer::{PerStep, StepScorer};
pub use strategy::*;
pub use stream::child_stream;
pub use thinking::{ScoredText, ThinkingConfig, Thought, ThoughtSteps, USUAL_BUDGET};
pub use token_logprobs::{TokenLogprob, TokenLogprobs};
pub use tree::{ChainTree, Node, NodeId, PruneReason, Pruned, State};
pub use verifier::{Verifier, WholeChain};
pub use width::Width;
