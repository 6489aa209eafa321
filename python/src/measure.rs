//! Measurements with progress: how well a reward model finds wrong steps, and how strategies
//! compare.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::mpsc::Sender;

use beamgen::checkers::Panel;
use beamgen::eval::Problems;
use beamgen::launcher::Launcher;
use beamgen::scorer::{ScoreError, ScorerKind};
use beamgen::service::CancelToken;
use beamgen::strategy::StrategyName;
use beamgen::{Config, Solver};
use beamgen_labels::{LabelRule, solutions};
use beamgen_measure::bench::{Host, Measurement, Outcome, Plan, SetOutline, crossed};
use beamgen_measure::eval_prm::{self, Outline, Partial, Report, Set, Summary};
use beamgen_measure::pool::{self, Pools, Ranked};
use beamgen_measure::{About, Error, Watch, scores};
use pyo3::prelude::*;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::download::{self, News};
use crate::engine;
use crate::errors::{self, InputError, RunError};
use crate::load;
use crate::lock::lock;
use crate::reward_model::RewardModel;
use crate::wait::{self, Told};
use crate::wanted::{Base, Wanted};

/// Reports the progress of a measurement to the waiting Python thread. `T` is the type of the
/// measurement's result.
struct Follower<T> {
    tell: Sender<Told<News, T>>,
    cancel: CancelToken,
    done: usize,
    total: usize,
    launcher: Launcher,
    is_foreign: bool,
}

impl<T> Follower<T> {
    fn news(&self, news: News) {
        // Sending fails if the caller was interrupted and no longer waits.
        let _ = self.tell.send(Told::Note(news));
    }
}

impl<T> Watch for Follower<T> {
    fn begin(&mut self, total: usize, _unit: &'static str, _work: f64) {
        (self.done, self.total) = (0, total);
    }

    fn done(&mut self, _correct: Option<bool>) {
        self.done += 1;
        self.news(News::Progress(self.done, self.total));
    }

    fn refused(&mut self, chain: &str, reason: &ScoreError) {
        self.news(News::Warning(format!("chain {chain}: {reason}")));
    }

    fn is_cancelled(&self) -> bool {
        self.cancel.is_cancelled()
    }
}

impl<T: 'static> Host for Follower<T> {
    type Error = Error;

    fn load(&mut self, config: Config, sets: &[(&Problems, usize)]) -> Result<Solver, Error> {
        load::refuse_foreign(&config)?;
        let builder = load::builder(config)?.launcher(self.launcher.clone());
        let prepared = download::attach(builder, self.tell.clone())?.prepare()?;
        for &(problems, count) in sets {
            for (index, problem) in problems.problems[..count].iter().enumerate() {
                let fits = prepared.validate(problem);
                let fits = fits.map_err(|reason| problems.refused(index, reason.to_string()));
                fits.map_err(beamgen::Error::from)?;
                self.is_foreign |=
                    prepared.has_bundled() && !beamgen::bundled::knows(&problem.with_context());
            }
        }
        Ok(prepared.solver()?)
    }
}

/// Runs `work` on a thread of its own, and waits for the result. If the wait ends early, the
/// measurement is cancelled. `download` and `progress` are Python functions that get the progress.
fn follow<T: Send + 'static>(
    py: Python<'_>,
    launcher: Launcher,
    [download, progress]: [Option<Py<PyAny>>; 2],
    work: impl FnOnce(&mut Follower<Result<T, Error>>) -> Result<T, Error> + Send + 'static,
) -> PyResult<T> {
    let token = CancelToken::new();
    let cancel = token.clone();
    let work = move |tell| {
        work(&mut Follower {
            tell,
            cancel,
            done: 0,
            total: 0,
            launcher,
            is_foreign: false,
        })
    };
    let hear = |news| {
        let is_progress = matches!(news, News::Progress(..));
        let function = if is_progress { &progress } else { &download };
        download::hear(py, function.as_ref(), news)
    };
    let done = wait::run(py, work, hear).inspect_err(|_| token.cancel())?;
    done.map_err(errors::from_measurement)
}

/// Takes the value of a keyword argument from JSON. A missing argument counts as `null`.
fn take<T: DeserializeOwned>(keywords: &Value, name: &str) -> PyResult<T> {
    let value = serde_json::from_value(keywords[name].clone());
    value.map_err(|error| InputError::new_err(format!("{name}: {error}")))
}

fn read(keywords: &str) -> PyResult<Value> {
    serde_json::from_str(keywords).map_err(|error| InputError::new_err(error.to_string()))
}

fn json(value: &impl Serialize) -> PyResult<String> {
    serde_json::to_string(value).map_err(|error| RunError::new_err(error.to_string()))
}

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
    let rollouts: Option<String> = take(&keywords, "rollout_label")?;
    let rollouts = rollouts.map(|text| text.parse()).transpose();
    let sources: Option<Vec<String>> = take(&keywords, "rule")?;
    let sources = sources.into_iter().flatten().map(|text| text.parse());
    let rule = LabelRule {
        sources: sources
            .collect::<Result<_, String>>()
            .map_err(|advice| InputError::new_err(format!("rule: {advice}")))?,
        neutral: take::<Option<_>>(&keywords, "neutral")?.unwrap_or_default(),
        rollouts: rollouts
            .map_err(|advice: String| InputError::new_err(format!("rollout_label: {advice}")))?
            .unwrap_or_default(),
        first_error_only: take(&keywords, "first_error_only")?,
        agree: take(&keywords, "agree")?,
    };
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
        let problems = match (&file, lines) {
            (Some(path), _) => Problems::open(path),
            (None, Some(lines)) => Problems::read(lines.as_bytes(), "problems"),
            (None, None) => beamgen::bundled::sample(),
        };
        let problems = problems.map_err(beamgen::Error::from)?;
        let count = problems.problems.len();
        let count = limit.unwrap_or(count).min(count);
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
