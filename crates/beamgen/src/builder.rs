//! From settings to a solver.

use std::path::Path;

use beamgen_eval::MathAnswers;
use beamgen_hub::Hub;
use beamgen_search::{Answers, Scorer};

use crate::prepare::{Prepared, Wanted};
use crate::source::Downloads;
use crate::{Config, EngineBench, Error, Solver};

/// Builds a [`Solver`].
pub struct SolverBuilder {
    config: Config,
    scorer: Option<Box<dyn Scorer + Send>>,
    answers: Box<dyn Answers + Send>,
    downloads: Option<Downloads>,
}

impl Default for SolverBuilder {
    fn default() -> Self {
        Self {
            config: Config::default(),
            scorer: None,
            answers: Box::new(MathAnswers),
            downloads: None,
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

    /// The generator: a folder in Hugging Face layout, a GGUF file, or `ORG/NAME` of a [hub](Self::hub).
    #[must_use]
    pub fn generator(mut self, model: impl AsRef<Path>) -> Self {
        self.config.models.generator = Some(model.as_ref().to_owned());
        self
    }

    /// The reward model, likewise. How it is read is recognised, or [`ModelsConfig::prm_format`] says it.
    ///
    /// [`ModelsConfig::prm_format`]: crate::ModelsConfig::prm_format
    #[must_use]
    pub fn prm(mut self, model: impl AsRef<Path>) -> Self {
        self.config.models.prm = Some(model.as_ref().to_owned());
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

    /// Where models come from whose names are not found on this machine: `ORG/NAME` of a hub. `observe`
    /// sees each download's model and progress. Without a hub such names are refused.
    #[must_use]
    pub fn hub(
        mut self,
        hub: Hub,
        observe: impl FnMut(&str, beamgen_hub::Progress<'_>) + 'static,
    ) -> Self {
        let observe = Box::new(observe);
        self.downloads = Some(Downloads { hub, observe });
        self
    }

    /// Finds the models, downloads what is missing, and checks everything that can be checked before
    /// a weight is read, the machine's memory included.
    ///
    /// # Errors
    /// A setting cannot be run, a model cannot be found, its files do not fit, or it does not fit
    /// into memory; with the file, field or tensor that is at fault.
    pub fn prepare(self) -> Result<Prepared, Error> {
        self.wanting(Wanted::Pair)
    }

    /// [`prepare`](Self::prepare) for the reward model alone, to score given chains.
    ///
    /// # Errors
    /// As [`prepare`](Self::prepare).
    pub fn prepare_reward_model(self) -> Result<Prepared, Error> {
        self.wanting(Wanted::RewardModel)
    }

    /// Loads the generator alone, without its tokenizer, to time passes of the engine over at most
    /// `positions` tokens; with `random` weights only its `config.json`.
    ///
    /// # Errors
    /// As [`build`](Self::build).
    pub fn engine_bench(self, positions: usize, random: bool) -> Result<EngineBench, Error> {
        EngineBench::open(&self.config, positions, random, self.downloads)
    }

    fn wanting(self, wanted: Wanted) -> Result<Prepared, Error> {
        Prepared::new(
            self.config,
            wanted,
            self.scorer,
            self.answers,
            self.downloads,
        )
    }

    /// Loads the models.
    ///
    /// # Errors
    /// As [`prepare`](Self::prepare), and [`Prepared::solver`].
    pub fn build(self) -> Result<Solver, Error> {
        self.prepare()?.solver()
    }
}
