//! Makes a plan from a bench file.

use std::collections::BTreeSet;

use beamgen::{Config, Pair};
use beamgen_measure::bench::{
    Cells, Outline, Plan, PlotOutline, UNFIT_NAME, is_fit_name, unscored_unless_needed,
};
use toml::{Spanned, Table};

use super::file::{BenchFile, RunEntry};
use super::{given_file, sets};
use crate::args::BenchArgs;
use crate::failure::Failure;
use crate::settings;

/// Makes the plan of a bench file. Flags that are settings apply to all runs of the file.
pub(super) fn from_file(file: &BenchFile, args: &BenchArgs) -> Result<Plan, Failure> {
    let clash = [
        ("--strategies", !args.strategies.is_empty()),
        ("--scorers", !args.scorers.is_empty()),
        ("--n", !args.chains.is_empty()),
        ("--seeds", args.seeds.is_some()),
        (
            "a problem file",
            given_file(args).is_some() && !file.written.sets.is_empty(),
        ),
    ];
    if let Some((what, _)) = clash.into_iter().find(|&(_, given)| given) {
        let reason = format!("is a bench file: leave {what} out, or change the file");
        return Err(file.whole(&reason));
    }
    if file.written.seeds == 0 {
        return Err(file.whole("seeds = 0 leaves nothing to measure: use at least 1"));
    }
    if file.written.runs.is_empty() {
        return Err(file.whole("the file has no [[run]]: add a [[run]] table"));
    }
    let given = &args.settings.given;
    let base = match given.text("pair") {
        None => file.settings.clone(),
        Some(pair) => Pair::find(pair)?.under(file.written.settings.clone(), given.path("prm"))?,
    };
    let base = settings::with_flags(base, &args.settings)?;
    let (mut cells, mut searches) = (Cells::default(), Vec::new());
    let mut names = BTreeSet::new();
    for run in &file.written.runs {
        let name = run.name.get_ref();
        if name.trim().is_empty() || name.contains('@') || !names.insert(name) {
            let reason = format!(
                "run \"{name}\": the name is empty, used twice or has an @: use another name"
            );
            return Err(file.fault(&run.name, reason));
        }
        if !is_fit_name(name) {
            return Err(file.fault(&run.name, format!("run \"{name}\": {UNFIT_NAME}")));
        }
        for mut config in configs(file, run, &base)? {
            // The copy is made while the run still has its scorer. A flag about scorers has no
            // effect only if no run was meant to have one.
            searches.push(config.clone());
            if run.scorer.is_none() {
                unscored_unless_needed(&mut config);
            }
            let added = cells.add(name.clone(), config).map_err(Failure::from);
            added.map_err(|failure| file.fault(&run.name, failure))?;
        }
    }
    settings::refuse_idle(&searches, given, "a run with scorer prm or orm")?;
    let offline = base.models.offline;
    let (sets, problems) = sets::load(file, given_file(args), &args.data, offline, args.limit)?;
    let mut outline = Outline {
        seeds: file.written.seeds,
        sets,
        cells: cells.0,
        baseline: None,
        compare: Vec::new(),
        plots: Vec::new(),
    };
    outline.baseline = match &file.written.baseline {
        None => outline.first_best_of_n(),
        Some(name) if outline.runs().contains(&name.get_ref().as_str()) => {
            Some(name.get_ref().clone())
        }
        Some(name) => {
            let reason = format!("baseline \"{}\": not the name of a [[run]]", name.get_ref());
            return Err(file.fault(name, reason));
        }
    };
    for entry in &file.written.compare {
        let pairs = pairs(&outline, file, &entry.a, &entry.b)?;
        outline.compare.extend(pairs);
    }
    for plot in &file.written.plots {
        let name = plot.name.get_ref();
        let others = outline.plots.iter().map(|there| &there.name);
        sets::check_name(name, others)
            .map_err(|reason| file.fault(&plot.name, format!("plot \"{name}\": {reason}")))?;
        let unknown = plot
            .runs
            .iter()
            .find(|run| !outline.runs().contains(&run.get_ref().as_str()));
        if let Some(run) = unknown {
            let reason = format!("plot: \"{}\" is not the name of a [[run]]", run.get_ref());
            return Err(file.fault(run, reason));
        }
        outline.plots.push(PlotOutline {
            name: name.clone(),
            runs: plot.runs.iter().map(|run| run.get_ref().clone()).collect(),
        });
    }
    Ok(Plan { outline, problems })
}

/// Returns one configuration for each number of chains of a run.
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
            "has both n and settings.search.n: leave one of them out".to_owned(),
        ));
    }
    if run.scorer.is_some() && own("models", "scorer") {
        return Err(fault(
            "has both scorer and settings.models.scorer: leave one of them out".to_owned(),
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
        // The order matters: the strategy's name wins over the settings of the file, and the run's
        // own settings win over what the name implies.
        config.search.n = n;
        if let Some(strategy) = run.strategy {
            strategy.apply(&mut config.search);
        }
        let mut table = Table::try_from(&config).map_err(|error| fault(error.to_string()))?;
        beamgen::program::lay_over(&mut table, &run.settings);
        let mut config: Config = table
            .try_into()
            .map_err(|error: toml::de::Error| fault(error.message().to_owned()))?;
        config.resolve_words();
        config.models.scorer = run.scorer.unwrap_or(config.models.scorer);
        configs.push(config);
    }
    Ok(configs)
}

/// Returns the pairs of cells to compare. `beam@16` and `dvts@16` are one pair; `beam` and `dvts`
/// give a pair for each number of chains that both have.
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
            // A name with @ but without a number after it is neither a run nor a cell.
            None => !text.contains('@') && outline.runs().contains(&run),
        };
        if known {
            Ok((run.to_owned(), n))
        } else {
            Err(file.fault(
                name,
                format!("compare \"{text}\": not the name of a [[run]], or of a run@N"),
            ))
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
            return Err(file.fault(
                a,
                "compare: only one of the two has an @N: give both an @N, or none",
            ));
        }
    };
    if found.is_empty() {
        Err(file.fault(
            a,
            "compare: the two runs have no n in common: add an n to one of them",
        ))
    } else {
        Ok(found)
    }
}
