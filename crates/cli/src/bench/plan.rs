//! What is to be measured: problem sets, and cells (a run at one number of chains).

use std::collections::BTreeSet;
use std::path::Path;

use beamgen::eval::Problems;
use beamgen::{Choose, Config, ScorerKind};
use serde::{Deserialize, Serialize};
use toml::{Spanned, Table};

use super::file::{BenchFile, RunEntry, flag_name, merge};
use super::sets::{self, slug};
use super::share;
use crate::args::{BenchArgs, StrategyFlag};
use crate::failure::Failure;
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

    fn find(&self, run: &str, n: usize) -> Option<usize> {
        self.cells
            .iter()
            .position(|cell| cell.run == run && cell.n() == n)
    }

    /// The first run that is plain best-of-N with a scorer's choice.
    fn first_best_of_n(&self) -> Option<String> {
        let is_best = |cell: &&Cell| {
            share::is_plain(&cell.config)
                && cell.config.search.choose == Choose::Best
                && cell.n() > 1
        };
        self.cells.iter().find(is_best).map(|cell| cell.run.clone())
    }
}

/// The plan that was asked for: by a bench file, or by flags.
pub fn plan(args: &BenchArgs) -> Result<Plan, Failure> {
    let file = match &args.settings.config {
        Some(path) => BenchFile::open(path)?,
        None => None,
    };
    let plan = match file {
        Some(file) => from_file(&file, args)?,
        None => from_flags(args)?,
    };
    for (problems, set) in plan.problems.iter().zip(&plan.outline.sets) {
        problems.require_answers(set.ids.len())?;
    }
    Ok(plan)
}

fn given_file(args: &BenchArgs) -> Option<&Path> {
    args.file.as_deref().or(args.problems.as_deref())
}

fn from_flags(args: &BenchArgs) -> Result<Plan, Failure> {
    let seeds = args.seeds.unwrap_or(1);
    if seeds == 0 {
        return Err(Failure::Input(
            "--seeds 0 leaves nothing to measure: give at least 1".to_owned(),
        ));
    }
    let base = settings::config(&args.settings)?;
    let or = |given: &[StrategyFlag], default: &[StrategyFlag]| match given {
        [] => default.to_vec(),
        given => given.to_vec(),
    };
    use StrategyFlag::{Beam, BestOfN, Majority, Single};
    let strategies = or(&args.strategies, &[Single, Majority, BestOfN, Beam]);
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
                    true => format!("{scorer} {}", flag_name(strategy)),
                    false => flag_name(strategy),
                };
                cells.add(run, config)?;
            }
        }
    }
    let (problems, count) = settings::problems(given_file(args), args.limit)?;
    let name = match given_file(args) {
        Some(path) => path
            .file_stem()
            .unwrap_or_default()
            .to_string_lossy()
            .into_owned(),
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

fn from_file(file: &BenchFile, args: &BenchArgs) -> Result<Plan, Failure> {
    let clash = [
        ("--strategies", !args.strategies.is_empty()),
        ("--scorers", !args.scorers.is_empty()),
        ("--n", !args.chains.is_empty()),
        ("--seeds", args.seeds.is_some()),
        (
            "a problem file",
            given_file(args).is_some() && !file.sets.is_empty(),
        ),
    ];
    if let Some((what, _)) = clash.into_iter().find(|&(_, given)| given) {
        let reason = format!("is a bench of its own: leave {what} out, or change it there");
        return Err(file.whole(&reason));
    }
    if file.seeds == 0 {
        return Err(file.whole("seeds = 0 leaves nothing to measure: give at least 1"));
    }
    if file.runs.is_empty() {
        return Err(file.whole("no [[run]]: add one"));
    }
    let base = settings::with_flags(file.settings.clone(), &args.settings);
    let mut cells = Cells::default();
    let mut names = BTreeSet::new();
    for run in &file.runs {
        let name = run.name.get_ref();
        if name.trim().is_empty() || name.contains('@') || !names.insert(name) {
            let reason = format!("run \"{name}\": give it a name of its own, without an @");
            return Err(file.fault(&run.name, reason));
        }
        for config in configs(file, run, &base)? {
            cells
                .add(name.clone(), config)
                .map_err(|failure| file.fault(&run.name, failure))?;
        }
    }
    let (sets, problems) = sets::load(file, given_file(args), args.limit)?;
    let mut outline = Outline {
        seeds: file.seeds,
        sets,
        cells: cells.0,
        baseline: None,
        compare: Vec::new(),
        plots: Vec::new(),
    };
    outline.baseline = match &file.baseline {
        None => outline.first_best_of_n(),
        Some(name) if outline.runs().contains(&name.get_ref().as_str()) => {
            Some(name.get_ref().clone())
        }
        Some(name) => {
            let reason = format!("baseline \"{}\": no [[run]] has that name", name.get_ref());
            return Err(file.fault(name, reason));
        }
    };
    for entry in &file.compare {
        let pairs = pairs(&outline, file, &entry.a, &entry.b)?;
        outline.compare.extend(pairs);
    }
    for plot in &file.plots {
        let taken = outline
            .plots
            .iter()
            .any(|there| slug(&there.name) == slug(plot.name.get_ref()));
        if slug(plot.name.get_ref()).is_empty() || taken {
            return Err(file.fault(&plot.name, "plot: give it a name of its own"));
        }
        let unknown = plot
            .runs
            .iter()
            .find(|run| !outline.runs().contains(&run.get_ref().as_str()));
        if let Some(run) = unknown {
            let reason = format!("plot: no [[run]] has the name \"{}\"", run.get_ref());
            return Err(file.fault(run, reason));
        }
        outline.plots.push(PlotOutline {
            name: plot.name.get_ref().clone(),
            runs: plot.runs.iter().map(|run| run.get_ref().clone()).collect(),
        });
    }
    Ok(Plan { outline, problems })
}

/// The settings of a run at each of its numbers of chains.
fn configs(file: &BenchFile, run: &RunEntry<Table>, base: &Config) -> Result<Vec<Config>, Failure> {
    let fault = |reason: String| {
        file.fault(
            &run.name,
            format!("run \"{}\": {reason}", run.name.get_ref()),
        )
    };
    let own = |table: &str, key: &str| {
        let table = run.settings.get(table).and_then(toml::Value::as_table);
        table.is_some_and(|table| table.contains_key(key))
    };
    if !run.n.is_empty() && own("search", "n") {
        return Err(fault(
            "n and settings.search.n: give one of them".to_owned(),
        ));
    }
    if run.scorer.is_some() && own("models", "scorer") {
        return Err(fault(
            "scorer and settings.models.scorer: give one of them".to_owned(),
        ));
    }
    let chains = if run.n.is_empty() {
        vec![base.search.n]
    } else {
        run.n.clone()
    };
    let mut configs = Vec::new();
    for n in chains {
        let mut config = base.clone();
        config.search.n = n;
        if let Some(strategy) = run.strategy {
            settings::set_strategy(&mut config, strategy, None);
        }
        let mut table = Table::try_from(&config).map_err(|error| fault(error.to_string()))?;
        merge(&mut table, &run.settings);
        let mut config: Config = table
            .try_into()
            .map_err(|error: toml::de::Error| fault(error.message().to_owned()))?;
        match run.scorer {
            Some(scorer) => config.models.scorer = scorer,
            None => unscored_unless_needed(&mut config),
        }
        configs.push(config);
    }
    Ok(configs)
}

/// What only samples or votes is not charged for scores that nobody asks for.
fn unscored_unless_needed(config: &mut Config) {
    if config.search.needs_scorer().is_none() {
        config.models.scorer = ScorerKind::None;
    }
}

/// Cells, each once.
#[derive(Default)]
struct Cells(Vec<Cell>);

impl Cells {
    fn add(&mut self, run: String, mut config: Config) -> Result<(), Failure> {
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

/// The cells that `a` and `b` name: one each (`beam@16`), or all with the same number of chains.
fn pairs(
    outline: &Outline,
    file: &BenchFile,
    a: &Spanned<String>,
    b: &Spanned<String>,
) -> Result<Vec<(usize, usize)>, Failure> {
    let split = |name: &Spanned<String>| -> Result<(String, Option<usize>), Failure> {
        let text = name.get_ref();
        let (run, n) = match text.split_once('@') {
            Some((run, n)) => (run, n.parse().ok()),
            None => (text.as_str(), None),
        };
        let known = match n {
            Some(n) => outline.find(run, n).is_some(),
            None => !text.contains('@') && outline.runs().contains(&run),
        };
        match known {
            true => Ok((run.to_owned(), n)),
            false => Err(file.fault(
                name,
                format!("compare \"{text}\": no run has that name and n"),
            )),
        }
    };
    let ((run_a, n_a), (run_b, n_b)) = (split(a)?, split(b)?);
    let pair = |n_a, n_b| Some((outline.find(&run_a, n_a)?, outline.find(&run_b, n_b)?));
    let found: Vec<(usize, usize)> = match (n_a, n_b) {
        (Some(n_a), Some(n_b)) => pair(n_a, n_b).into_iter().collect(),
        (None, None) => {
            let of_a = outline.cells.iter().filter(|cell| cell.run == run_a);
            of_a.filter_map(|cell| pair(cell.n(), cell.n())).collect()
        }
        _ => {
            return Err(file.fault(a, "compare: give both an @N, or neither"));
        }
    };
    match found.is_empty() {
        true => Err(file.fault(a, "compare: the two runs have no n in common")),
        false => Ok(found),
    }
}
