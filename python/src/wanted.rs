//! The settings that a Python caller asks for, and the configuration that results from them.

use std::path::{Path, PathBuf};

use beamgen::generator::GeneratorConfig;
use beamgen::program::set_key;
use beamgen::settings::{put, put_all};
use beamgen::strategy::{ConfigError, StrategyName};
use beamgen::{Choose, Config, Error, Settings};
use pyo3::prelude::*;
use serde::Deserialize;
use toml::Value;

use crate::errors::{self, InputError};

/// The settings that the caller asks for. Within a list, later entries win over earlier ones.
#[derive(Clone, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Wanted {
    pair: Option<String>,
    config: Option<PathBuf>,
    /// The name of a strategy, or of a preset such as `majority`. The name implies settings, so it
    /// is applied after both lists.
    strategy: Option<String>,
    /// The rule that chooses the answer. It wins over the rule that the strategy's name implies.
    choose: Option<Choose>,
    /// Keys of a settings file, such as `search.mcts.exploration`, with their values.
    settings: Vec<(String, Value)>,
    /// Settings by their names in the table of settings. They win over the keys in `settings`.
    named: Vec<(String, Value)>,
}

impl Wanted {
    pub fn read(json: &str) -> PyResult<Self> {
        serde_json::from_str(json).map_err(|error| {
            let message = error.to_string();
            let reason = message.split(" at line ").next().unwrap_or(&message);
            InputError::new_err(format!("settings: {reason}"))
        })
    }
}

impl Wanted {
    /// Whether the caller gives a setting by its name in the table of settings.
    pub fn gives(&self, name: &str) -> bool {
        match name {
            "strategy" => self.strategy.is_some(),
            "choose" => self.choose.is_some(),
            _ => self.named.iter().any(|(given, _)| given == name),
        }
    }
}

/// The configuration of a solver, with the parts from which settings of requests are made.
pub struct Base {
    pub config: Config,
    /// The settings before the strategy's name was applied.
    plain: Settings,
    strategy: Option<StrategyName>,
    choose: Option<Choose>,
}

impl Base {
    /// Reads the settings. If `own_verifier`, the caller has a verifier that the settings do not name.
    pub fn of(wanted: &Wanted, own_verifier: bool) -> Result<Self, Error> {
        let mut all = wanted.settings.iter().chain(&wanted.named).rev();
        let prm = all.find(|(key, _)| key == "models.prm" || key == "prm");
        let prm = prm.and_then(|(_, prm)| prm.as_str()).map(Path::new);
        let mut config = Config::of(wanted.pair.as_deref(), wanted.config.as_deref(), prm)?;
        for (key, value) in &wanted.settings {
            config = set_key(&config, key, value.clone())?;
        }
        config = put_all(&config, &wanted.named)?;
        let mut base = Self {
            plain: config.settings(),
            strategy: strategy(wanted)?,
            choose: wanted.choose,
            config,
        };
        base.config.search = base.named(base.plain.clone(), &Wanted::default())?.search;
        match base.config.check() {
            // Whether the verifier is open is checked with each problem.
            Err(Error::Setting(ConfigError::NeedsOpenVerifier { .. })) if own_verifier => Ok(base),
            checked => checked.map(|()| base),
        }
    }

    /// Returns the settings of a request. `generator` has the solver's settings, completed from its
    /// checkpoint.
    pub fn of_request(
        &self,
        wanted: &Wanted,
        generator: &beamgen::generator::GeneratorConfig,
    ) -> Result<Settings, Error> {
        let mut settings = Settings {
            search: self.plain.search.clone(),
            generator: generator.clone(),
        };
        for (key, value) in &wanted.settings {
            settings = set_key(&settings, key, value.clone())?;
        }
        for (name, value) in &wanted.named {
            settings = put(&settings, name, value.clone())?;
        }
        self.named(settings, wanted)
    }

    /// Applies a strategy to settings, and then the rule that chooses the answer. Both are the
    /// request's, or else the solver's.
    fn named(&self, mut settings: Settings, wanted: &Wanted) -> Result<Settings, Error> {
        if let Some(strategy) = strategy(wanted)?.or(self.strategy) {
            strategy.apply(&mut settings.search);
        }
        let choose = wanted.choose.or(self.choose);
        settings.search.choose = choose.or(settings.search.choose);
        Ok(settings)
    }
}

fn strategy(wanted: &Wanted) -> Result<Option<StrategyName>, Error> {
    let name = wanted.strategy.as_deref();
    Ok(name.map(str::parse).transpose()?)
}

/// The settings of a loaded solver.
pub struct Settled {
    pub base: Base,
    pub config: Config,
    pub generator: GeneratorConfig,
    pub has_bundled: bool,
}

impl Settled {
    /// Whether a model is bundled and does not know this kind of problem. The result then means
    /// nothing.
    pub fn is_foreign(&self, problem: &str) -> bool {
        self.has_bundled && !beamgen::bundled::knows(problem)
    }

    /// Returns the settings of a request, which are the solver's with the changes in `wanted`.
    pub fn request(&self, wanted: &Wanted) -> PyResult<Settings> {
        let settings = self.base.of_request(wanted, &self.generator);
        settings.map_err(|error| errors::from_library(&error))
    }
}
