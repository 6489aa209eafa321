//! What is asked of a search: a problem, and the settings it is solved with.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::config::SearchConfig;
use crate::error::ConfigError;
use crate::generation::GeneratorConfig;
use crate::given::GivenChain;
use crate::problem::Problem;
use crate::strategy::Strategy;

/// The settings of one problem's search. Requests with different settings run side by side.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Settings {
    /// Strategy, N, M, aggregation, limits.
    pub search: SearchConfig,
    /// Sampling, seed, and what ends a step.
    pub generator: GeneratorConfig,
}

impl Settings {
    /// Refuses settings that cannot be run.
    ///
    /// # Errors
    /// The setting, and what it has to be.
    pub fn validate(&self) -> Result<(), ConfigError> {
        self.search.validate()?;
        self.generator.validate()
    }
}

impl From<&SearchConfig> for Settings {
    /// A search with a generator's default settings.
    fn from(search: &SearchConfig) -> Self {
        Self {
            search: search.clone(),
            ..Self::default()
        }
    }
}

/// Makes the strategy for a problem. Called on the thread that runs the search.
pub type StrategyFactory =
    Arc<dyn Fn(&Problem) -> Result<Box<dyn Strategy>, ConfigError> + Send + Sync>;

/// A problem to be solved.
#[derive(Clone)]
pub struct Request {
    /// The problem.
    pub problem: Problem,
    /// How it is solved. Many requests may share the same settings.
    pub settings: Arc<Settings>,
    /// A strategy of one's own. Of [`SearchConfig`], everything but the choice of strategy holds.
    pub strategy: Option<StrategyFactory>,
    /// When the search has to end with what it has, by the run's [`Clock`](crate::Clock).
    pub deadline: Option<Duration>,
    /// Ends the search when it is cancelled.
    pub cancel: Option<CancelToken>,
}

impl Request {
    /// A problem with its settings, without deadline.
    pub fn new(problem: Problem, settings: Arc<Settings>) -> Self {
        Self {
            problem,
            settings,
            strategy: None,
            deadline: None,
            cancel: None,
        }
    }

    /// A fresh strategy for the problem.
    pub(crate) fn strategy(&self, has_scorer: bool) -> Result<Box<dyn Strategy>, ConfigError> {
        match &self.strategy {
            Some(factory) => factory(&self.problem),
            None => self.settings.search.build(has_scorer),
        }
    }
}

impl fmt::Debug for Request {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Request")
            .field("problem", &self.problem)
            .field("settings", &self.settings)
            .field("own_strategy", &self.strategy.is_some())
            .field("deadline", &self.deadline)
            .finish_non_exhaustive()
    }
}

/// Cancels the requests that it was given to, from any thread.
#[derive(Debug, Clone, Default)]
pub struct CancelToken(Arc<AtomicBool>);

impl CancelToken {
    /// A token that nobody has cancelled yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Cancels. The search notices at its next turn.
    pub fn cancel(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    /// Whether somebody cancelled.
    pub fn is_cancelled(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

impl From<Arc<AtomicBool>> for CancelToken {
    /// A token that is cancelled when the flag is set, as by the handler of a signal.
    fn from(flag: Arc<AtomicBool>) -> Self {
        Self(flag)
    }
}

/// What an [`Intake`] has to give.
#[derive(Debug)]
pub enum Next {
    /// A request. It is admitted at once.
    Request(Box<Request>),
    /// None now; there may be one later.
    Waiting,
    /// None will come any more.
    Closed,
}

/// Where a search takes its requests from.
pub trait Intake {
    /// The next request. If the search is `idle`, this may block until there is one or a short
    /// while has passed; otherwise it returns at once, so that what is in flight goes on.
    fn next(&mut self, idle: bool) -> Next;

    /// A chain to be scored beside the search, asked for before every turn. There is none by
    /// default.
    fn given(&mut self) -> Option<GivenChain> {
        None
    }
}

/// Requests from an iterator; the run ends after the last one.
#[derive(Debug)]
pub struct RequestList<I>(pub I);

impl<I: Iterator<Item = Request>> Intake for RequestList<I> {
    fn next(&mut self, _idle: bool) -> Next {
        self.0
            .next()
            .map_or(Next::Closed, |request| Next::Request(Box::new(request)))
    }
}
