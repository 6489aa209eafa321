//! The table of strategies: what a name means, to a configuration, to the command line, in help.

use std::fmt;
use std::hash::{Hash, Hasher};
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error as _};

use super::{Strategy, StrategyKind};
use crate::choose::Choose;
use crate::config::SearchConfig;
use crate::error::ConfigError;

/// A strategy's row: all that is said of it anywhere. Parsing, help, validation, the default
/// configuration and the table of the README follow from it.
#[derive(Debug)]
pub struct StrategySpec {
    /// The name in configurations, lower case with hyphens.
    pub name: &'static str,
    /// The strategy in a few words.
    pub summary: &'static str,
    /// The source: a label and an address.
    pub paper: Option<(&'static str, &'static str)>,
    /// Whether M matters: N chains come from at most N/M.
    pub uses_m: bool,
    /// Whether it works in rounds, as [`Strategy::in_rounds`] of the strategy that is built by
    /// default. Only then steps can be written ahead.
    pub in_rounds: bool,
    /// Whether it can reject chains in the middle of a step.
    pub rejects_early: bool,
    /// Whether its chains are independent samples, so that a vote over them can be decided before
    /// all have come to their end.
    pub samples_independently: bool,
    /// Whether it takes the likeliest tokens, whatever the temperature.
    pub is_greedy: bool,
    /// The choice of the answer where the configuration has none.
    pub usual_choose: Choose,
    /// Returns the reason why a scorer is indispensable under these settings, if it is.
    pub(crate) needs_scorer: fn(&SearchConfig) -> Option<&'static str>,
    /// Whether scores are asked for, if there is a scorer.
    pub(crate) uses_scores: fn(&SearchConfig) -> bool,
    /// Returns the largest number of chains of one problem.
    pub(crate) chains: fn(&SearchConfig) -> usize,
    /// Names for this strategy under common settings.
    pub(crate) presets: &'static [Preset],
    /// Makes the strategy for one problem.
    pub(crate) build: Build,
}

/// Makes a fresh strategy of a configuration; the flag says whether there is a scorer.
type Build = fn(&SearchConfig, bool) -> Box<dyn Strategy>;

impl StrategySpec {
    /// A row with the usual value in each field that a strategy may change.
    pub(super) const fn new(name: &'static str, summary: &'static str, build: Build) -> Self {
        Self {
            name,
            summary,
            paper: None,
            uses_m: false,
            in_rounds: true,
            rejects_early: false,
            samples_independently: false,
            is_greedy: false,
            usual_choose: Choose::Best,
            needs_scorer: |config| Some(config.strategy.name()),
            uses_scores: |_| true,
            chains: |config| config.n,
            presets: &[],
            build,
        }
    }
}

/// A name for a strategy under common settings.
#[derive(Debug, Clone, Copy)]
pub struct Preset {
    /// Its name on the command line.
    pub name: &'static str,
    /// What it does, in a few words.
    pub summary: &'static str,
    /// Sets what the name says, beside the strategy.
    pub apply: fn(&mut SearchConfig),
}

impl StrategyKind {
    /// The row.
    pub fn spec(self) -> &'static StrategySpec {
        self.0
    }

    /// The name used in configuration, e.g. `"best-of-n"`.
    pub fn name(self) -> &'static str {
        self.0.name
    }
}

impl fmt::Debug for StrategyKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "StrategyKind({})", self.name())
    }
}

impl fmt::Display for StrategyKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl PartialEq for StrategyKind {
    fn eq(&self, other: &Self) -> bool {
        self.name() == other.name()
    }
}

impl Eq for StrategyKind {}

impl Hash for StrategyKind {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.name().hash(state);
    }
}

impl FromStr for StrategyKind {
    type Err = ConfigError;

    fn from_str(name: &str) -> Result<Self, ConfigError> {
        let find = |kind: &&Self| kind.name() == name;
        let known = || Self::ALL.iter().map(|kind| kind.name());
        Self::ALL
            .iter()
            .find(find)
            .copied()
            .ok_or_else(|| ConfigError::unknown("strategy", name, known()))
    }
}

impl Serialize for StrategyKind {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(self.name())
    }
}

impl<'de> Deserialize<'de> for StrategyKind {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let name = String::deserialize(from)?;
        name.parse().map_err(D::Error::custom)
    }
}

/// The name of a strategy or of a [`Preset`] of one.
///
/// ```
/// # use beamgen_search::StrategyName;
/// let beam: StrategyName = "beam".parse().unwrap();
/// assert!(StrategyName::help().contains(beam.summary()));
/// ```
#[derive(Debug, Clone, Copy)]
pub struct StrategyName {
    kind: StrategyKind,
    preset: Option<&'static Preset>,
}

impl StrategyName {
    /// The names of all strategies and of their presets, in the order of help.
    pub fn all() -> impl Iterator<Item = Self> {
        StrategyKind::ALL.iter().flat_map(|&kind| {
            let presets = kind.spec().presets.iter().map(Some);
            std::iter::once(None)
                .chain(presets)
                .map(move |preset| Self { kind, preset })
        })
    }

    /// The name as it is typed.
    pub fn name(self) -> &'static str {
        self.preset.map_or(self.kind.name(), |preset| preset.name)
    }

    /// The strategy or the preset in a few words.
    pub fn summary(self) -> &'static str {
        let own = self.kind.spec().summary;
        self.preset.map_or(own, |preset| preset.summary)
    }

    /// The default configuration with this name.
    pub fn config(self) -> SearchConfig {
        let mut config = SearchConfig::default();
        self.apply(&mut config);
        config
    }

    /// Sets the strategy, and the keys that a preset changes.
    pub fn apply(self, config: &mut SearchConfig) {
        config.strategy = self.kind;
        if let Some(preset) = self.preset {
            (preset.apply)(config);
        }
    }

    /// Two lines for each name, for a help text: the name, and below it the summary.
    pub fn help() -> String {
        Self::all()
            .map(|named| format!("  {}\n      {}\n", named.name(), named.summary()))
            .collect()
    }

    /// The names whose settings are such, as a list in a sentence.
    pub fn list(is_such: impl Fn(&SearchConfig) -> bool) -> String {
        let names = Self::all().filter(|named| is_such(&named.config()));
        let mut names: Vec<&str> = names.map(Self::name).collect();
        let last = names.pop().unwrap_or("none");
        if names.is_empty() {
            return last.to_owned();
        }
        format!("{} and {last}", names.join(", "))
    }

    /// The usual choice of the answer with each name, in a sentence.
    pub fn usual_choices() -> String {
        let usual = Choose::default();
        let others = Choose::ALL.iter().filter(|&&how| how != usual);
        let clauses: String = others
            .map(|how| {
                let names = Self::list(|config| config.choosing() == *how);
                format!("{how} for {names}; ")
            })
            .collect();
        format!("{clauses}{usual} for the others")
    }

    /// A Markdown table with a row for each name.
    pub fn markdown() -> String {
        let rows: String = Self::all()
            .map(|named| {
                let paper = named.kind.spec().paper;
                let paper = paper.filter(|_| named.preset.is_none());
                let paper = paper.map(|(label, url)| format!(" ([{label}]({url}))"));
                let (name, summary) = (named.name(), named.summary());
                format!("| `{name}` | {summary}{} |\n", paper.unwrap_or_default())
            })
            .collect();
        format!("| `--strategy` | what it does |\n|---|---|\n{rows}")
    }
}

impl FromStr for StrategyName {
    type Err = ConfigError;

    fn from_str(name: &str) -> Result<Self, ConfigError> {
        Self::all()
            .find(|named| named.name() == name)
            .ok_or_else(|| ConfigError::unknown("strategy", name, Self::all().map(Self::name)))
    }
}

impl PartialEq for StrategyName {
    fn eq(&self, other: &Self) -> bool {
        self.name() == other.name()
    }
}

impl Eq for StrategyName {}

impl From<StrategyKind> for StrategyName {
    fn from(kind: StrategyKind) -> Self {
        Self { kind, preset: None }
    }
}
