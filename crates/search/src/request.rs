//! Requests: a problem together with the settings that it is solved with.

use std::borrow::Cow;
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

/// The settings of one problem's search. Requests with different settings can be in flight
/// together.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Settings {
    /// The settings of the search: strategy, N, M, aggregation, limits.
    pub search: SearchConfig,
    /// The settings of the generator: sampling, seed, and what ends a step.
    pub generator: GeneratorConfig,
}

impl Settings {
    /// Checks the settings of the search, then those of the generator.
    ///
    /// # Errors
    /// The first setting that is invalid, and what it has to be.
    pub fn validate(&self) -> Result<(), ConfigError> {
        self.search.validate()?;
        self.generator.validate()
    }

    /// Returns the settings of the generator that the search uses. Greedy decoding always has
    /// temperature 0.
    #[must_use]
    pub fn effective_generator(&self) -> Cow<'_, GeneratorConfig> {
        let mut generator = Cow::Borrowed(&self.generator);
        if self.search.strategy.spec().is_greedy {
            generator.to_mut().sampling.temperature = Some(0.0);
        }
        generator
    }
}

impl From<&SearchConfig> for Settings {
    /// Combines a search with the default settings of the generator.
    fn from(search: &SearchConfig) -> Self {
        Self {
            search: search.clone(),
            ..Self::default()
        }
    }
}

/// A function that makes the strategy for a problem, called on the thread that runs the search.
pub type StrategyFactory =
    Arc<dyn Fn(&Problem) -> Result<Box<dyn Strategy>, ConfigError> + Send + Sync>;

/// A problem together with the settings, the limits and, if need be, a custom strategy for its
/// search.
#[derive(Clone)]
pub struct Request {
    /// The problem, whose steps and prefix may already begin its chains.
    pub problem: Problem,
    /// The settings of the search. Many requests may share the same settings.
    pub settings: Arc<Settings>,
    /// A custom strategy. All settings in [`SearchConfig`] apply except its choice of a strategy.
    pub strategy: Option<StrategyFactory>,
    /// The time of the run's [`Clock`](crate::Clock) at which the search ends with the chains that
    /// it has by then.
    pub deadline: Option<Duration>,
    /// A token that ends the search when it is cancelled.
    pub cancel: Option<CancelToken>,
}

impl Request {
    /// Makes a request without deadline and cancel token.
    pub fn new(problem: Problem, settings: Arc<Settings>) -> Self {
        Self {
            problem,
            settings,
            strategy: None,
            deadline: None,
            cancel: None,
        }
    }

    pub(crate) fn strategy(&self, has_scorer: bool) -> Result<Box<dyn Strategy>, ConfigError> {
        // Fresh for each start: a problem that was set back begins with a new state.
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

/// A flag that cancels the requests that hold it, from any thread.
#[derive(Debug, Clone, Default)]
pub struct CancelToken(Arc<AtomicBool>);

impl CancelToken {
    /// Makes a token that is not cancelled.
    pub fn new() -> Self {
        Self::default()
    }

    /// Cancels the requests. The search notices at its next turn.
    pub fn cancel(&self) {
        // The flag orders no other memory: a search that reads it late ends one turn later.
        self.0.store(true, Ordering::Relaxed);
    }

    /// Whether the requests with this token or a clone of it are cancelled.
    pub fn is_cancelled(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

impl From<Arc<AtomicBool>> for CancelToken {
    /// Makes a token that is cancelled when the flag is set, for example by a signal handler.
    fn from(flag: Arc<AtomicBool>) -> Self {
        Self(flag)
    }
}

/// The answer of an [`Intake`] that was asked for the next request.
#[derive(Debug)]
pub enum Next {
    /// A request, which is admitted at once.
    Request(Box<Request>),
    /// There is no request now; there may be one later.
    Waiting,
    /// There will be no further request, so the run can end.
    Closed,
}

/// The source of a run's requests, asked whenever there is room for another problem.
pub trait Intake {
    /// Returns the next request. If the search is `idle`, the call may block until there is a
    /// request or a short while has passed. Otherwise it must return at once, since problems in
    /// flight wait.
    fn next(&mut self, idle: bool) -> Next;

    /// Returns a chain to be scored outside of any search, if there is one. Called before every
    /// turn of the scheduler, until there is none or a batch is full; by default there is none.
    fn given(&mut self) -> Option<GivenChain> {
        None
    }
}

/// The requests of an iterator; the run ends after the last one.
#[derive(Debug)]
pub struct RequestList<I>(pub I);

impl<I: Iterator<Item = Request>> Intake for RequestList<I> {
    fn next(&mut self, _idle: bool) -> Next {
        self.0
            .next()
            // An iterator never has to wait for its next item, so `Waiting` does not occur.
            .map_or(Next::Closed, |request| Next::Request(Box::new(request)))
    }
}
