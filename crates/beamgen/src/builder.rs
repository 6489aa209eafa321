//! From settings to a solver.

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
    /// A solver with the bundled models and the default settings, until told otherwise.
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
    /// All settings at once; what was set before is dropped.
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
    /// [`Error::Key`] if the switch is anything else, [`Error::Refused`] if a key cannot be one.
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

    /// Takes keys and certificates of servers from the environment.
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
            if let Some(value) = server.as_ref().and_then(|_| lookup(name)) {
                let given = beamgen_remote::ApiKey::new(&value);
                *key =
                    Some(given.map_err(|error| Error::Refused(format!("{name}: {error}").into()))?);
            }
        }
        self.own.certificates = beamgen_hub::Certificates::from_lookup(lookup);
        Ok(())
    }

    /// The models and settings of a pair, by its name or the path of its TOML file (see
    /// [`Pair::find`]); what was set before is dropped, what is set after this takes its place. The
    /// models of the pairs that every build knows come from a [hub](Self::hub).
    ///
    /// # Errors
    /// As [`Pair::find`].
    pub fn pair(mut self, name_or_path: &str) -> Result<Self, Error> {
        self.config = Pair::find(name_or_path)?.config()?;
        Ok(self)
    }

    /// The generator: a folder in Hugging Face layout, a GGUF file, or `ORG/NAME` of a
    /// [hub](Self::hub).
    #[must_use]
    pub fn generator(mut self, model: impl AsRef<Path>) -> Self {
        self.config.models.generator = Some(model.as_ref().to_owned());
        self
    }

    /// The reward model, likewise. How it is read is recognised, or [`ModelsConfig::prm_format`]
    /// says it.
    ///
    /// [`ModelsConfig::prm_format`]: crate::models::ModelsConfig::prm_format
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

    /// A generator of one's own, in place of a language model in our engine: a remote server, say.
    /// `name` stands for it in run files, so it should change when what it writes does.
    #[must_use]
    pub fn custom_generator(
        mut self,
        name: impl Into<String>,
        generator: impl Generator + Send + 'static,
    ) -> Self {
        self.own.generator = Some((Identity::Named(name.into()), Box::new(generator)));
        self
    }

    /// A [`custom_generator`](Self::custom_generator) of a function that looks at a chain and writes
    /// its next step.
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

    /// A scorer of one's own, in place of a reward model. With settings under which nothing is
    /// scored it is dropped. `name` stands for it in run files, so it should change when its scores
    /// do.
    #[must_use]
    pub fn custom_scorer(
        mut self,
        name: impl Into<String>,
        scorer: impl Scorer + Send + 'static,
    ) -> Self {
        self.own.scorer = Some((Identity::Named(name.into()), Box::new(scorer)));
        self
    }

    /// [`custom_scorer`](Self::custom_scorer) of a function that looks at a chain and says how likely its last
    /// step is right.
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

    /// A judge beside the scorer, after those of the settings. What they say of a step is combined
    /// as [`combine`](Self::combine) says; what each said is in the tree
    /// ([`Node::judges`](crate::strategy::Node::judges)), and what it read in the ledger, under `name`.
    #[must_use]
    pub fn judge(self, name: impl Into<String>, scorer: impl Scorer + Send + 'static) -> Self {
        self.own_judge(name.into(), Box::new(scorer), false)
    }

    /// A [`judge`](Self::judge) that can only fail steps, whatever the rule: one that it scores
    /// below 0.5 has the score 0, and what it passes or abstains on is left to the others.
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

    /// A built-in checker, by its name in [`CHECKERS`](crate::checkers::CHECKERS), as a judge that
    /// vetoes: a step that it proves wrong, and all after it, have the score 0. An own one is a
    /// [`vetoing_judge`](Self::vetoing_judge) of a [`CheckerScorer`](crate::checkers::CheckerScorer).
    #[must_use]
    pub fn checker(mut self, name: impl Into<String>) -> Self {
        self.config.checkers.builtin.push(name.into());
        self
    }

    /// A checker that is a program: a shell command that speaks JSON lines. A [launcher](Self::launcher)
    /// starts it.
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

    /// How the scores of several judges become one; the minimum, unless it is said.
    #[must_use]
    pub fn combine(mut self, rule: Combine) -> Self {
        self.config.models.combine = rule;
        self
    }

    /// The key of the servers that run the generator ([`ModelsConfig::generator_server`]); it wins
    /// over the settings' key file.
    ///
    /// [`ModelsConfig::generator_server`]: crate::models::ModelsConfig::generator_server
    #[cfg(feature = "remote")]
    #[must_use]
    pub fn generator_key(mut self, key: beamgen_remote::ApiKey) -> Self {
        self.own.generator_key = Some(key);
        self
    }

    /// The key of the servers that run the reward model, likewise.
    #[cfg(feature = "remote")]
    #[must_use]
    pub fn prm_key(mut self, key: beamgen_remote::ApiKey) -> Self {
        self.own.prm_key = Some(key);
        self
    }

    /// The certificates by which servers are trusted, besides Mozilla's and the system's. Those of a
    /// [hub](Self::hub) are its own setting.
    #[cfg(feature = "remote")]
    #[must_use]
    pub fn certificates(mut self, certificates: beamgen_hub::Certificates) -> Self {
        self.own.certificates = certificates;
        self
    }

    /// Loads the scorer even if the settings never ask it: requests with other settings may.
    #[must_use]
    pub fn load_scorer(mut self) -> Self {
        self.own.load_scorer = true;
        self
    }

    /// Where answers are and when two are the same, for problems other than mathematics.
    #[must_use]
    pub fn answers(mut self, answers: impl Answers + Send + 'static) -> Self {
        self.own.answers = Some(Box::new(answers));
        self
    }

    /// The settings so far.
    pub fn current_config(&self) -> &Config {
        &self.config
    }

    /// Where models come from whose names are not found on this machine: `ORG/NAME` of a hub.
    /// `observe` sees each download's model and progress. Without a hub such names are refused.
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

    fn wanting(self, wanted: Wanted) -> Result<Prepared, Error> {
        Prepared::new(self.config, wanted, self.own, self.finder)
    }

    /// Loads the models.
    ///
    /// # Errors
    /// As [`prepare`](Self::prepare), and [`Prepared::solver`].
    pub fn build(self) -> Result<Solver, Error> {
        self.prepare()?.solver()
    }
}
