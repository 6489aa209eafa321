//! What is to be measured: problem sets, and cells (a run at one number of chains).

use std::path::Path;

use beamgen::eval::Problems;
use beamgen::{Choose, Config, ScorerKind, StrategyName};
use serde::{Deserialize, Serialize};

use super::file::BenchFile;
use super::{from_file, sets, share};
use crate::args::BenchArgs;
use crate::failure::Failure;
use crate::printable;
use crate::settings;

/// A bench, ready to be run.
pub struct Plan {
    pub outline: Outline,
    /// The problems of each set of the outline.
    pub problems: Vec<Problems>,
}

/// What a bench is, without the problems' texts: what a report needs besides the rows.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Outline {
    /// Seeds of each cell: the one in its settings and those after it.
    pub seeds: u64,
    pub sets: Vec<SetOutline>,
    pub cells: Vec<Cell>,
    /// The run that the others are held against.
    pub baseline: Option<String>,
    /// Cells, by index, whose accuracies are compared.
    pub compare: Vec<(usize, usize)>,
    /// Runs that are drawn together; none means all of them.
    pub plots: Vec<PlotOutline>,
}

/// A group of runs in plots of their own.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct PlotOutline {
    pub name: String,
    pub runs: Vec<String>,
}

/// A set of problems.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct SetOutline {
    pub name: String,
    /// The file, or the call that draws the problems.
    pub source: String,
    pub fingerprint: String,
    /// Ids of the problems to solve, in order.
    pub ids: Vec<String>,
}

/// A run at one number of chains.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Cell {
    pub run: String,
    pub config: Config,
}

impl Cell {
    /// N: chains per problem.
    pub fn n(&self) -> usize {
        self.config.search.chains()
    }

    /// The name people refer to it by, as `beam@16`.
    pub fn label(&self) -> String {
        format!("{}@{}", self.run, self.n())
    }
}

impl Outline {
    /// The runs' names, in order.
    pub fn runs(&self) -> Vec<&str> {
        let mut names: Vec<&str> = Vec::new();
        for cell in &self.cells {
            if !names.contains(&cell.run.as_str()) {
                names.push(&cell.run);
            }
        }
        names
    }

    pub fn find(&self, run: &str, n: usize) -> Option<usize> {
        self.cells
            .iter()
            .position(|cell| cell.run == run && cell.n() == n)
    }

    /// The first name of a set, run or plot that the report cannot show ([`is_fit_name`]).
    pub fn unfit_name(&self) -> Option<&str> {
        let sets = self.sets.iter().map(|set| set.name.as_str());
        let runs = self.cells.iter().map(|cell| cell.run.as_str());
        let plots = self.plots.iter().map(|plot| plot.name.as_str());
        sets.chain(runs)
            .chain(plots)
            .find(|name| !is_fit_name(name))
    }

    /// The first run that is plain best-of-N with a scorer's choice.
    pub fn first_best_of_n(&self) -> Option<String> {
        let is_best = |cell: &&Cell| {
            share::is_plain(&cell.config)
                && cell.config.search.choose == Choose::Best
                && cell.n() > 1
        };
        self.cells.iter().find(is_best).map(|cell| cell.run.clone())
    }
}

/// What is wrong with a name of a set, a run or a plot that tables, figures and the report's
/// Markdown could not show as it is.
pub const UNFIT_NAME: &str =
    "a name cannot have control characters, direction marks or any of < > | `";

/// Whether a name can stand in tables, figures and Markdown as it is.
pub fn is_fit_name(name: &str) -> bool {
    !name.contains(|c: char| printable::acts(c) || "\n\t<>|`".contains(c))
}

/// The plan that was asked for: by a bench file, or by flags.
pub fn plan(args: &BenchArgs) -> Result<Plan, Failure> {
    let file = match &args.settings.config {
        Some(path) => BenchFile::open(path)?,
        None => None,
    };
    let plan = match file {
        Some(file) => from_file::from_file(&file, args)?,
        None => from_flags(args)?,
    };
    for (problems, set) in plan.problems.iter().zip(&plan.outline.sets) {
        problems.require_answers(set.ids.len())?;
    }
    Ok(plan)
}

pub fn given_file(args: &BenchArgs) -> Option<&Path> {
    args.file.as_deref().or(args.problems.as_deref())
}

/// What is compared if nothing is named.
const DEFAULT_STRATEGIES: [&str; 4] = ["single", "majority", "best-of-n", "beam"];

fn from_flags(args: &BenchArgs) -> Result<Plan, Failure> {
    let seeds = args.seeds.unwrap_or(1);
    if seeds == 0 {
        return Err(Failure::Input(
            "--seeds 0 leaves nothing to measure: give at least 1".to_owned(),
        ));
    }
    let base = settings::config(&args.settings)?;
    let strategies = match args.strategies.as_slice() {
        [] => DEFAULT_STRATEGIES
            .iter()
            .map(|name| name.parse())
            .collect::<Result<Vec<StrategyName>, _>>()
            .map_err(beamgen::Error::from)?,
        given => given.to_vec(),
    };
    let scorers = match args.scorers.as_slice() {
        [] => &[ScorerKind::Prm],
        given => given,
    };
    let chains = match args.chains.as_slice() {
        [] => &[16],
        given => given,
    };
    let mut cells = Cells::default();
    for &strategy in &strategies {
        for &scorer in scorers {
            for &n in chains {
                let mut config = base.clone();
                config.search.n = n;
                settings::set_strategy(&mut config, strategy, None);
                config.models.scorer = scorer;
                unscored_unless_needed(&mut config);
                let scored = config.models.scorer != ScorerKind::None;
                let run = match scorers.len() > 1 && scored {
                    true => format!("{scorer} {}", strategy.name()),
                    false => strategy.name().to_owned(),
                };
                cells.add(run, config)?;
            }
        }
    }
    let (problems, count) = settings::problems(given_file(args), args.limit)?;
    let name = match given_file(args) {
        Some(path) => {
            let stem = path.file_stem().unwrap_or_default().to_string_lossy();
            stem.replace(|c: char| !is_fit_name(c.encode_utf8(&mut [0; 4])), "_")
        }
        None => "sample".to_owned(),
    };
    let mut outline = Outline {
        seeds,
        sets: vec![sets::outline(&name, &problems.source, &problems, count)],
        cells: cells.0,
        baseline: None,
        compare: Vec::new(),
        plots: Vec::new(),
    };
    outline.baseline = outline.first_best_of_n();
    Ok(Plan {
        outline,
        problems: vec![problems],
    })
}

/// What only samples or votes is not charged for scores that nobody asks for.
pub fn unscored_unless_needed(config: &mut Config) {
    if config.search.needs_scorer().is_none() {
        config.models.scorer = ScorerKind::None;
    }
}

/// Cells, each once.
#[derive(Default)]
pub struct Cells(pub Vec<Cell>);

impl Cells {
    pub fn add(&mut self, run: String, mut config: Config) -> Result<(), Failure> {
        // A beam narrower than M expands by what it has.
        config.search.m = config.search.m.min(config.search.n);
        config.check().map_err(|error| {
            Failure::Input(format!(
                "run \"{run}\" at n = {}: {}",
                config.search.n,
                Failure::from(error)
            ))
        })?;
        let cell = Cell { run, config };
        if !self.0.iter().any(|there| there.label() == cell.label()) {
            self.0.push(cell);
        }
        Ok(())
    }
}
