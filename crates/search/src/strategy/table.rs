//! The table of strategies: what a name means, to a configuration, to the command line, in help.

use std::fmt;
use std::hash::{Hash, Hasher};
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error as _};

use super::{KeysSpec, Strategy, StrategyKind};
use crate::choose::Choose;
use crate::config::SearchConfig;
use crate::error::ConfigError;

/// A strategy's row: all that is said of it anywhere. Parsing, help, validation, the default
/// configuration and the table of the README follow from it.
pub trait StrategySpec: Sync {
    /// The name in configurations, lower case with hyphens.
    fn name(&self) -> &'static str;

    /// What it does, in a few words.
    fn summary(&self) -> &'static str;

    /// Where it comes from: a label and an address.
    fn paper(&self) -> Option<(&'static str, &'static str)> {
        None
    }

    /// Its own keys, if it has some.
    fn keys(&self) -> Option<KeysSpec> {
        None
    }

    /// Whether M matters: N chains come from at most N/M.
    fn uses_m(&self) -> bool {
        false
    }

    /// Whether it works in rounds, as [`Strategy::in_rounds`] of what is built by default. Only
    /// then steps can be written ahead.
    fn in_rounds(&self) -> bool {
        true
    }

    /// Whether it can reject chains in the middle of a step.
    fn rejects_early(&self) -> bool {
        false
    }

    /// Whether its chains are independent samples, so that a vote over them can be decided before
    /// all have come to their end.
    fn samples_independently(&self) -> bool {
        false
    }

    /// Whether it takes the likeliest tokens, whatever the temperature.
    fn is_greedy(&self) -> bool {
        false
    }

    /// How the answer is chosen if nothing is said of that.
    fn usual_choose(&self) -> Choose {
        Choose::Best
    }

    /// What a scorer is indispensable for under these settings, if it is.
    fn needs_scorer(&self, config: &SearchConfig) -> Option<&'static str> {
        let _ = config;
        Some(self.name())
    }

    /// Whether scores are asked for, if there is a scorer.
    fn uses_scores(&self, config: &SearchConfig) -> bool {
        let _ = config;
        true
    }

    /// Most chains of one problem.
    fn chains(&self, config: &SearchConfig) -> usize {
        config.n
    }

    /// Names for this strategy under common settings.
    fn presets(&self) -> &'static [Preset] {
        &[]
    }

    /// A fresh strategy for one problem. `has_scorer` says whether there is one.
    ///
    /// # Errors
    /// The settings are none that it can work with.
    fn build(
        &self,
        config: &SearchConfig,
        has_scorer: bool,
    ) -> Result<Box<dyn Strategy>, ConfigError>;
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
    /// A strategy by its row; also one that no table has.
    pub const fn of(row: &'static dyn StrategySpec) -> Self {
        Self(row)
    }

    /// The row.
    pub fn spec(self) -> &'static dyn StrategySpec {
        self.0
    }

    /// The name used in configuration, e.g. `"best-of-n"`.
    pub fn name(self) -> &'static str {
        self.0.name()
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
        Strategies::builtin().find(name)
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

/// The strategies that can be named.
///
/// ```
/// # use beamgen_search::Strategies;
/// let all = Strategies::builtin();
/// let beam = all.find("beam").unwrap();
/// assert!(all.help().contains(beam.spec().summary()));
/// ```
#[derive(Debug, Clone)]
pub struct Strategies(Vec<StrategyKind>);

impl Strategies {
    /// Those of this crate.
    pub fn builtin() -> Self {
        Self(StrategyKind::ALL.to_vec())
    }

    /// These and another one. It takes the place of one that has its name.
    #[must_use]
    pub fn with(mut self, row: &'static dyn StrategySpec) -> Self {
        let new = StrategyKind::of(row);
        match self.0.iter_mut().find(|kind| **kind == new) {
            Some(old) => *old = new,
            None => self.0.push(new),
        }
        self
    }

    /// All of them, in order.
    pub fn iter(&self) -> impl Iterator<Item = StrategyKind> {
        self.0.iter().copied()
    }

    /// The strategy of a name.
    ///
    /// # Errors
    /// There is none; the error lists those that there are.
    pub fn find(&self, name: &str) -> Result<StrategyKind, ConfigError> {
        self.iter()
            .find(|kind| kind.name() == name)
            .ok_or_else(|| ConfigError::unknown("strategy", name, self.iter().map(|k| k.name())))
    }

    /// A strategy or a preset of one by its name.
    ///
    /// # Errors
    /// There is none; the error lists those that there are.
    pub fn find_named(&self, name: &str) -> Result<StrategyName, ConfigError> {
        self.names()
            .find(|named| named.name() == name)
            .ok_or_else(|| ConfigError::unknown("strategy", name, self.names().map(|n| n.name())))
    }

    /// The names of all strategies and of their presets, in order.
    pub fn names(&self) -> impl Iterator<Item = StrategyName> {
        self.iter().flat_map(|kind| {
            let name = move |preset| StrategyName { kind, preset };
            let presets = kind.spec().presets().iter();
            std::iter::once(name(None)).chain(presets.map(move |preset| name(Some(preset))))
        })
    }

    /// Two lines for each name, for a help text: the name, and below it what it does.
    pub fn help(&self) -> String {
        let entry =
            |named: StrategyName| format!("  {}\n      {}\n", named.name(), named.summary());
        self.names().map(entry).collect()
    }

    /// The names whose settings are such, as a list in a sentence.
    pub fn list(&self, is_such: impl Fn(&SearchConfig) -> bool) -> String {
        let names = self.names().filter(|named| is_such(&named.config()));
        let mut names: Vec<&str> = names.map(StrategyName::name).collect();
        let last = names.pop().unwrap_or("none");
        match names.is_empty() {
            true => last.to_owned(),
            false => format!("{} and {last}", names.join(", ")),
        }
    }

    /// How the answer is usually chosen with each name, in a sentence.
    pub fn usual_choices(&self) -> String {
        let usual = Choose::default();
        let others = Choose::ALL.iter().filter(|&&how| how != usual);
        let clause = |how: &Choose| {
            let names = self.list(|config| config.choosing() == *how);
            format!("{how} for {names}; ")
        };
        let clauses: String = others.map(clause).collect();
        format!("{clauses}{usual} for the others")
    }

    /// A Markdown table with a row for each name.
    pub fn markdown(&self) -> String {
        let row = |named: StrategyName| {
            let paper = named.kind.spec().paper();
            let paper = paper.filter(|_| named.preset.is_none());
            let paper = paper.map(|(label, url)| format!(" ([{label}]({url}))"));
            let (name, summary) = (named.name(), named.summary());
            format!("| `{name}` | {summary}{} |\n", paper.unwrap_or_default())
        };
        let rows: String = self.names().map(row).collect();
        format!("| `--strategy` | what it does |\n|---|---|\n{rows}")
    }

    /// A configuration from a deserializer, with these strategies and their tables.
    ///
    /// # Errors
    /// A name or a key is unknown, or a value has another type.
    pub fn read_config<'de, D: Deserializer<'de>>(
        &self,
        from: D,
    ) -> Result<SearchConfig, D::Error> {
        crate::config::read(self, from)
    }
}

/// The name of a strategy or of a [`Preset`] of one.
#[derive(Debug, Clone, Copy)]
pub struct StrategyName {
    kind: StrategyKind,
    preset: Option<&'static Preset>,
}

impl StrategyName {
    /// As it is typed.
    pub fn name(self) -> &'static str {
        self.preset.map_or(self.kind.name(), |preset| preset.name)
    }

    /// What it does, in a few words.
    pub fn summary(self) -> &'static str {
        let own = || self.kind.spec().summary();
        self.preset.map_or_else(own, |preset| preset.summary)
    }

    /// The default configuration with this name.
    pub fn config(self) -> SearchConfig {
        let mut config = SearchConfig::default();
        self.apply(&mut config);
        config
    }

    /// Sets the strategy, and what else the name says.
    pub fn apply(self, config: &mut SearchConfig) {
        config.strategy = self.kind;
        if let Some(preset) = self.preset {
            (preset.apply)(config);
        }
    }
}

impl FromStr for StrategyName {
    type Err = ConfigError;

    fn from_str(name: &str) -> Result<Self, ConfigError> {
        Strategies::builtin().find_named(name)
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
