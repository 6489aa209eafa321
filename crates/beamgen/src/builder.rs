//! From settings to a solver.

use std::path::Path;
use std::sync::Arc;

use beamgen_engine::{ChatTemplate, Checkpoint, Engine, Model, ThreadPool, Tokenizer};
use beamgen_eval::MathAnswers;
use beamgen_generator::LmGenerator;
use beamgen_prm::{Renderer, RewardModel, same_tokenizer};
use beamgen_search::{Answers, Scorer};
use serde_json::{Map, Value};

use crate::bundled::{self, Bundled};
use crate::{Config, Error, ScorerKind, Solver, fingerprint};

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
            let bundled = match config.models.scorer {
                ScorerKind::Prm => bundled::PRM,
                ScorerKind::Orm => bundled::ORM,
                ScorerKind::Exact | ScorerKind::None => return Err(Error::NoScorer),
            };
            let source = Source::new(config.models.prm.as_deref(), bundled);
            models.insert("prm".to_owned(), source.fingerprint()?.into());
            let model = source
                .load_scorer(&config, pool, &generator)
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

fn scored_by(config: &Config, own: bool) -> &'static str {
    match (config.uses_scorer(), own, config.models.scorer) {
        (false, ..) => ScorerKind::None.name(),
        (true, true, ScorerKind::Prm | ScorerKind::Orm) => "own",
        (true, _, kind) => kind.name(),
    }
}

/// Where a model comes from.
enum Source<'a> {
    Directory(&'a Path),
    Bundled(Bundled),
}

impl<'a> Source<'a> {
    fn new(dir: Option<&'a Path>, bundled: Bundled) -> Self {
        dir.map_or(Self::Bundled(bundled), Self::Directory)
    }

    fn checkpoint(&self) -> Checkpoint {
        match self {
            Self::Directory(dir) => Checkpoint::from(*dir),
            Self::Bundled(bundled) => bundled.checkpoint(),
        }
    }

    fn path(&self) -> String {
        self.checkpoint().path().display().to_string()
    }

    fn fingerprint(&self) -> Result<String, Error> {
        match self {
            Self::Bundled(bundled) => Ok(fingerprint::of_files(bundled.files.iter().copied())),
            Self::Directory(dir) => {
                fingerprint::of_dir(dir).map_err(|source| Error::NoCheckpoint {
                    path: dir.to_path_buf(),
                    source,
                })
            }
        }
    }

    fn load_generator(&self, config: &Config, pool: ThreadPool) -> Result<LmGenerator, Error> {
        let checkpoint = self.checkpoint();
        let model = Arc::new(Model::load(checkpoint.clone())?);
        let tokenizer = Arc::new(Tokenizer::load(checkpoint)?);
        let engine = Engine::with_pool(model, config.engine.clone(), pool)?;
        Ok(LmGenerator::new(
            engine,
            tokenizer,
            config.generator.clone(),
        )?)
    }

    fn load_scorer(
        &self,
        config: &Config,
        pool: ThreadPool,
        generator: &Source<'_>,
    ) -> Result<RewardModel, Error> {
        let checkpoint = self.checkpoint();
        let tokenizer = Arc::new(Tokenizer::load(checkpoint.clone())?);
        let template = ChatTemplate::of(&tokenizer)?;
        let writes_special_tokens = template.writes_special_tokens();
        let renderer = Renderer::new(
            move |problem| template.prompt(None, problem),
            writes_special_tokens,
        );
        let shared = same_tokenizer(checkpoint.clone(), generator.checkpoint())?;
        let mut model =
            RewardModel::load(checkpoint, config.engine.clone(), pool, tokenizer, renderer)?;
        model.share_tokens(shared);
        Ok(model)
    }
}
