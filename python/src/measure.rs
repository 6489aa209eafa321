//! Measurements with progress: how well a reward model finds wrong steps, and how strategies
//! compare.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use beamgen::Request;
use beamgen::checkers::Panel;
use beamgen::launcher::Launcher;
use beamgen::scorer::ScorerKind;
use beamgen::strategy::StrategyName;
use beamgen_labels::solutions;
use beamgen_measure::bench::{Host as _, Measurement, Outcome, Plan, SetOutline, crossed};
use beamgen_measure::eval_prm::{self, Outline, Partial, Report, Set, Summary};
use beamgen_measure::pool::{self, Pools, Ranked};
use beamgen_measure::{About, Error, scores};
use pyo3::prelude::*;
use serde::Serialize;
use serde_json::Value;

use crate::download::News;
use crate::engine;
use crate::errors::{self, InputError, RunError};
use crate::follow::{Follower, follow, json, problems, read, rule, take};
use crate::lock::lock;
use crate::reward_model::RewardModel;
use crate::wanted::{Base, Wanted};

/// A report, the scores of beginnings if they were asked for, and whether a problem is foreign to the
/// bundled model.
type Evaluated = Result<(Report, Option<Vec<Partial>>, bool), Error>;

/// The line of `beamgen eval-prm --json` and, if it was asked for, that of `--partial`.
#[derive(Serialize)]
struct Line<'a> {
    #[serde(flatten)]
    summary: Option<&'a Summary<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    partial: Option<&'a Partial>,
}

/// Measures the reward model, or the one of the settings `wanted`, on the chains or on those of a
/// file. Returns the line of `beamgen eval-prm --json`, the figures of `results.json`, and whether a
/// problem is foreign to the bundled model.
#[pyfunction]
pub(crate) fn evaluate_prm(
    py: Python<'_>,
    keywords: &str,
    chains: Option<String>,
    model: Option<&RewardModel>,
    wanted: &str,
    download: Option<Py<PyAny>>,
    progress: Option<Py<PyAny>>,
) -> PyResult<(String, String, bool)> {
    let (keywords, wanted) = (read(keywords)?, Wanted::read(wanted)?);
    let rule = rule(&keywords)?;
    let threshold: f32 = take(&keywords, "wrong_below")?;
    if !(0.0..=1.0).contains(&threshold) {
        return Err(InputError::new_err(format!(
            "wrong_below = {threshold}: not a score: use a number from 0 to 1"
        )));
    }
    let (file, limit): (Option<PathBuf>, _) = (take(&keywords, "data")?, take(&keywords, "limit")?);
    let folder: Option<PathBuf> = take(&keywords, "report")?;
    let (probes, call): (bool, String) = (take(&keywords, "probes")?, take(&keywords, "call")?);
    let partial: bool = take(&keywords, "partial")?;
    let model = model.cloned();
    let work = move |follower: &mut Follower<Evaluated>| -> Evaluated {
        let sets = match chains {
            None => eval_prm::open(file.as_slice(), limit, &rule)?,
            Some(chains) => {
                let labelled = beamgen_labels::parse(chains.as_bytes(), "data", None)?;
                vec![Set::new("data".to_owned(), labelled, limit, &rule)?]
            }
        };
        for left_out in sets.iter().filter_map(|set| set.left_out.clone()) {
            follower.news(News::Warning(left_out));
        }
        let config = match &model {
            Some(model) => model.config.clone(),
            None => RewardModel::config(&wanted)?,
        };
        let aggregation = probes.then_some(config.search.aggregation);
        let outlines = sets.iter().map(|set| set.outline.clone()).collect();
        let outline = Outline::new(&config, None, threshold, rule, aggregation, outlines)?;
        if let Some(folder) = &folder {
            eval_prm::create(folder)?;
        }
        let model = match model {
            Some(model) => model,
            None => RewardModel::load(config, follower.tell.clone())?,
        };
        let mut problems = sets.iter().flat_map(|set| &set.chains);
        follower.is_foreign = problems.any(|chain| model.is_foreign(&chain.problem));
        let beginnings = if partial {
            let mut model = lock(&model.model);
            Some(eval_prm::partial(&mut **model, &sets, follower)?)
        } else {
            None
        };
        let rows = eval_prm::score(&mut **lock(&model.model), sets, probes, follower)?;
        let about = About::now(env!("CARGO_PKG_VERSION"), "unknown", call);
        let report = match &folder {
            Some(folder) => eval_prm::write(folder, &about, &outline, rows)?,
            None => eval_prm::report(outline, rows),
        };
        Ok((report, beginnings, follower.is_foreign))
    };
    let (report, beginnings, is_foreign) =
        follow(py, Launcher::installed(), [download, progress], work)?;
    if !report.has_scores() {
        let line = "the reward model could not read any of the chains";
        return Err(RunError::new_err(line));
    }
    let details = report.details().into_iter().next();
    let summaries = report.summaries();
    let line = Line {
        summary: summaries.first(),
        partial: beginnings.iter().flatten().next(),
    };
    Ok((json(&line)?, json(&details)?, is_foreign))
}

/// The outcome of a bench, and whether a problem is foreign to a bundled model.
type Benched = Result<(Outcome, bool), Error>;

/// Solves the problems, those of a file or the bundled sample under every strategy. Returns the
/// lines of `beamgen bench --json`, the raw rows, what each aggregation chooses, and whether a problem
/// is foreign to a bundled model.
#[pyfunction]
pub(crate) fn bench(
    py: Python<'_>,
    keywords: &str,
    lines: Option<String>,
    wanted: &str,
    launcher: Vec<OsString>,
    download: Option<Py<PyAny>>,
    progress: Option<Py<PyAny>>,
) -> PyResult<(String, String, String, bool)> {
    let (keywords, wanted) = (read(keywords)?, Wanted::read(wanted)?);
    let strategies: Vec<String> = take(&keywords, "strategies")?;
    let strategies = strategies.iter().map(|name| name.parse());
    let strategies: Vec<StrategyName> = strategies
        .collect::<Result<_, _>>()
        .map_err(|error| errors::from_library(&beamgen::Error::from(error)))?;
    let (scorers, chains): (Vec<_>, Vec<usize>) =
        (take(&keywords, "scorers")?, take(&keywords, "n")?);
    let (seeds, limit): (u64, Option<usize>) =
        (take(&keywords, "seeds")?, take(&keywords, "limit")?);
    if seeds == 0 || limit == Some(0) {
        let name = if seeds == 0 { "seeds" } else { "limit" };
        let line = format!("{name} = 0 leaves nothing to measure: give at least 1");
        return Err(InputError::new_err(line));
    }
    let (file, folder): (Option<PathBuf>, Option<PathBuf>) =
        (take(&keywords, "problems")?, take(&keywords, "out")?);
    let (resume, call): (bool, String) = (take(&keywords, "resume")?, take(&keywords, "call")?);
    let work = move |follower: &mut Follower<Benched>| -> Benched {
        let base = Base::of(&wanted, false)?.config;
        // Problems that are no file's are a set of their own name.
        let name = lines.as_ref().map(|_| Path::new("problems"));
        let (problems, count) = problems(file.as_deref(), lines, limit)?;
        let set = SetOutline::of_file(file.as_deref().or(name), &problems, count);
        let searches = crossed(&base, &strategies, &scorers, &chains)?;
        let plan = Plan::of(searches, seeds, set, problems)?;
        plan.check()?;
        let about = About::now(env!("CARGO_PKG_VERSION"), "unknown", call);
        let cancel = follower.cancel.clone();
        let measurement = Measurement::new(&plan, follower)?;
        let folder = folder.as_deref();
        let outcome = measurement.measure(folder, resume, &about, follower, &cancel)?;
        Ok((outcome, follower.is_foreign))
    };
    let launcher = engine::launcher(&launcher);
    let (outcome, is_foreign) = follow(py, launcher, [download, progress], work)?;
    Ok((
        json(&outcome.summaries)?,
        json(&outcome.rows)?,
        json(&outcome.aggregated)?,
        is_foreign,
    ))
}

/// Estimates the cost of solving the problems, those of a file or the bundled sample. Returns the object of `beamgen
/// solve --plan --json`, and whether a problem is foreign to a bundled model.
#[pyfunction]
pub(crate) fn plan(
    py: Python<'_>,
    keywords: &str,
    lines: Option<String>,
    wanted: &str,
    launcher: Vec<OsString>,
    download: Option<Py<PyAny>>,
) -> PyResult<(String, bool)> {
    let (keywords, wanted) = (read(keywords)?, Wanted::read(wanted)?);
    let file: Option<PathBuf> = take(&keywords, "problems")?;
    let limit: Option<usize> = take(&keywords, "limit")?;
    let work = move |follower: &mut Follower<Result<(Value, bool), Error>>| {
        let config = Base::of(&wanted, false)?.config;
        let (problems, count) = problems(file.as_deref(), lines, limit)?;
        let mut solver = follower.load(config, &[(&problems, count)])?;
        let settings = solver.settings();
        let most = solver.most(settings.clone());
        let mut request = |at: usize| Request::new(problems.problems[at].clone(), settings.clone());
        let forecast = solver.forecast(count, most, &mut request, &follower.cancel)?;
        let mut plan = serde_json::json!(forecast);
        plan["memory"] = solver.memory_plan().most().into();
        Ok((plan, follower.is_foreign))
    };
    let launcher = engine::launcher(&launcher);
    let (plan, is_foreign) = follow(py, launcher, [download, None], work)?;
    Ok((plan.to_string(), is_foreign))
}

/// The table of a pool, and whether a problem is foreign to the bundled model.
type Reranked = Result<(Vec<Ranked>, bool), Error>;

/// Chooses among the solutions, or those of a file. Returns the lines of `beamgen bench --pool
/// --json`, and whether a problem is foreign to the bundled model.
#[pyfunction]
pub(crate) fn rerank(
    py: Python<'_>,
    keywords: &str,
    lines: Option<String>,
    wanted: &str,
    launcher: Vec<OsString>,
    download: Option<Py<PyAny>>,
    progress: Option<Py<PyAny>>,
) -> PyResult<(String, bool)> {
    let (keywords, wanted) = (read(keywords)?, Wanted::read(wanted)?);
    let kinds: Vec<ScorerKind> = take(&keywords, "scorers")?;
    let (file, limit): (Option<PathBuf>, Option<usize>) =
        (take(&keywords, "pool")?, take(&keywords, "limit")?);
    if limit == Some(0) {
        let line = "limit = 0 leaves nothing to measure: give at least 1";
        return Err(InputError::new_err(line));
    }
    let (folder, call): (Option<PathBuf>, String) =
        (take(&keywords, "out")?, take(&keywords, "call")?);
    let work = move |follower: &mut Follower<Reranked>| -> Reranked {
        let base = Base::of(&wanted, false)?.config;
        let mut pools = match lines {
            None => Pools::open(file.as_slice(), limit, &base)?,
            Some(lines) => {
                let pool = solutions::parse(lines.as_bytes(), "pool", limit)?;
                Pools::of(vec![("pool".to_owned(), pool)], &base)?
            }
        };
        if let Some(folder) = &folder {
            pool::create(folder)?;
        }
        for (name, config, at_end) in pool::scorers(&base, &kinds) {
            let model_name = scores::scorer(&config);
            let model = RewardModel::load(config, follower.tell.clone())?;
            follower.is_foreign |= pools.problems().any(|text| model.is_foreign(text));
            let model = &mut **lock(&model.model);
            pools.score(&name, (model, &model_name), at_end, follower)?;
        }
        if !base.checkers.is_empty() {
            let mut panel = Panel::default();
            for (name, checker) in base.checkers.open(&follower.launcher)? {
                panel.add(name, checker);
            }
            pools.check(&mut panel, follower)?;
        }
        let about = About::now(env!("CARGO_PKG_VERSION"), "unknown", call);
        let report = match &folder {
            Some(folder) => pools.write(folder, &about)?,
            None => pools.report(),
        };
        Ok((report.table, follower.is_foreign))
    };
    let launcher = engine::launcher(&launcher);
    let (table, is_foreign) = follow(py, launcher, [download, progress], work)?;
    Ok((json(&table)?, is_foreign))
}

/// Compares the answers of run files with those of a reference. Returns the object of `beamgen
/// monitor --json`, and the names of the rows that have drifted.
#[pyfunction]
pub(crate) fn monitor(
    py: Python<'_>,
    reference: PathBuf,
    runs: Vec<PathBuf>,
) -> PyResult<(String, Vec<&'static str>)> {
    let report = py.detach(|| beamgen_measure::monitor::Report::read(&reference, &runs));
    let report = report.map_err(errors::from_measurement)?;
    Ok((json(&report)?, report.alarms().collect()))
}
