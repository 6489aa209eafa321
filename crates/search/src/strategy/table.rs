//! The table of strategies: the meaning of each name in configurations, on the command line and in
//! help texts.

use std::fmt;
use std::hash::{Hash, Hasher};
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error as _};

use super::{Strategy, StrategyKind};
use crate::choose::Choose;
use crate::config::SearchConfig;
use crate::error::ConfigError;

/// A strategy's row in the table: the source for parsing, help, validation, the default
/// configuration and the table in the README.
#[derive(Debug)]
pub struct StrategySpec {
    /// The name in configurations, lower case with hyphens.
    pub name: &'static str,
    /// The strategy in a few words, for help texts.
    pub summary: &'static str,
    /// The source, as a label and an address; `None` for a method without a paper.
    pub paper: Option<(&'static str, &'static str)>,
    /// Whether the key `m` matters: the N chains of a round continue at most N/M chains.
    pub uses_m: bool,
    /// Whether the key `beam.copies` matters: chains hold slots.
    pub uses_copies: bool,
    /// Whether the strategy works in rounds under the default configuration
    /// ([`Strategy::in_rounds`]). Only strategies in rounds can decode steps speculatively.
    pub in_rounds: bool,
    /// Whether the strategy can reject chains in the middle of a step.
    pub rejects_early: bool,
    /// Whether new steps can be valued by rollouts before the strategy sees them.
    pub rolls_out: bool,
    /// Whether chains are independent samples, so that a vote can be decided before all have ended.
    pub samples_independently: bool,
    /// Whether the strategy takes the likeliest tokens, whatever the temperature.
    pub is_greedy: bool,
    /// The choice of the answer if the configuration does not set one.
    pub usual_choose: Choose,
    /// Returns the strategy or choice that cannot work without a scorer under these settings, in
    /// words.
    pub(crate) needs_scorer: fn(&SearchConfig) -> Option<&'static str>,
    /// Whether the strategy asks for scores if there is a scorer.
    pub(crate) uses_scores: fn(&SearchConfig) -> bool,
    /// Returns the largest number of chains of one problem.
    pub(crate) chains: fn(&SearchConfig) -> usize,
    /// Whether chains share their first steps. Otherwise each chain is sampled from its start.
    pub(crate) branches: bool,
    /// Returns the largest number of steps that are sampled for one problem, without rollouts of
    /// steps and without speculation.
    pub(crate) steps: fn(&SearchConfig) -> usize,
    /// Returns the largest number of these steps that begin a chain, and so may have a thought.
    pub(crate) first_steps: fn(&SearchConfig) -> usize,
    /// Names for this strategy with certain settings.
    pub(crate) presets: &'static [Preset],
    /// Makes the strategy for one problem.
    pub(crate) build: Build,
}

/// A constructor of strategies. The flag tells whether there is a scorer.
type Build = fn(&SearchConfig, bool) -> Box<dyn Strategy>;

impl StrategySpec {
    /// Makes a row with the usual values; a strategy overrides the fields in which it differs.
    pub(super) const fn new(name: &'static str, summary: &'static str, build: Build) -> Self {
        Self {
            name,
            summary,
            paper: None,
            uses_m: false,
            uses_copies: false,
            in_rounds: true,
            rejects_early: false,
            rolls_out: false,
            samples_independently: false,
            is_greedy: false,
            usual_choose: Choose::Best,
            needs_scorer: |config| Some(config.strategy.name()),
            uses_scores: |_| true,
            chains: |config| config.n,
            branches: true,
            steps: |config| config.n.saturating_mul(config.max_steps),
            first_steps: |config| config.n,
            presets: &[],
            build,
        }
    }
}

/// A name for a strategy together with settings, such as "majority".
#[derive(Debug, Clone, Copy)]
pub struct Preset {
    /// The name that replaces the strategy's name on the command line.
    pub name: &'static str,
    /// The strategy under these settings, in a few words.
    pub summary: &'static str,
    /// Applies the settings to a configuration whose strategy is set already.
    pub apply: fn(&mut SearchConfig),
}

impl StrategyKind {
    /// Returns the strategy's row in the table, which has its properties.
    pub fn spec(self) -> &'static StrategySpec {
        self.0
    }

    /// Returns the name used in configurations, such as `"best-of-n"`.
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

// The compiler may copy constants, so a row is identified by its name and not by its address.
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
        let known = Self::ALL.iter();
        let found = known.clone().find(|kind| kind.name() == name).copied();
        found.ok_or_else(|| ConfigError::unknown("strategy", name, known.map(|kind| kind.name())))
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

/// The name of a strategy, or of a [`Preset`] of a strategy.
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
    /// Iterates over the names of all strategies and their presets, in the order of help texts.
    pub fn all() -> impl Iterator<Item = Self> {
        StrategyKind::ALL.iter().flat_map(|&kind| {
            let presets = kind.spec().presets.iter().map(Some);
            std::iter::once(None)
                .chain(presets)
                .map(move |preset| Self { kind, preset })
        })
    }

    /// Returns the name as the user types it, lower case with hyphens.
    pub fn name(self) -> &'static str {
        self.preset.map_or(self.kind.name(), |preset| preset.name)
    }

    /// Returns the summary of the preset or, without one, of the strategy.
    pub fn summary(self) -> &'static str {
        let own = self.kind.spec().summary;
        self.preset.map_or(own, |preset| preset.summary)
    }

    /// Returns the default configuration with this strategy and preset.
    pub fn config(self) -> SearchConfig {
        let mut config = SearchConfig::default();
        self.apply(&mut config);
        config
    }

    /// Sets the strategy in a configuration, and the keys that the preset changes.
    pub fn apply(self, config: &mut SearchConfig) {
        config.strategy = self.kind;
        if let Some(preset) = self.preset {
            (preset.apply)(config);
        }
    }

    /// Returns the text for help: for each name a line, and below it a line with the summary.
    pub fn help() -> String {
        Self::all()
            .map(|named| format!("  {}\n      {}\n", named.name(), named.summary()))
            .collect()
    }

    /// Returns the names whose default configurations satisfy `is_such`, as a list in a sentence.
    pub fn list(is_such: impl Fn(&SearchConfig) -> bool) -> String {
        let names = Self::all().filter(|named| is_such(&named.config()));
        let mut names: Vec<&str> = names.map(Self::name).collect();
        let last = names.pop().unwrap_or("none");
        if names.is_empty() {
            return last.to_owned();
        }
        format!("{} and {last}", names.join(", "))
    }

    /// Returns, in a sentence, how each name chooses the answer by default.
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

    /// Returns a Markdown table with a row for each name.
    pub fn markdown() -> String {
        let rows: String = Self::all()
            .map(|named| {
                let paper = named.kind.spec().paper;
                // The paper belongs to the strategy, not to its presets.
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
