//! Requests to a solver: a problem with the settings of its search.

use std::sync::Arc;
use std::time::Duration;

use beamgen_search::{
    Aggregation, CancelToken, Choose, ConfigError, Problem, Settings, Strategy, StrategyFactory,
    StrategyKind,
};

use crate::progress::Progress;

/// A problem with the settings of its search. [`Solver::request`](crate::Solver::request) returns a
/// request with the solver's own settings, which methods of the request change. Requests with
/// different settings share batches.
///
/// ```
/// # let solver = beamgen::Solver::builder().build()?;
/// let request = solver
///     .request("Ana has 16 shells. ...")
///     .n(8)
///     .seed(3)
///     .temperature(0.8);
/// assert_eq!(request.settings.search.n, 8);
/// # Ok::<(), beamgen::Error>(())
/// ```
pub struct Request {
    /// The problem.
    pub problem: Problem,
    /// Strategy, N, M, sampling, seed, aggregation, limits.
    pub settings: Settings,
    pub(crate) custom_strategy: Option<(String, StrategyFactory)>,
    pub(crate) timeout: Option<Duration>,
    pub(crate) cancel: Option<CancelToken>,
    pub(crate) most_events: Option<usize>,
    pub(crate) on_progress: Option<OnProgress>,
}

/// A callback for events, which runs on the engine's thread.
pub(crate) type OnProgress = Box<dyn FnMut(&Progress) + Send>;

impl Request {
    /// Returns a request for a problem with these settings.
    pub fn new(problem: impl Into<Problem>, settings: Settings) -> Self {
        Self {
            problem: problem.into(),
            settings,
            custom_strategy: None,
            timeout: None,
            cancel: None,
            most_events: None,
            on_progress: None,
        }
    }

    /// Sets the strategy.
    #[must_use]
    pub fn strategy(mut self, kind: StrategyKind) -> Self {
        self.settings.search.strategy = kind;
        self
    }

    /// Sets the number of chains (N).
    #[must_use]
    pub fn n(mut self, n: usize) -> Self {
        self.settings.search.n = n;
        self
    }

    /// Sets the expansion factor (M): the number of continuations of each kept chain.
    #[must_use]
    pub fn m(mut self, m: usize) -> Self {
        self.settings.search.m = m;
        self
    }

    /// Sets the rule that turns step scores into a chain's score.
    #[must_use]
    pub fn aggregation(mut self, aggregation: Aggregation) -> Self {
        self.settings.search.aggregation = aggregation;
        self
    }

    /// Sets the rule that chooses the answer among finished chains.
    #[must_use]
    pub fn choose(mut self, choose: Choose) -> Self {
        self.settings.search.choose = Some(choose);
        self
    }

    /// Sets the seed of all random numbers.
    #[must_use]
    pub fn seed(mut self, seed: u64) -> Self {
        self.settings.generator.seed = seed;
        self
    }

    /// Sets the sampling temperature; 0 takes the likeliest token.
    #[must_use]
    pub fn temperature(mut self, temperature: f32) -> Self {
        self.settings.generator.sampling.temperature = Some(temperature);
        self
    }

    /// Sets a strategy of your own. `make` is called once for the problem, on the engine's thread.
    /// `name` identifies the strategy in run files, so it should change when the strategy changes.
    #[must_use]
    pub fn custom_strategy(
        mut self,
        name: impl Into<String>,
        make: impl Fn(&Problem) -> Result<Box<dyn Strategy>, ConfigError> + Send + Sync + 'static,
    ) -> Self {
        self.custom_strategy = Some((name.into(), Arc::new(make)));
        self
    }

    /// Ends the search with a partial result after `timeout`, which includes the wait in a queue.
    #[must_use]
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = Some(timeout);
        self
    }

    /// Ends the search when the token is cancelled.
    #[must_use]
    pub fn cancel(mut self, token: CancelToken) -> Self {
        self.cancel = Some(token);
        self
    }

    /// Sets the number of events that a [`Ticket`](crate::Ticket) keeps for a slow reader, in place of
    /// [`ServiceOptions::events`](crate::service::ServiceOptions::events). With 0, no events are made.
    #[must_use]
    pub fn keep_events(mut self, most: usize) -> Self {
        self.most_events = Some(most);
        self
    }

    /// Calls `observe` with every event of the problem. It runs on the engine's thread, so it should be
    /// quick. No event is dropped, unlike those of a [`Ticket`](crate::Ticket).
    #[must_use]
    pub fn on_progress(mut self, observe: impl FnMut(&Progress) + Send + 'static) -> Self {
        self.on_progress = Some(Box::new(observe));
        self
    }

    /// Converts the request for the search. `now` is the time by the run's clock.
    pub(crate) fn for_search(
        self,
        settings: Arc<Settings>,
        now: Duration,
    ) -> beamgen_search::Request {
        beamgen_search::Request {
            problem: self.problem,
            settings,
            strategy: self.custom_strategy.map(|(_, factory)| factory),
            deadline: self.timeout.map(|timeout| now.saturating_add(timeout)),
            cancel: self.cancel,
        }
    }
}

impl std::fmt::Debug for Request {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Request")
            .field("problem", &self.problem)
            .field("settings", &self.settings)
            .field(
                "custom_strategy",
                &self.custom_strategy.as_ref().map(|(name, _)| name),
            )
            .field("timeout", &self.timeout)
            .finish_non_exhaustive()
    }
}
