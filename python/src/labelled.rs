//! Labelled chains: made by rollouts, checked by checkers, and what a calibration is fitted to.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::ops::ControlFlow;
use std::path::PathBuf;

use beamgen::checkers::{CHECKERS, Panel};
use beamgen::eval::calibrate::{Calibration, Method};
use beamgen::eval::quality::Figures;
use beamgen::launcher::Launcher;
use beamgen::{Aggregation, scorer::ScorerKind};
use beamgen_labels::monte_carlo::{Counts, Labelling, Mine, Mode, MonteCarlo};
use beamgen_labels::{LabelledChain, RolloutLabel};
use beamgen_measure::bench::Host as _;
use beamgen_measure::calibrate::{self as fitting, Hidden, Options, Output, Runs};
use beamgen_measure::label::{Labeller, OWN, settle};
use beamgen_measure::{
    Error, Watch as _,
    check::{self as checking, Row},
};
use pyo3::prelude::*;
use serde::Serialize;
use serde_json::{Value, json};

use crate::engine;
use crate::errors::InputError;
use crate::follow::{Follower, follow, problems, read, rule, take};
use crate::reward_model::RewardModel;
use crate::wanted::{Base, Wanted};

/// The result of `label`.
#[derive(Serialize)]
struct Labels {
    chains: Vec<LabelledChain>,
    counts: Counts,
    errors: Vec<Value>,
}

/// The result of `check`.
#[derive(Serialize)]
struct Checked {
    rows: Vec<Row>,
    verdicts: Vec<Value>,
}

/// The result of `calibrate`.
#[derive(Serialize)]
struct Calibrated {
    calibration: Calibration,
    figures: BTreeMap<&'static str, Figures>,
}

/// Returns a result as JSON. Its numbers are those of files: no value takes the way through a
/// `serde_json::Value`, which would write an `f32` with the digits of an `f64`.
fn text(made: &impl Serialize) -> Result<String, Error> {
    serde_json::to_string(made).map_err(|error| Error::Data(error.to_string()))
}

/// A result as JSON, and whether a problem is foreign to a bundled model.
type Made = Result<(String, bool), Error>;

/// Takes a keyword that names a row of `table`.
fn named<T: Copy>(keywords: &Value, name: &str, table: &[(&str, T)]) -> PyResult<T> {
    let given: String = take(keywords, name)?;
    let found = table.iter().find(|(known, _)| *known == given);
    found.map(|&(_, value)| value).ok_or_else(|| {
        let known: Vec<&str> = table.iter().map(|&(known, _)| known).collect();
        InputError::new_err(format!(
            "{name} = {given:?}: use one of {}",
            known.join(", ")
        ))
    })
}

/// Samples chains of the problems, those of a file or the bundled sample, and labels their steps by rollouts.
#[pyfunction]
pub(crate) fn label(
    py: Python<'_>,
    keywords: &str,
    lines: Option<String>,
    wanted: &str,
    launcher: Vec<OsString>,
    download: Option<Py<PyAny>>,
    progress: Option<Py<PyAny>>,
) -> PyResult<(String, bool)> {
    let (keywords, wanted) = (read(keywords)?, Wanted::read(wanted)?);
    let mut options = MonteCarlo {
        chains: take(&keywords, "chains")?,
        rollouts: take(&keywords, "rollouts")?,
        mode: named(
            &keywords,
            "mode",
            &Mode::ALL.map(|mode| (mode.name(), mode)),
        )?,
        searches: take(&keywords, "searches")?,
        mine: take::<Option<usize>>(&keywords, "mine")?.map(|wrong| Mine {
            wrong,
            aggregation: Aggregation::default(),
        }),
        mixed: take(&keywords, "mixed")?,
    };
    if let Some((name, why)) = OWN.iter().find(|(name, _)| wanted.gives(name)) {
        return Err(InputError::new_err(format!(
            "{name} changes nothing here, {}: leave it out",
            why.replace('`', "")
        )));
    }
    let file: Option<PathBuf> = take(&keywords, "problems")?;
    let limit: Option<usize> = take(&keywords, "limit")?;
    let work = move |follower: &mut Follower<Made>| -> Made {
        options.validate().map_err(beamgen::Error::from)?;
        let mut config = Base::of(&wanted, false)?.config;
        settle(&mut config, &mut options);
        config.check()?;
        let (problems, count) = problems(file.as_deref(), lines, limit)?;
        let verifier = config.verifier.clone();
        let outcomes = problems.require_outcomes(count, |problem| verifier.judges(problem));
        outcomes.map_err(beamgen::Error::from)?;
        problems.refuse_steps().map_err(beamgen::Error::from)?;
        let mut solver = follower.load(config, &[(&problems, count)])?;
        let labeller = RefCell::new(Labeller::new(&solver, options)?);
        let labellings: RefCell<Vec<Labelling>> = RefCell::default();
        follower.begin(count, "problems", count as f64);
        let cancel = follower.cancel.clone();
        let requests = problems.problems[..count].iter().map(|problem| {
            let (request, labelling) = labeller.borrow().request(problem);
            labellings.borrow_mut().push(labelling);
            request.cancel(cancel.clone())
        });
        let mut chains: Vec<Vec<LabelledChain>> = vec![Vec::new(); count];
        let (mut counts, mut errors) = (Counts::default(), Vec::new());
        solver.run_requests(requests, &mut |_| {}, &mut |result| {
            let labelling = &labellings.borrow()[result.index];
            let labelled = labeller.borrow_mut().labels(labelling, &result);
            counts += labelled.labels.counts;
            chains[result.index] = labelled.labels.chains;
            if let Some(error) = result.error {
                errors.push(json!({"id": result.problem.id, "error": error}));
            }
            follower.done(None);
            if cancel.is_cancelled() {
                return ControlFlow::Break(());
            }
            ControlFlow::Continue(())
        })?;
        let chains: Vec<LabelledChain> = chains.into_iter().flatten().collect();
        let made = text(&Labels {
            chains,
            counts,
            errors,
        });
        Ok((made?, follower.is_foreign))
    };
    let launcher = engine::launcher(&launcher);
    follow(py, launcher, [download, progress], work)
}

/// Reads labelled chains: those in `chains`, or of the files `data`.
fn labelled(files: &[PathBuf], chains: Option<String>) -> Result<Vec<LabelledChain>, Error> {
    let Some(chains) = chains else {
        let mut all = Vec::new();
        for file in files {
            all.extend(beamgen_labels::open(file, None)?.chains);
        }
        return Ok(all);
    };
    Ok(beamgen_labels::parse(chains.as_bytes(), "data", None)?.chains)
}

/// Runs the checkers of the settings, or all built-in ones, on labelled chains.
#[pyfunction]
pub(crate) fn check(
    py: Python<'_>,
    keywords: &str,
    chains: Option<String>,
    wanted: &str,
    launcher: Vec<OsString>,
    progress: Option<Py<PyAny>>,
) -> PyResult<String> {
    let (keywords, wanted) = (read(keywords)?, Wanted::read(wanted)?);
    let (files, rule): (Vec<PathBuf>, _) = (take(&keywords, "data")?, rule(&keywords)?);
    let limit: Option<usize> = take(&keywords, "limit")?;
    let work = move |follower: &mut Follower<Made>| -> Made {
        let mut checkers = Base::of(&wanted, false)?.config.checkers;
        if checkers.is_empty() {
            checkers.builtin = CHECKERS.iter().map(|row| row.name.to_owned()).collect();
        }
        let chains = labelled(&files, chains)?;
        let chains = &chains[..limit.unwrap_or(chains.len()).min(chains.len())];
        let mut panel = Panel::default();
        for (name, checker) in checkers.open(&follower.launcher)? {
            panel.add(name, checker);
        }
        follower.begin(chains.len(), "chains", chains.len() as f64);
        let mut verdicts = Vec::with_capacity(chains.len());
        let rows = checking::check(
            &mut panel,
            "data",
            chains,
            &rule,
            follower,
            &mut |id, steps| {
                verdicts.push(json!({"id": id, "steps": steps}));
                Ok::<_, Error>(())
            },
        )?;
        Ok((text(&Checked { rows, verdicts })?, false))
    };
    let launcher = engine::launcher(&launcher);
    Ok(follow(py, launcher, [None, progress], work)?.0)
}

/// Fits a calibration of the reward model to labelled chains, and adds the risk curve of run files.
#[pyfunction]
pub(crate) fn calibrate(
    py: Python<'_>,
    keywords: &str,
    chains: Option<String>,
    wanted: &str,
    download: Option<Py<PyAny>>,
    progress: Option<Py<PyAny>>,
) -> PyResult<(String, bool)> {
    let (keywords, wanted) = (read(keywords)?, Wanted::read(wanted)?);
    let (files, mut rule): (Vec<PathBuf>, _) = (take(&keywords, "data")?, rule(&keywords)?);
    if keywords["rollout_label"].is_null() {
        // A hard label would hide the share of right rollouts, which the calibration has to predict.
        rule.rollouts = RolloutLabel::Soft;
    }
    let runs: Vec<PathBuf> = take(&keywords, "runs")?;
    let (policy, out): (Option<String>, Option<PathBuf>) =
        (take(&keywords, "policy")?, take(&keywords, "out")?);
    let mut options = Options {
        method: named(
            &keywords,
            "method",
            &Method::ALL.map(|method| (method.name(), method)),
        )?,
        aggregation: Aggregation::Min,
        held_out: take(&keywords, "held_out")?,
    };
    if !(options.held_out > 0.0 && options.held_out < 1.0) {
        let share = options.held_out;
        let line = format!("held_out = {share}: use a share between 0 and 1");
        return Err(InputError::new_err(line));
    }
    let work = move |follower: &mut Follower<Made>| -> Made {
        let config = RewardModel::config(&wanted)?;
        options.aggregation = match (config.models.scorer, config.search.aggregation) {
            // A search takes an outcome model's score at the end of a chain.
            (ScorerKind::Orm, _) => Aggregation::Last,
            (_, rule @ (Aggregation::Min | Aggregation::Last)) => rule,
            (_, other) => {
                let line = format!("aggregation = {other}: a calibration is fitted to min or last");
                return Err(beamgen::Error::Refused(line.into()).into());
            }
        };
        let chosen = fitting::choose(labelled(&files, chains)?, policy.as_deref(), rule)?;
        let runs = (!runs.is_empty()).then(|| Runs::read(&runs)).transpose()?;
        let mut out = out.as_deref().map(Output::open).transpose()?;
        let hidden = Hidden::default();
        let (mut model, fingerprint, has_bundled) =
            RewardModel::observed(config, hidden.observer(), follower.tell.clone())?;
        let is_foreign =
            has_bundled && chosen.problems().any(|text| !beamgen::bundled::knows(text));
        let fitted = fitting::fit(
            &chosen,
            &options,
            &mut *model,
            fingerprint,
            &hidden,
            follower,
        )?;
        let mut calibration = fitted.calibration;
        if let Some(runs) = runs {
            fitting::add(&mut calibration, runs.curve());
        }
        if let Some(out) = &mut out {
            out.write(&calibration)?;
        }
        let figures = fitted.figures.into_iter().collect();
        let made = Calibrated {
            calibration,
            figures,
        };
        Ok((text(&made)?, is_foreign))
    };
    follow(py, Launcher::installed(), [download, progress], work)
}
