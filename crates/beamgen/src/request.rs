//! A request to a solver: a problem, and the settings of its search.

use std::sync::Arc;
use std::time::Duration;

use beamgen_search::{
    Aggregation, CancelToken, Choose, ConfigError, Problem, Settings, Strategy, StrategyFactory,
    StrategyKind,
};

use crate::progress::Progress;

/// A problem with the settings of its search. [`Solver::request`](crate::Solver::request) returns a
/// request with the solver's settings, which the methods here change. Requests with different
/// settings can share batches.
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

/// A callback for events. It runs on the engine's thread.
pub(crate) type OnProgress = Box<dyn FnMut(&Progress) + Send>;

impl Request {
    /// Returns a request with the given settings, without a timeout or callbacks.
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

    /// Sets the search strategy. All other settings stay as they are.
    #[must_use]
    pub fn strategy(mut self, kind: StrategyKind) -> Self {
        self.settings.search.strategy = kind;
        self
    }

    /// Sets the number of chains that the search keeps or samples (N).
    #[must_use]
    pub fn n(mut self, n: usize) -> Self {
        self.settings.search.n = n;
        self
    }

    /// Sets the number of continuations of each kept chain (M).
    #[must_use]
    pub fn m(mut self, m: usize) -> Self {
        self.settings.search.m = m;
        self
    }

    /// Sets the rule that turns the step scores of a chain into one score.
    #[must_use]
    pub fn aggregation(mut self, aggregation: Aggregation) -> Self {
        self.settings.search.aggregation = aggregation;
        self
    }

    /// Sets the rule that chooses the answer among the finished chains.
    #[must_use]
    pub fn choose(mut self, choose: Choose) -> Self {
        self.settings.search.choose = Some(choose);
        self
    }

    /// Sets the seed from which all random numbers of the search are derived.
    #[must_use]
    pub fn seed(mut self, seed: u64) -> Self {
        self.settings.generator.seed = seed;
        self
    }

    /// Sets the sampling temperature. At 0, the likeliest token is always taken.
    #[must_use]
    pub fn temperature(mut self, temperature: f32) -> Self {
        self.settings.generator.sampling.temperature = Some(temperature);
        self
    }

    /// Sets a strategy of your own. `make` is called once, on the engine's thread. Run files
    /// identify the strategy by `name`, so the name should change when the strategy changes.
    #[must_use]
    pub fn custom_strategy(
        mut self,
        name: impl Into<String>,
        make: impl Fn(&Problem) -> Result<Box<dyn Strategy>, ConfigError> + Send + Sync + 'static,
    ) -> Self {
        self.custom_strategy = Some((name.into(), Arc::new(make)));
        self
    }

    /// Sets a time limit, which includes the wait in a queue. At the limit, the search ends with a
    /// partial result.
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

    /// Sets the number of events that a [`Ticket`](crate::Ticket) keeps for a slow reader, in place
    /// of [`ServiceOptions::events`](crate::service::ServiceOptions::events). With 0, the ticket
    /// has no events.
    #[must_use]
    pub fn keep_events(mut self, most: usize) -> Self {
        self.most_events = Some(most);
        self
    }

    /// Calls `observe` for every event of the problem, on the engine's thread, so `observe` must be
    /// quick. No event is dropped, unlike events of a [`Ticket`](crate::Ticket).
    #[must_use]
    pub fn on_progress(mut self, observe: impl FnMut(&Progress) + Send + 'static) -> Self {
        self.on_progress = Some(Box::new(observe));
        self
    }

    /// Converts the request to the form of the search. `now` is the time on the run's clock, from
    /// which the timeout counts.
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
