//! The outline of a bench: problem sets, and cells (a run at a number of chains).

use std::path::Path;

use beamgen::eval::Problems;
use beamgen::strategy::SearchConfig;
use beamgen::{Choose, Config, StrategyKind};
use serde::{Deserialize, Serialize};

use crate::printable;

/// The outline of a bench, without the texts of problems: everything that a report needs besides
/// the rows.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Outline {
    /// The number of seeds of each cell: the seed of its settings and those after it.
    pub seeds: u64,
    /// The sets of problems, each solved by every cell.
    pub sets: Vec<SetOutline>,
    /// The cells, each measured on each set.
    pub cells: Vec<Cell>,
    /// The run with which all other runs are compared.
    pub baseline: Option<String>,
    /// Pairs of cells, by index, whose accuracies are compared.
    pub compare: Vec<(usize, usize)>,
    /// Groups of runs with figures of their own; if empty, each figure has all runs.
    pub plots: Vec<PlotOutline>,
}

/// A group of runs with figures of its own.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct PlotOutline {
    /// The name of the group.
    pub name: String,
    /// The names of the runs.
    pub runs: Vec<String>,
}

/// A set of problems, identified by its fingerprint.
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
        // The name of a file may have characters that reports cannot show.
        let name = stem.replace(|c: char| !is_fit_name(c.encode_utf8(&mut [0; 4])), "_");
        Self::new(&name, &problems.source, problems, count)
    }
}

/// A run at one number of chains.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Cell {
    /// The name of the run.
    pub run: String,
    /// The settings of the run, with N.
    pub config: Config,
}

impl Cell {
    /// Returns N, the number of chains per problem.
    #[must_use]
    pub fn n(&self) -> usize {
        self.config.search.chains()
    }

    /// Returns the name of the cell in tables, such as `beam@16`.
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

/// Returns each name once, in the order of first occurrence.
pub(super) fn distinct<'a>(names: impl Iterator<Item = &'a str>) -> Vec<&'a str> {
    let mut seen = Vec::new();
    for name in names {
        if !seen.contains(&name) {
            seen.push(name);
        }
    }
    seen
}

/// The error text for a name of a set, run or plot that tables, figures or Markdown cannot show.
pub const UNFIT_NAME: &str =
    "a name cannot have control characters, direction marks or any of < > | `";

/// Whether tables, figures and Markdown can show a name unchanged.
#[must_use]
pub fn is_fit_name(name: &str) -> bool {
    !name.contains(|c: char| printable::acts(c) || "\n\t<>|`".contains(c))
}

/// Whether these settings only sample whole chains and choose among them: every search key besides
/// those of plain sampling is at its default.
pub(super) fn is_plain(config: &Config) -> bool {
    let neutral = SearchConfig::default();
    // Compared as a whole, so that a search with a new, unknown key is not considered plain.
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
