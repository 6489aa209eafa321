//! All settings of a run, in the layout of a TOML file.

use std::path::{Path, PathBuf};

use beamgen_engine::{ComputeType, EngineConfig, Precision, WeightType};
use beamgen_search::{Aggregation, Combine, ConfigError, GeneratorConfig, SearchConfig, Settings};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use strum::{Display, EnumString, IntoStaticStr, VariantNames};
use toml::{Table, Value};

use crate::calibrated::ScoreAs;
use crate::checkers_config::CheckersConfig;
use crate::judge_config::{JudgeConfig, is_word};
use crate::pair_header::Header;
use crate::server_config::ServerConfig;
use crate::verifier_config::VerifierConfig;
use crate::{Error, bundled};

/// The settings of a [`Solver`](crate::Solver). Every key has a default; unknown keys are refused.
///
/// The files in `configs/search/` are such settings; `default.toml` there shows every key.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Config {
    /// Generator, scorer and judges, and the use of scores.
    pub models: ModelsConfig,
    /// The strategy, its number of chains, and its limits.
    pub search: SearchConfig,
    /// The recognition of steps and answers, their limits, sampling, and the seed.
    pub generator: GeneratorConfig,
    /// Device, memory and threads. `kv_bytes` limits the KV caches of all models together.
    pub engine: EngineConfig,
    /// Checkers that veto steps.
    pub checkers: CheckersConfig,
    /// Verifiers, which decide whether a finished chain is right.
    pub verifier: VerifierConfig,
}

/// The content of a settings file: all of [`Config`], and the table `[pair]` if the file is a
/// pair's.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct SettingsFile {
    pub(crate) pair: Option<Header>,
    #[serde(default)]
    pub(crate) models: ModelsConfig,
    #[serde(default)]
    search: SearchConfig,
    #[serde(default)]
    generator: GeneratorConfig,
    #[serde(default)]
    engine: EngineConfig,
    #[serde(default)]
    checkers: CheckersConfig,
    #[serde(default)]
    verifier: VerifierConfig,
}

pub(crate) fn read(path: &Path) -> Result<String, Error> {
    // The error of the TOML parser would only name the first character of a JSON file.
    if path.extension().is_some_and(|end| end == "json") {
        return Err(Error::ConfigFile {
            path: path.to_owned(),
            line: 1,
            reason: "is a JSON file by its name: give a TOML file".to_owned(),
        });
    }
    beamgen_files::read_text_file(path, MAX_BYTES).map_err(Error::unreadable(path))
}

/// Parses the text of a settings file. An error names the line.
pub(crate) fn parse<T: DeserializeOwned>(text: &str, path: &Path) -> Result<T, Error> {
    toml::from_str(text).map_err(|error| {
        let before = error
            .span()
            .map_or("", |span| text.get(..span.start).unwrap_or(""));
        Error::ConfigFile {
            path: path.to_owned(),
            line: before.matches('\n').count() + 1,
            reason: error.message().replace('\n', " "),
        }
    })
}

/// The models, the judges, and the rules that combine and calibrate their scores.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ModelsConfig {
    /// The generator: a folder in Hugging Face layout, a GGUF file, or `ORG/NAME[@REVISION]` of a
    /// hub. Absent: the bundled generator.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub generator: Option<PathBuf>,
    /// The model whose tokenizer and chat template the generator uses, named as for `generator`.
    /// Absent: its own.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tokenizer: Option<PathBuf>,
    /// The reward model: a folder, a GGUF file, or a name on a hub. Absent: the bundled model of
    /// the kind in `scorer`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub prm: Option<PathBuf>,
    /// The format of the reward model: the name of a file in `configs/prm/`, or a TOML file in that
    /// form. Absent or `auto`: the model's own `prm.toml`, or the format that the checkpoint
    /// suggests.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub prm_format: Option<String>,
    /// The model whose tokenizer and chat template the reward model uses. Absent: its own.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub prm_tokenizer: Option<PathBuf>,
    /// The reference model of an implicit reward model, whose scores are log-ratios of the two
    /// models' probabilities.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub prm_reference: Option<PathBuf>,
    /// The servers that run the generator, instead of this process.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub generator_server: Option<ServerConfig>,
    /// The servers that run the reward model, instead of this process.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub prm_server: Option<ServerConfig>,
    /// The number type of weights in memory. int8 also quantises activations.
    pub dtype: WeightType,
    /// The arithmetic of matrices whose weights are floats.
    pub compute: ComputeType,
    /// Whether hub models are taken from the local cache only, without network access.
    pub offline: bool,
    /// The scorer whose scores rank the chains.
    pub scorer: ScorerKind,
    /// The number of steps after which the scorer `exact` notices a wrong step. With a delay only a
    /// search over several different chains recovers from a wrong step.
    #[serde(skip_serializing_if = "is_default")]
    pub exact_delay: usize,
    /// The file of the reward model's calibration. Absent: `calibration.json` in the model's folder
    /// or next to its file, or the bundled calibration for the bundled model.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub calibration: Option<PathBuf>,
    /// The kind of score that steps get from a reward model with a calibration.
    pub score_as: ScoreAs,
    /// The accepted share of wrong answers among returned answers, from 0 to 1. Answers that score
    /// below the calibration's threshold for this share are withheld; 0 withholds none.
    pub max_error: f32,
    /// The rule that turns the scores of the scorer and the judges into one score.
    #[serde(skip_serializing_if = "is_default")]
    pub combine: Combine,
    /// Judges that score steps in addition to the scorer.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub judges: Vec<JudgeConfig>,
}

impl ModelsConfig {
    /// Whether finding the models may need a hub. A model or the base of an adapter may be missing
    /// on this machine, or a server may name a hub's model, whose tokenizer is then needed.
    pub fn may_need_hub(&self) -> bool {
        let judges = self.judges.iter();
        let judges = judges.flat_map(|judge| judge.model().into_iter().chain(&judge.reference));
        let mut named = [&self.generator, &self.prm, &self.prm_reference]
            .into_iter()
            .flatten()
            .chain(judges);
        let own = self.judges.iter().map(|judge| &judge.tokenizer);
        let mut tokenizers = [&self.tokenizer, &self.prm_tokenizer]
            .into_iter()
            .chain(own)
            .flatten();
        self.names_servers()
            || named.any(|name| !crate::source::is_here(name))
            || tokenizers.any(|name| !name.exists())
    }

    /// Returns the number types of all models' matrices.
    pub(crate) fn precision(&self) -> Precision {
        Precision {
            weights: self.dtype,
            compute: self.compute,
        }
    }

    /// Whether servers run one of the models.
    pub(crate) fn names_servers(&self) -> bool {
        let judges = self.judges.iter().any(|judge| judge.server.is_some());
        self.generator_server.is_some() || self.prm_server.is_some() || judges
    }
}

fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

/// The kind of scorer whose scores rank the chains.
#[derive(
    Clone,
    Copy,
    PartialEq,
    Eq,
    Debug,
    Default,
    Serialize,
    Deserialize,
    Display,
    EnumString,
    IntoStaticStr,
    VariantNames,
)]
#[serde(rename_all = "kebab-case")]
#[strum(
    serialize_all = "kebab-case",
    parse_err_ty = ConfigError,
    parse_err_fn = ScorerKind::unknown
)]
pub enum ScorerKind {
    /// The process reward model: trained on the label of every step.
    #[default]
    Prm,
    /// The outcome reward model: the same body, trained on the outcome of whole chains.
    Orm,
    /// The exact checker of the bundled world ([`ExactScorer`](crate::scorer::ExactScorer)): the
    /// ceiling for any model.
    Exact,
    /// No scorer. Allowed only for strategies that need no scores.
    None,
}

impl ScorerKind {
    /// Returns the kind's name in settings and output.
    pub fn name(self) -> &'static str {
        self.into()
    }

    fn unknown(name: &str) -> ConfigError {
        ConfigError::Unknown {
            field: "scorer",
            value: name.to_owned(),
            known: Self::VARIANTS.join(", "),
        }
    }
}

/// The maximum size of a settings file, in bytes.
const MAX_BYTES: u64 = 1 << 20;

impl Config {
    /// Reads settings from a TOML file, which must be a regular file of at most 1 MiB. The file may
    /// be a [`Pair`](crate::Pair)'s; then its table `[pair]` is ignored.
    ///
    /// # Errors
    /// Returns an error with file and line if the file cannot be read, is not valid TOML, or has an
    /// unknown key or a value of the wrong type.
    pub fn load(path: &Path) -> Result<Self, Error> {
        let file: SettingsFile = parse(&read(path)?, path)?;
        Ok(Self {
            models: file.models,
            search: file.search,
            generator: file.generator,
            engine: file.engine,
            checkers: file.checkers,
            verifier: file.verifier,
        })
    }

    /// Reads a TOML file but returns only the keys that the file sets, to merge them into the
    /// settings of a [`Pair`](crate::Pair).
    ///
    /// # Errors
    /// Returns the errors of [`load`](Self::load).
    pub fn load_table(path: &Path) -> Result<Table, Error> {
        let text = read(path)?;
        // A table accepts every key and value, so the text is also parsed as settings, to find
        // errors.
        let _: SettingsFile = parse(&text, path)?;
        let mut table: Table = parse(&text, path)?;
        table.remove("pair");
        Ok(table)
    }

    /// Checks all settings, before any model is loaded.
    ///
    /// # Errors
    /// Returns an error that names the invalid setting and its allowed values.
    pub fn check(&self) -> Result<(), Error> {
        self.check_beside(false, false)
    }

    /// Checks the settings. If `own_judges` or `own_verifier`, the caller has added judges or a
    /// verifier that the settings do not name, so they may be missing in the settings.
    pub(crate) fn check_beside(&self, own_judges: bool, own_verifier: bool) -> Result<(), Error> {
        self.search.validate()?;
        let words = "a share from 0 to 1";
        ConfigError::check_range("max_error", self.models.max_error, 0.0..=1.0, words)?;
        if !(self.has_scorer() || own_judges)
            && let Some(what) = self.search.needs_scorer()
        {
            return Err(ConfigError::NeedsScorer { what }.into());
        }
        if self.search.uses_outcomes() && !self.verifier.has_open() && !own_verifier {
            let name = self.verifier.run.clone();
            return Err(ConfigError::NeedsOpenVerifier { name }.into());
        }
        self.generator.validate()?;
        self.engine.validate()?;
        self.models.precision().check()?;
        self.checkers.check()?;
        self.verifier.check()?;
        self.check_addresses()
    }

    /// Checks the addresses of all servers, even of those that no search uses. Reports contain the
    /// settings, so an address must not contain a password.
    #[cfg(feature = "remote")]
    fn check_addresses(&self) -> Result<(), Error> {
        let models = &self.models;
        let judges = models.judges.iter().map(|judge| &judge.server);
        let servers = [&models.generator_server, &models.prm_server];
        for server in servers.into_iter().chain(judges).flatten() {
            for url in &server.urls {
                beamgen_remote::Address::parse(url)?;
            }
        }
        Ok(())
    }

    #[cfg(not(feature = "remote"))]
    fn check_addresses(&self) -> Result<(), Error> {
        Ok(())
    }

    /// Whether the settings name any scorer, judge or vetoing checker.
    fn has_scorer(&self) -> bool {
        let has_judges = !self.models.judges.is_empty() || !self.checkers.is_empty();
        self.models.scorer != ScorerKind::None || has_judges
    }

    /// Whether a search with these settings uses scores. A plain majority vote does not.
    pub fn uses_scorer(&self) -> bool {
        self.has_scorer() && self.search.uses_scores()
    }

    /// Returns the scorer and each judge as a triple: the name in results, settings in which it is
    /// the only scorer, and whether it scores whole chains only.
    pub fn each_scorer(&self) -> Vec<(String, Self, bool)> {
        let mut alone = self.clone();
        alone.models.judges.clear();
        let kind = self.models.scorer;
        let mut all = Vec::new();
        if kind != ScorerKind::None {
            all.push((
                kind.name().to_owned(),
                alone.clone(),
                kind == ScorerKind::Orm,
            ));
        }
        for judge in &self.models.judges {
            let names: Vec<String> = all.iter().map(|(name, ..)| name.clone()).collect();
            let config = alone.judged_by(judge);
            all.push((judge.name_beside(&names), config, judge.judges_ends()));
        }
        all
    }

    /// Returns these settings with `judge` as the only scorer.
    pub(crate) fn judged_by(&self, judge: &JudgeConfig) -> Self {
        let mut config = self.clone();
        let models = &mut config.models;
        let words = [("orm", ScorerKind::Orm), ("exact", ScorerKind::Exact)];
        let word = words.into_iter().find(|(word, _)| judge.is(word));
        models.scorer = word.map_or(ScorerKind::Prm, |(_, kind)| kind);
        models.prm = judge.model().cloned();
        // A judge that lacks a format, reference, tokenizer or server must not inherit the scorer's.
        models.prm_format.clone_from(&judge.format);
        models.prm_reference.clone_from(&judge.reference);
        models.prm_tokenizer = judge.tokenizer.clone();
        models.prm_server.clone_from(&judge.server);
        models.judges.clear();
        config
    }

    /// Whether the bundled reward model would score a generator with another tokenizer. The bundled
    /// reward model knows only the bundled problems, so its scores would mean nothing. A generator
    /// that was trained from the bundled one shares its tokenizer, and is accepted.
    pub fn is_bundled_scorer_foreign(&self) -> bool {
        let models = &self.models;
        let other_model = models.generator.as_deref();
        let other_generator = models.generator_server.is_some()
            || other_model.is_some_and(|model| !bundled::shares_tokenizer(model));
        let bundled_scorer = models.prm.is_none() && models.prm_server.is_none();
        let is_model = matches!(models.scorer, ScorerKind::Prm | ScorerKind::Orm);
        let bundled_judge = models.judges.iter().any(JudgeConfig::is_bundled_model);
        other_generator && ((bundled_scorer && is_model) || bundled_judge)
    }

    /// Replaces the reserved model names `bundled` and `none` by the settings that they stand for.
    pub fn resolve_words(&mut self) {
        let models = &mut self.models;
        if is_word(models.prm.as_deref(), "none") {
            models.prm = None;
            models.scorer = ScorerKind::None;
        }
        for model in [&mut models.generator, &mut models.prm] {
            if is_word(model.as_deref(), "bundled") {
                *model = None;
            }
        }
    }

    /// Returns the settings that requests may change for themselves.
    pub fn settings(&self) -> Settings {
        Settings {
            search: self.search.clone(),
            generator: self.generator.clone(),
        }
    }

    /// Returns the settings with the changes of [`Defaults::resolve`].
    pub(crate) fn resolved(mut self) -> Self {
        let defaults = Defaults::of(&self);
        let settings = defaults.resolve(self.settings());
        self.search = settings.search;
        self.generator = settings.generator;
        self
    }
}

/// Merges tables: values in `over` replace those in `under`. Tables in both are merged recursively.
pub fn lay_over(under: &mut Table, over: &Table) {
    for (key, value) in over {
        match (under.get_mut(key), value) {
            (Some(Value::Table(under)), Value::Table(over)) => lay_over(under, over),
            _ => {
                under.insert(key.clone(), value.clone());
            }
        }
    }
}

/// The facts about a solver that change the effective settings of its requests.
#[derive(Clone, Copy)]
pub(crate) struct Defaults {
    /// Whether each score rates the whole chain so far, as with an outcome model or with a quantile
    /// of the probability of success.
    scores_chains: bool,
}

impl Defaults {
    pub(crate) fn of(config: &Config) -> Self {
        Self {
            scores_chains: config.models.scorer == ScorerKind::Orm
                || matches!(config.models.score_as, ScoreAs::Median | ScoreAs::Lower),
        }
    }

    /// Returns the effective settings of a request. Greedy decoding always has temperature 0. If
    /// scores rate the whole chain so far, the aggregation is the last score.
    pub(crate) fn resolve(self, mut settings: Settings) -> Settings {
        settings.generator = settings.effective_generator().into_owned();
        if self.scores_chains {
            settings.search.aggregation = Aggregation::Last;
        }
        settings
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_are_laid_over_others_key_by_key() {
        let mut base: Table = "a = 1\n[t]\nx = 1\ny = 2".parse().unwrap();
        lay_over(&mut base, &"t.y = 3\n[u]\nz = 4".parse().unwrap());
        assert_eq!(
            base,
            "a = 1\n[t]\nx = 1\ny = 3\n[u]\nz = 4".parse().unwrap()
        );
    }

    #[test]
    fn a_hub_is_needed_for_what_is_not_here() {
        let needs = |set: fn(&mut ModelsConfig)| {
            let mut models = ModelsConfig::default();
            set(&mut models);
            models.may_need_hub()
        };
        assert!(!needs(|_| ()));
        assert!(!needs(|models| models.generator = Some(".".into())));
        assert!(!needs(|models| models.judges = vec![
            JudgeConfig::new("prm"),
            JudgeConfig::new("exact"),
            JudgeConfig::new("."),
        ]));
        assert!(needs(|models| models.generator = Some("org/name".into())));
        assert!(needs(
            |models| models.judges = vec![JudgeConfig::new("org/name")]
        ));
        assert!(needs(|models| {
            let mut judge = JudgeConfig::new(".");
            judge.reference = Some("https://hf.co/org/name".into());
            models.judges = vec![judge];
        }));
    }
}
