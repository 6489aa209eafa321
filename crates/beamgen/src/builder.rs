//! From settings to a solver.

use std::path::Path;

use beamgen_engine::ThreadPool;
use beamgen_eval::MathAnswers;
use beamgen_prm::RewardModel;
use beamgen_search::{Answers, Scorer};
use serde_json::{Map, Value};

use crate::source::Source;
use crate::{Config, Error, ScorerKind, Solver, bundled};

/// Builds a [`Solver`].
pub struct SolverBuilder {
    config: Config,
    scorer: Option<Box<dyn Scorer + Send>>,
    answers: Box<dyn Answers + Send>,
}

impl Default for SolverBuilder {
    fn default() -> Self {
        Self {
            config: Config::default(),
            scorer: None,
            answers: Box::new(MathAnswers),
        }
    }
}

impl SolverBuilder {
    /// All settings at once; what was set before is dropped.
    #[must_use]
    pub fn config(mut self, config: Config) -> Self {
        self.config = config;
        self
    }

    /// The generator's checkpoint directory, in Hugging Face layout.
    #[must_use]
    pub fn generator(mut self, dir: impl AsRef<Path>) -> Self {
        self.config.models.generator = Some(dir.as_ref().to_owned());
        self
    }

    /// The reward model's checkpoint directory, with a `prm.json` that says how it is read.
    #[must_use]
    pub fn prm(mut self, dir: impl AsRef<Path>) -> Self {
        self.config.models.prm = Some(dir.as_ref().to_owned());
        self
    }

    /// The seed of all random draws.
    #[must_use]
    pub fn seed(mut self, seed: u64) -> Self {
        self.config.generator.seed = seed;
        self
    }

    /// A scorer of one's own, in place of a reward model. With settings under which nothing is
    /// scored it is dropped.
    #[must_use]
    pub fn scorer(mut self, scorer: Box<dyn Scorer + Send>) -> Self {
        self.scorer = Some(scorer);
        self
    }

    /// Where answers are and when two are the same, for problems other than mathematics.
    #[must_use]
    pub fn answers(mut self, answers: Box<dyn Answers + Send>) -> Self {
        self.answers = answers;
        self
    }

    /// The settings so far.
    pub fn settings(&self) -> &Config {
        &self.config
    }

    /// Loads the models.
    ///
    /// # Errors
    /// A setting cannot be run, or a model cannot be loaded; with the file, field or tensor that is
    /// at fault.
    pub fn build(self) -> Result<Solver, Error> {
        self.config.check()?;
        let mut config = self.config.resolved();
        let pool = ThreadPool::new(config.engine.threads);
        let generator = Source::new(config.models.generator.as_deref(), bundled::GENERATOR);
        let mut models = Map::new();
        models.insert("generator".to_owned(), generator.fingerprint()?.into());
        let loaded = generator
            .load_generator(&config, pool.clone())
            .map_err(|error| error.at(generator.path()))?;

        let mut scorer = self.scorer.filter(|_| config.uses_scorer());
        models.insert(
            "scorer".to_owned(),
            Value::from(scored_by(&config, scorer.is_some())),
        );
        if scorer.is_none() && config.uses_scorer() {
            let source = scorer_source(&config)?;
            models.insert("prm".to_owned(), source.fingerprint()?.into());
            let model = source
                .load_scorer(&config, pool, Some(&generator))
                .map_err(|error| error.at(source.path()))?;
            scorer = Some(Box::new(model));
        }
        config.generator.clone_from(loaded.config());
        Ok(Solver {
            config,
            generator: loaded,
            scorer,
            answers: self.answers,
            models,
        })
    }
}

/// The reward model that the configuration names, alone: to score given chains.
///
/// # Errors
/// As [`SolverBuilder::build`].
pub fn reward_model(config: &Config) -> Result<RewardModel, Error> {
    let source = scorer_source(config)?;
    source
        .load_scorer(config, ThreadPool::new(config.engine.threads), None)
        .map_err(|error| error.at(source.path()))
}

fn scorer_source(config: &Config) -> Result<Source<'_>, Error> {
    let bundled = match config.models.scorer {
        ScorerKind::Prm => bundled::PRM,
        ScorerKind::Orm => bundled::ORM,
        ScorerKind::Exact | ScorerKind::None => return Err(Error::NoScorer),
    };
    Ok(Source::new(config.models.prm.as_deref(), bundled))
}

fn scored_by(config: &Config, own: bool) -> &'static str {
    match (config.uses_scorer(), own, config.models.scorer) {
        (false, ..) => ScorerKind::None.name(),
        (true, true, ScorerKind::Prm | ScorerKind::Orm) => "own",
        (true, _, kind) => kind.name(),
    }
}
