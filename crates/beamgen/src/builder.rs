//! The builder of a [`Solver`].

use std::path::Path;

use beamgen_hub::Hub;
use beamgen_launcher::Launcher;
use beamgen_search::{
    Answers, Combine, Generator, PerStep, Scorer, StepByStep, StepGenerator, StepScorer,
};

use crate::own::{Identity, OwnJudge, OwnParts};
use crate::prepare::{Prepared, Wanted};
use crate::source::{Downloads, Finder};
use crate::{Config, Error, Pair, Solver};

impl Solver {
    /// Returns a builder with the bundled models and the default settings.
    pub fn builder() -> SolverBuilder {
        SolverBuilder::default()
    }
}

/// Builds a [`Solver`].
#[derive(Default)]
pub struct SolverBuilder {
    pub(crate) config: Config,
    own: OwnParts,
    pub(crate) finder: Finder,
}

impl SolverBuilder {
    /// Sets all settings at once. Earlier settings of this builder are dropped.
    #[must_use]
    pub fn config(mut self, config: Config) -> Self {
        self.config = config;
        self
    }

    /// Applies the settings of the environment, which win over what is set: `BEAMGEN_CUDA_GRAPHS=0`
    /// switches graphs on CUDA devices off, 1 on. With the feature `remote` also the servers' keys
    /// (`BEAMGEN_GENERATOR_KEY`, `BEAMGEN_PRM_KEY`) and certificates.
    /// `lookup` is `|name| std::env::var(name).ok()` in a program.
    ///
    /// # Errors
    /// Returns [`Error::Key`] if the switch has another value, and [`Error::Refused`] for an invalid
    /// key.
    pub fn settings_from(mut self, lookup: impl Fn(&str) -> Option<String>) -> Result<Self, Error> {
        const GRAPHS: &str = "BEAMGEN_CUDA_GRAPHS";
        match lookup(GRAPHS).as_deref() {
            None | Some("") => {}
            Some("0") => self.config.engine.cuda_graphs = false,
            Some("1") => self.config.engine.cuda_graphs = true,
            Some(other) => {
                return Err(Error::Key {
                    key: GRAPHS.to_owned(),
                    reason: format!("{other:?} in the environment, expected 0 or 1"),
                });
            }
        }
        #[cfg(feature = "remote")]
        self.servers_from(lookup)?;
        Ok(self)
    }

    /// Reads the servers' keys and certificates from the environment.
    #[cfg(feature = "remote")]
    fn servers_from(&mut self, lookup: impl Fn(&str) -> Option<String>) -> Result<(), Error> {
        let (models, own) = (&self.config.models, &mut self.own);
        for (server, name, key) in [
            (
                &models.generator_server,
                "BEAMGEN_GENERATOR_KEY",
                &mut own.generator_key,
            ),
            (&models.prm_server, "BEAMGEN_PRM_KEY", &mut own.prm_key),
        ] {
            // A role without servers leaves its variable unread, so an invalid key there is no
            // error.
            if let Some(value) = server.as_ref().and_then(|_| lookup(name)) {
                let given = beamgen_remote::ApiKey::new(&value);
                *key =
                    Some(given.map_err(|error| Error::Refused(format!("{name}: {error}").into()))?);
            }
        }
        self.own.certificates = beamgen_hub::Certificates::from_lookup(lookup);
        Ok(())
    }

    /// Sets the models and settings of a pair, by its name or the path of its TOML file (see
    /// [`Pair::find`]). Earlier settings of this builder are dropped; later calls win over the pair.
    /// The models of bundled pairs come from a [hub](Self::hub).
    ///
    /// # Errors
    /// Returns the errors of [`Pair::find`].
    pub fn pair(mut self, name_or_path: &str) -> Result<Self, Error> {
        self.config = Pair::find(name_or_path)?.config()?;
        Ok(self)
    }

    /// Sets the generator: a folder in Hugging Face layout, a GGUF file, or `ORG/NAME` of a
    /// [hub](Self::hub).
    #[must_use]
    pub fn generator(mut self, model: impl AsRef<Path>) -> Self {
        self.config.models.generator = Some(model.as_ref().to_owned());
        self
    }

    /// Sets the reward model: a folder, a GGUF file, or `ORG/NAME` of a [hub](Self::hub). Its format
    /// is recognised, unless [`ModelsConfig::prm_format`] names a format.
    ///
    /// [`ModelsConfig::prm_format`]: crate::models::ModelsConfig::prm_format
    #[must_use]
    pub fn prm(mut self, model: impl AsRef<Path>) -> Self {
        self.config.models.prm = Some(model.as_ref().to_owned());
        self
    }

    /// Sets the seed of all random numbers.
    #[must_use]
    pub fn seed(mut self, seed: u64) -> Self {
        self.config.generator.seed = seed;
        self
    }

    /// Sets a generator of your own in place of a language model of this engine, such as a remote
    /// server. `name` identifies the generator in run files, so it should change when the generator's
    /// output changes.
    #[must_use]
    pub fn custom_generator(
        mut self,
        name: impl Into<String>,
        generator: impl Generator + Send + 'static,
    ) -> Self {
        self.own.generator = Some((Identity::Named(name.into()), Box::new(generator)));
        self
    }

    /// Sets a [`custom_generator`](Self::custom_generator) made of a function that reads a chain and
    /// returns its next step.
    ///
    /// ```
    /// let mut solver = beamgen::Solver::builder()
    ///     .step_generator("tens", |_: &beamgen::Problem, steps: &[&str], seed: u64| {
    ///         let digit = seed % 10;
    ///         if steps.len() < 2 { format!("{digit}") } else { format!("The answer is {digit}.") }
    ///     })
    ///     .step_scorer("even", |_: &beamgen::Problem, _: &[&str]| 0.5)
    ///     .build()?;
    /// # Ok::<(), beamgen::Error>(())
    /// ```
    #[must_use]
    pub fn step_generator(
        self,
        name: impl Into<String>,
        generator: impl StepGenerator + Send + 'static,
    ) -> Self {
        self.custom_generator(name, StepByStep::new(generator))
    }

    /// Sets a scorer of your own in place of a reward model. It is not used with settings that need no
    /// scores. `name` identifies the scorer in run files, so it should change when its scores change.
    #[must_use]
    pub fn custom_scorer(
        mut self,
        name: impl Into<String>,
        scorer: impl Scorer + Send + 'static,
    ) -> Self {
        self.own.scorer = Some((Identity::Named(name.into()), Box::new(scorer)));
        self
    }

    /// Sets a [`custom_scorer`](Self::custom_scorer) made of a function that reads a chain and returns
    /// the probability that its last step is right.
    ///
    /// ```
    /// let mut solver = beamgen::Solver::builder()
    ///     .step_scorer("short steps", |_: &beamgen::Problem, steps: &[&str]| 1.0 / steps[steps.len() - 1].len() as f32)
    ///     .build()?;
    /// # Ok::<(), beamgen::Error>(())
    /// ```
    #[must_use]
    pub fn step_scorer(
        self,
        name: impl Into<String>,
        scorer: impl StepScorer + Send + 'static,
    ) -> Self {
        self.custom_scorer(name, PerStep::new(scorer))
    }

    /// Adds a judge to the scorer, after the judges of the settings. The rule of
    /// [`combine`](Self::combine) combines their scores. The tree has each judge's scores
    /// ([`Node::judges`](crate::strategy::Node::judges)), and the ledger its costs, under `name`.
    #[must_use]
    pub fn judge(self, name: impl Into<String>, scorer: impl Scorer + Send + 'static) -> Self {
        self.own_judge(name.into(), Box::new(scorer), false)
    }

    /// Adds a [`judge`](Self::judge) that can only fail steps, whatever the rule. A step that it scores
    /// below 0.5 has the score 0; the scores of other steps come from the other judges.
    #[must_use]
    pub fn vetoing_judge(
        self,
        name: impl Into<String>,
        scorer: impl Scorer + Send + 'static,
    ) -> Self {
        self.own_judge(name.into(), Box::new(scorer), true)
    }

    fn own_judge(mut self, name: String, scorer: Box<dyn Scorer + Send>, veto: bool) -> Self {
        self.own.judges.push(OwnJudge { name, scorer, veto });
        self
    }

    /// Adds a built-in checker, by its name in [`CHECKERS`](crate::checkers::CHECKERS), as a judge with
    /// a veto: a step that it proves wrong, and all steps after it, have the score 0. For a checker of
    /// your own, use [`vetoing_judge`](Self::vetoing_judge) with a
    /// [`CheckerScorer`](crate::checkers::CheckerScorer).
    #[must_use]
    pub fn checker(mut self, name: impl Into<String>) -> Self {
        self.config.checkers.builtin.push(name.into());
        self
    }

    /// Adds a checker that is a program: a shell command that speaks JSON lines. The
    /// [launcher](Self::launcher) starts it.
    #[must_use]
    pub fn checker_command(mut self, command: impl Into<String>) -> Self {
        self.config.checkers.commands.push(command.into());
        self
    }

    /// Sets the launcher of checkers' programs. The default is `beamgen-launcher`, next to the
    /// program of this process or on the search path ([`Launcher::installed`]).
    #[must_use]
    pub fn launcher(mut self, launcher: Launcher) -> Self {
        self.own.launcher = launcher;
        self
    }

    /// Sets the rule that combines the scores of several judges; the default is the minimum.
    #[must_use]
    pub fn combine(mut self, rule: Combine) -> Self {
        self.config.models.combine = rule;
        self
    }

    /// Sets the API key of the servers that run the generator ([`ModelsConfig::generator_server`]). It
    /// wins over the key file of the settings.
    ///
    /// [`ModelsConfig::generator_server`]: crate::models::ModelsConfig::generator_server
    #[cfg(feature = "remote")]
    #[must_use]
    pub fn generator_key(mut self, key: beamgen_remote::ApiKey) -> Self {
        self.own.generator_key = Some(key);
        self
    }

    /// Sets the API key of the servers that run the reward model. It wins over the key file of the
    /// settings.
    #[cfg(feature = "remote")]
    #[must_use]
    pub fn prm_key(mut self, key: beamgen_remote::ApiKey) -> Self {
        self.own.prm_key = Some(key);
        self
    }

    /// Sets certificates that are trusted for servers, in addition to Mozilla's and the system's. A
    /// [hub](Self::hub) has its own setting for certificates.
    #[cfg(feature = "remote")]
    #[must_use]
    pub fn certificates(mut self, certificates: beamgen_hub::Certificates) -> Self {
        self.own.certificates = certificates;
        self
    }

    /// Loads the scorer even if the settings need none: requests with other settings may use it.
    #[must_use]
    pub fn load_scorer(mut self) -> Self {
        self.own.load_scorer = true;
        self
    }

    /// Sets how answers are found in texts and compared, for problems other than mathematics.
    #[must_use]
    pub fn answers(mut self, answers: impl Answers + Send + 'static) -> Self {
        self.own.answers = Some(Box::new(answers));
        self
    }

    /// Returns the settings so far.
    pub fn current_config(&self) -> &Config {
        &self.config
    }

    /// Sets the hub for models that are not on this machine, named `ORG/NAME`. `observe` is called
    /// with the model and the progress of each download. Without a hub such names are an error.
    #[must_use]
    pub fn hub(
        mut self,
        hub: Hub,
        observe: impl FnMut(&str, beamgen_hub::Progress) + 'static,
    ) -> Self {
        let observe = Box::new(observe);
        self.finder.downloads = Some(Downloads { hub, observe });
        self
    }

    /// Finds the models, downloads what is missing, and checks everything that can be checked
    /// before a weight is read, the machine's memory included.
    ///
    /// # Errors
    /// Returns an error if a setting is invalid, if a model is not found, if its files do not agree,
    /// or if it does not fit into memory. The error names the file, field or tensor at fault.
    pub fn prepare(self) -> Result<Prepared, Error> {
        self.wanting(Wanted::Pair)
    }

    /// Prepares only the reward model, as [`prepare`](Self::prepare) does, to score given chains.
    ///
    /// # Errors
    /// Returns the errors of [`prepare`](Self::prepare).
    pub fn prepare_reward_model(self) -> Result<Prepared, Error> {
        self.wanting(Wanted::RewardModel)
    }

    fn wanting(self, wanted: Wanted) -> Result<Prepared, Error> {
        Prepared::new(self.config, wanted, self.own, self.finder)
    }

    /// Loads the models.
    ///
    /// # Errors
    /// Returns the errors of [`prepare`](Self::prepare) and [`Prepared::solver`].
    pub fn build(self) -> Result<Solver, Error> {
        self.prepare()?.solver()
    }
}
