//! The solver: two models, one search.

use std::ops::ControlFlow;
use std::time::{Duration, Instant};

use beamgen_generator::LmGenerator;
use beamgen_search::{Answers, Clock, Event, Models, Problem, ProblemResult, RunSummary, Scorer};
use serde_json::{Map, Value};

use crate::builder::SolverBuilder;
use crate::{Config, Error};

/// Solves problems by step-wise search: a generator, a scorer, and the search between them.
///
/// Both models' caches belong to the solver and are empty between runs. It can be moved to another
/// thread; runs take it by `&mut`, for one thread drives the models.
pub struct Solver {
    pub(crate) config: Config,
    pub(crate) generator: LmGenerator,
    pub(crate) scorer: Option<Box<dyn Scorer + Send>>,
    pub(crate) answers: Box<dyn Answers + Send>,
    pub(crate) models: Map<String, Value>,
    pub(crate) notes: Vec<String>,
    pub(crate) has_bundled: bool,
}

impl Solver {
    /// A solver with the bundled models and the default settings, until told otherwise.
    pub fn builder() -> SolverBuilder {
        SolverBuilder::default()
    }

    /// The settings as they act.
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// What the user should know of the models, a line each: what a checkpoint asks for and does not
    /// get, weights that are shared, a hub that was not asked.
    pub fn notes(&self) -> &[String] {
        &self.notes
    }

    /// Whether one of the models is bundled: it knows the problems of [the bundled
    /// world](crate::bundled) only.
    pub fn has_bundled(&self) -> bool {
        self.has_bundled
    }

    /// Whether a problem is foreign to a bundled model that this solver has
    /// ([`bundled::knows`](crate::bundled::knows)): its result will mean nothing.
    pub fn is_foreign(&self, problem: &Problem) -> bool {
        self.has_bundled && !crate::bundled::knows(&problem.text)
    }

    /// Solves a problem given as text. With bundled models, see [`is_foreign`](Self::is_foreign).
    ///
    /// # Errors
    /// As [`solve`](Self::solve).
    pub fn ask(&mut self, text: &str) -> Result<ProblemResult, Error> {
        self.solve(&Problem {
            id: "1".to_owned(),
            text: text.to_owned(),
            answer: None,
        })
    }

    /// Solves one problem.
    ///
    /// # Errors
    /// The problem is refused (longer than the generator's context, say), or a model fails.
    pub fn solve(&mut self, problem: &Problem) -> Result<ProblemResult, Error> {
        let mut solved = None;
        self.run([problem.clone()], &mut |_| {}, &mut |result| {
            solved = Some(result);
            ControlFlow::Continue(())
        })?;
        let result =
            solved.ok_or_else(|| Error::Refused("the search gave no result".to_owned()))?;
        match result.error {
            Some(reason) => Err(Error::Refused(reason)),
            None => Ok(result),
        }
    }

    /// Solves many problems together, which fills the forward passes. Results come as soon as they
    /// are there, with their position in the input; a refused problem's result has its `error` set
    /// and stops nothing.
    ///
    /// # Errors
    /// A model fails.
    pub fn solve_all(
        &mut self,
        problems: impl IntoIterator<Item = Problem>,
        mut each: impl FnMut(ProblemResult),
    ) -> Result<RunSummary, Error> {
        self.run(problems, &mut |_| {}, &mut |result| {
            each(result);
            ControlFlow::Continue(())
        })
    }

    /// The streaming form: `observe` sees every step close, get its score, go on or be pruned;
    /// `deliver` takes the results and may stop the run. Problems are pulled as there is room for
    /// them.
    ///
    /// # Errors
    /// A model fails.
    pub fn run(
        &mut self,
        problems: impl IntoIterator<Item = Problem>,
        observe: &mut dyn FnMut(Event<'_>),
        deliver: &mut dyn FnMut(ProblemResult) -> ControlFlow<()>,
    ) -> Result<RunSummary, Error> {
        let models = Models {
            generator: &mut self.generator,
            scorer: self
                .scorer
                .as_deref_mut()
                .map(|scorer| scorer as &mut dyn Scorer),
            answers: &*self.answers,
            clock: &WallClock::start(),
        };
        Ok(beamgen_search::run(
            models,
            &self.config.search,
            problems,
            observe,
            deliver,
        )?)
    }

    /// Whether a problem fits the generator's context, without solving it.
    ///
    /// # Errors
    /// Why it does not.
    pub fn check(&self, problem: &Problem) -> Result<(), Error> {
        match self.generator.prompt(&problem.text) {
            Ok(_) => Ok(()),
            Err(error) => Err(Error::Refused(error.to_string())),
        }
    }

    /// All that decides the results, as one would compare two runs: the settings without those that
    /// change the speed only, and the models' fingerprints in place of their directories.
    pub fn identity(&self) -> Map<String, Value> {
        let mut identity = Map::new();
        let mut add = |key: &str, value: Result<Value, serde_json::Error>| {
            identity.insert(key.to_owned(), value.unwrap_or(Value::Null));
        };
        add("models", Ok(Value::Object(self.models.clone())));
        add("search", serde_json::to_value(&self.config.search));
        add("generator", serde_json::to_value(&self.config.generator));
        // Of the engine, what touches the last bits of an activation.
        let engine = &self.config.engine;
        add("page_size", serde_json::to_value(engine.page_size));
        add("isa", serde_json::to_value(engine.isa));
        if let Some(Value::Object(search)) = identity.get_mut("search") {
            search.remove("in_flight");
        }
        identity
    }
}

struct WallClock(Instant);

impl WallClock {
    fn start() -> Self {
        Self(Instant::now())
    }
}

impl Clock for WallClock {
    fn now(&self) -> Duration {
        self.0.elapsed()
    }
}
