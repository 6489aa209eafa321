//! Builds a [`Solver`] from settings, and from parts that the caller supplies.

use std::path::Path;

use beamgen_hub::Hub;
use beamgen_launcher::Launcher;
use beamgen_search::{
    Answers, Combine, Generator, PerStep, Scorer, StepByStep, StepGenerator, StepScorer, Verifier,
};

use crate::own::{Identity, OwnJudge, OwnParts};
use crate::prepare::{Prepared, Wanted};
use crate::source::{Downloads, Finder};
use crate::{Config, Error, Pair, Solver};

impl Solver {
    /// Returns a builder for the bundled models and the default settings.
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
    /// Replaces all settings of this builder, including those of earlier calls.
    #[must_use]
    pub fn config(mut self, config: Config) -> Self {
        self.config = config;
        self
    }

    /// Applies settings from environment variables, which win over earlier calls.
    /// `BEAMGEN_CUDA_GRAPHS` turns CUDA graphs off (0) or on (1). With the feature `remote`, the
    /// keys of servers (`BEAMGEN_GENERATOR_KEY`, `BEAMGEN_PRM_KEY`) and trusted certificates are
    /// read, too. `lookup` returns a variable's value; programs pass `|name|
    /// std::env::var(name).ok()`.
    ///
    /// # Errors
    /// Returns [`Error::Key`] if `BEAMGEN_CUDA_GRAPHS` is neither 0 nor 1, and [`Error::Refused`]
    /// for an invalid API key.
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
            // A model without servers needs no key, so its variable is not read and cannot be an
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

    /// Replaces all settings of this builder by those of a pair, which is found by name or by the
    /// path of its TOML file ([`Pair::find`]). Later calls win over the pair's settings. The models
    /// of the bundled pairs are on a [hub](Self::hub).
    ///
    /// # Errors
    /// Returns the errors of [`Pair::find`].
    pub fn pair(mut self, name_or_path: &str) -> Result<Self, Error> {
        self.config = Pair::find(name_or_path)?.config()?;
        Ok(self)
    }

    /// Sets the generator: a folder in Hugging Face layout, a GGUF file, or the name `ORG/NAME` of
    /// a model on a [hub](Self::hub).
    #[must_use]
    pub fn generator(mut self, model: impl AsRef<Path>) -> Self {
        self.config.models.generator = Some(model.as_ref().to_owned());
        self
    }

    /// Sets the reward model: a folder, a GGUF file, or the name `ORG/NAME` of a model on a
    /// [hub](Self::hub). The model's format is recognised unless [`ModelsConfig::prm_format`] names
    /// one.
    ///
    /// [`ModelsConfig::prm_format`]: crate::models::ModelsConfig::prm_format
    #[must_use]
    pub fn prm(mut self, model: impl AsRef<Path>) -> Self {
        self.config.models.prm = Some(model.as_ref().to_owned());
        self
    }

    /// Sets the seed from which all random numbers of a search are derived.
    #[must_use]
    pub fn seed(mut self, seed: u64) -> Self {
        self.config.generator.seed = seed;
        self
    }

    /// Sets a generator of your own, which replaces the language model. Run files identify the
    /// generator by `name`, so the name should change when the generator's output changes.
    #[must_use]
    pub fn custom_generator(
        mut self,
        name: impl Into<String>,
        generator: impl Generator + Send + 'static,
    ) -> Self {
        self.own.generator = Some((Identity::Named(name.into()), Box::new(generator)));
        self
    }

    /// Sets a [`custom_generator`](Self::custom_generator) from a function, which reads the chain
    /// so far and returns the next step.
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

    /// Sets a scorer of your own, which replaces the reward model. Settings that need no scores do
    /// not use the scorer. Run files identify the scorer by `name`, so the name should change when
    /// the scores change.
    #[must_use]
    pub fn custom_scorer(
        mut self,
        name: impl Into<String>,
        scorer: impl Scorer + Send + 'static,
    ) -> Self {
        self.own.scorer = Some((Identity::Named(name.into()), Box::new(scorer)));
        self
    }

    /// Sets a [`custom_scorer`](Self::custom_scorer) from a function, which reads the chain so far
    /// and returns the probability that the last step is right.
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
    /// [`combine`](Self::combine) turns the scores of all judges into one. Under `name`, the tree
    /// has the judge's scores ([`Node::judges`](crate::strategy::Node::judges)) and the ledger its
    /// costs.
    #[must_use]
    pub fn judge(self, name: impl Into<String>, scorer: impl Scorer + Send + 'static) -> Self {
        self.own_judge(name.into(), Box::new(scorer), false)
    }

    /// Adds a [`judge`](Self::judge) that can only reject steps, whatever the rule. A step that the
    /// judge scores below 0.5 gets the score 0; other steps keep the score of the other judges.
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

    /// Adds a built-in checker as a vetoing judge, by its name in
    /// [`CHECKERS`](crate::checkers::CHECKERS). A step that the checker proves wrong gets the score
    /// 0, and so do all later steps of the chain. For a checker of your own, use
    /// [`vetoing_judge`](Self::vetoing_judge) with a
    /// [`CheckerScorer`](crate::checkers::CheckerScorer).
    #[must_use]
    pub fn checker(mut self, name: impl Into<String>) -> Self {
        self.config.checkers.builtin.push(name.into());
        self
    }

    /// Adds a checker that is a program: a shell command that reads and writes JSON lines. The
    /// [launcher](Self::launcher) starts the command.
    #[must_use]
    pub fn checker_command(mut self, command: impl Into<String>) -> Self {
        self.config.checkers.commands.push(command.into());
        self
    }

    /// Sets the verifier that judges finished chains: `math`, or a shell command that reads and
    /// writes JSON lines. The [launcher](Self::launcher) starts the command.
    #[must_use]
    pub fn verifier(mut self, run: impl Into<String>) -> Self {
        self.config.verifier.run = run.into();
        self
    }

    /// Sets a verifier of your own. Run files identify it by `name`, so the name should change when
    /// its outcomes change. A problem may still name one of the settings' verifiers.
    #[must_use]
    pub fn custom_verifier(
        mut self,
        name: impl Into<String>,
        verifier: impl Verifier + Send + 'static,
    ) -> Self {
        self.own.verifier = Some((name.into(), Box::new(verifier)));
        self
    }

    /// Sets the launcher of programs of checkers and verifiers. The default is `beamgen-launcher`, next to the
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

    /// Sets the API key for the servers of the generator ([`ModelsConfig::generator_server`]), in
    /// place of the key file that the settings name.
    ///
    /// [`ModelsConfig::generator_server`]: crate::models::ModelsConfig::generator_server
    #[cfg(feature = "remote")]
    #[must_use]
    pub fn generator_key(mut self, key: beamgen_remote::ApiKey) -> Self {
        self.own.generator_key = Some(key);
        self
    }

    /// Sets the API key for the servers of the reward model, in place of the key file that the
    /// settings name.
    #[cfg(feature = "remote")]
    #[must_use]
    pub fn prm_key(mut self, key: beamgen_remote::ApiKey) -> Self {
        self.own.prm_key = Some(key);
        self
    }

    /// Sets certificates to trust for servers, besides Mozilla's and the system's. Certificates for
    /// a [hub](Self::hub) are set in the hub's own configuration.
    #[cfg(feature = "remote")]
    #[must_use]
    pub fn certificates(mut self, certificates: beamgen_hub::Certificates) -> Self {
        self.own.certificates = certificates;
        self
    }

    /// Loads the scorer even if the settings need no scores, for requests whose own settings need
    /// them.
    #[must_use]
    pub fn load_scorer(mut self) -> Self {
        self.own.load_scorer = true;
        self
    }

    /// Sets the rules that find answers in texts and compare them. The default rules are for
    /// mathematics.
    #[must_use]
    pub fn answers(mut self, answers: impl Answers + Send + 'static) -> Self {
        self.own.answers = Some(Box::new(answers));
        self
    }

    /// Returns the settings of all calls so far.
    pub fn current_config(&self) -> &Config {
        &self.config
    }

    /// Sets the hub for models that are named `ORG/NAME` and are not on this machine. `observe`
    /// gets the model's name and the progress of each download. Without a hub, a model that is not
    /// on this machine is an error.
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

    /// Finds the models, downloads the missing ones, and checks everything that can be checked
    /// before weights are read, including the free memory.
    ///
    /// # Errors
    /// Returns an error if a setting is invalid, if a model is not found or its files contradict
    /// each other, or if the models do not fit into memory. The error names the file, field or
    /// tensor.
    pub fn prepare(self) -> Result<Prepared, Error> {
        self.wanting(Wanted::Pair)
    }

    /// Prepares only the reward model, to score given chains without a generator.
    ///
    /// # Errors
    /// Returns the errors of [`prepare`](Self::prepare).
    pub fn prepare_reward_model(self) -> Result<Prepared, Error> {
        self.wanting(Wanted::RewardModel)
    }

    fn wanting(self, wanted: Wanted) -> Result<Prepared, Error> {
        Prepared::new(self.config, wanted, self.own, self.finder)
    }

    /// Prepares and loads the models.
    ///
    /// # Errors
    /// Returns the errors of [`prepare`](Self::prepare) and [`Prepared::solver`].
    pub fn build(self) -> Result<Solver, Error> {
        self.prepare()?.solver()
    }
}
