//! The outline of a bench: sets of problems, and cells. A cell is a run at one number of chains.

use std::path::Path;

use beamgen::eval::Problems;
use beamgen::strategy::SearchConfig;
use beamgen::{Choose, Config, StrategyKind};
use serde::{Deserialize, Serialize};

use crate::printable;

/// The description of a bench without the texts of problems. A report is computed from the outline and the rows only.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Outline {
    /// The number of seeds of each cell, which are consecutive and start at the seed of its settings.
    pub seeds: u64,
    /// The sets of problems. Every cell solves every set.
    pub sets: Vec<SetOutline>,
    /// The cells, in the order of tables and figures. Every cell is measured on every set.
    pub cells: Vec<Cell>,
    /// The name of the run with which all others are compared; `None` for no comparison.
    pub baseline: Option<String>,
    /// The pairs of cells to compare, as indices into `cells`.
    pub compare: Vec<(usize, usize)>,
    /// The groups of runs that get their own figures. Without groups, every figure shows all runs.
    pub plots: Vec<PlotOutline>,
}

/// A group of runs that are shown together in figures.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct PlotOutline {
    /// The name of the group.
    pub name: String,
    /// The names of the runs.
    pub runs: Vec<String>,
}

/// A set of problems: its name, its origin and the ids of its problems.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct SetOutline {
    /// The name of the set.
    pub name: String,
    /// The file, or the call that makes the problems.
    pub source: String,
    /// The fingerprint of the problems.
    pub fingerprint: String,
    /// The ids of the problems to solve, in order.
    pub ids: Vec<String>,
}

impl SetOutline {
    /// Returns the set of the first `count` problems.
    #[must_use]
    pub fn new(name: &str, source: &str, problems: &Problems, count: usize) -> Self {
        let ids = problems.problems[..count].iter();
        Self {
            name: name.to_owned(),
            source: source.to_owned(),
            fingerprint: problems.fingerprint(),
            ids: ids.map(|problem| problem.id.clone()).collect(),
        }
    }

    /// Returns the set of the first `count` problems of a file, or of the bundled sample.
    #[must_use]
    pub fn of_file(path: Option<&Path>, problems: &Problems, count: usize) -> Self {
        let stem = path.map_or("sample".into(), |path| {
            path.file_stem().unwrap_or_default().to_string_lossy()
        });
        // A file name may contain characters that reports cannot show.
        let name = stem.replace(|c: char| !is_fit_name(c.encode_utf8(&mut [0; 4])), "_");
        Self::new(&name, &problems.source, problems, count)
    }
}

/// A run at one number of chains.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Cell {
    /// The name of the run.
    pub run: String,
    /// The settings of the run at this N.
    pub config: Config,
}

impl Cell {
    /// Returns N, which some strategies fix whatever the settings say.
    #[must_use]
    pub fn n(&self) -> usize {
        self.config.search.chains()
    }

    /// Returns the name of the cell in tables, for example `beam@16`.
    #[must_use]
    pub fn label(&self) -> String {
        format!("{}@{}", self.run, self.n())
    }
}

impl Outline {
    /// Returns the runs' names, in order.
    #[must_use]
    pub fn runs(&self) -> Vec<&str> {
        distinct(self.cells.iter().map(|cell| cell.run.as_str()))
    }

    /// Returns the index of the cell of a run at a number of chains.
    #[must_use]
    pub fn find(&self, run: &str, n: usize) -> Option<usize> {
        self.cells
            .iter()
            .position(|cell| cell.run == run && cell.n() == n)
    }

    /// Returns the first name of a set, run or plot that the report cannot show ([`is_fit_name`]).
    #[must_use]
    pub fn unfit_name(&self) -> Option<&str> {
        let sets = self.sets.iter().map(|set| set.name.as_str());
        let runs = self.cells.iter().map(|cell| cell.run.as_str());
        let plots = self.plots.iter().map(|plot| plot.name.as_str());
        sets.chain(runs)
            .chain(plots)
            .find(|name| !is_fit_name(name))
    }

    /// Returns the first run that is plain best-of-N with a scorer's choice.
    #[must_use]
    pub fn first_best_of_n(&self) -> Option<String> {
        self.cells
            .iter()
            .find(|cell| {
                is_plain(&cell.config)
                    && cell.config.search.choosing() == Choose::Best
                    && cell.n() > 1
            })
            .map(|cell| cell.run.clone())
    }
}

/// Returns the names without repetitions, in the order of their first occurrence.
pub(super) fn distinct<'a>(names: impl Iterator<Item = &'a str>) -> Vec<&'a str> {
    let mut seen = Vec::new();
    for name in names {
        if !seen.contains(&name) {
            seen.push(name);
        }
    }
    seen
}

/// The message for a name of a set, run or plot that cannot be shown in tables, figures or Markdown.
pub const UNFIT_NAME: &str =
    "a name cannot have control characters, direction marks or any of < > | `";

/// Returns whether tables, figures and Markdown can show `name` unchanged.
#[must_use]
pub fn is_fit_name(name: &str) -> bool {
    !name.contains(|c: char| printable::acts(c) || "\n\t<>|`".contains(c))
}

/// Returns whether the settings only sample whole chains and choose among them. Every search key that this does not
/// need must have its default.
pub(super) fn is_plain(config: &Config) -> bool {
    let neutral = SearchConfig::default();
    // The comparison covers all keys, so a search with a key that this function does not know is not plain.
    let mut rest = config.search.clone();
    rest.strategy = neutral.strategy;
    rest.n = neutral.n;
    rest.m = neutral.m;
    rest.aggregation = neutral.aggregation;
    rest.choose = neutral.choose;
    rest.max_steps = neutral.max_steps;
    rest.in_flight = neutral.in_flight;
    config.search.strategy == StrategyKind::BEST_OF_N && rest == neutral
}
