//! Measurements on a thread of their own, with progress.

use std::sync::mpsc::Sender;

use beamgen::eval::Problems;
use beamgen::hub::DataSetPart;
use beamgen::launcher::Launcher;
use beamgen::scorer::ScoreError;
use beamgen::service::CancelToken;
use beamgen::{Config, Solver};
use beamgen_labels::LabelRule;
use beamgen_measure::bench::Host;
use beamgen_measure::{Error, Watch};
use pyo3::prelude::*;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::download::{self, News};
use crate::errors::{self, InputError, RunError};
use crate::load;
use crate::problem;
use crate::wait::{self, Told};

/// Reports the progress of a measurement to the waiting Python thread. `T` is the type of the
/// measurement's result.
pub(crate) struct Follower<T> {
    pub tell: Sender<Told<News, T>>,
    pub cancel: CancelToken,
    done: usize,
    total: usize,
    pub launcher: Launcher,
    pub is_foreign: bool,
}

impl<T> Follower<T> {
    pub(crate) fn news(&self, news: News) {
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
pub(crate) fn follow<T: Send + 'static>(
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
pub(crate) fn take<T: DeserializeOwned>(keywords: &Value, name: &str) -> PyResult<T> {
    let value = serde_json::from_value(keywords[name].clone());
    value.map_err(|error| InputError::new_err(format!("{name}: {error}")))
}

pub(crate) fn read(keywords: &str) -> PyResult<Value> {
    serde_json::from_str(keywords).map_err(|error| InputError::new_err(error.to_string()))
}

pub(crate) fn json(value: &impl Serialize) -> PyResult<String> {
    serde_json::to_string(value).map_err(|error| RunError::new_err(error.to_string()))
}

/// Takes the rule by which labels are derived.
pub(crate) fn rule(keywords: &Value) -> PyResult<LabelRule> {
    let rollouts: Option<String> = take(keywords, "rollout_label")?;
    let rollouts = rollouts.map(|text| text.parse()).transpose();
    let sources: Option<Vec<String>> = take(keywords, "rule")?;
    let sources = sources.into_iter().flatten().map(|text| text.parse());
    Ok(LabelRule {
        sources: sources
            .collect::<Result<_, String>>()
            .map_err(|advice| InputError::new_err(format!("rule: {advice}")))?,
        neutral: take::<Option<_>>(keywords, "neutral")?.unwrap_or_default(),
        rollouts: rollouts
            .map_err(|advice: String| InputError::new_err(format!("rollout_label: {advice}")))?
            .unwrap_or_default(),
        first_error_only: take(keywords, "first_error_only")?,
        agree: take(keywords, "agree")?,
    })
}

/// Reads problems: those in `lines`, of a file or a data set, or the bundled sample. Returns them
/// with the number of the first ones to take.
pub(crate) fn problems(
    file: Option<&std::path::Path>,
    lines: Option<String>,
    limit: Option<usize>,
) -> Result<(Problems, usize), Error> {
    let problems = match (file, lines) {
        (Some(name), _) => {
            let found =
                beamgen::find_data(name, &DataSetPart::default(), problem::hub, &mut |_| ())?;
            Problems::open(found.source)
        }
        (None, Some(lines)) => Problems::read(lines.as_bytes(), "problems"),
        (None, None) => beamgen::bundled::sample(),
    };
    let problems = problems.map_err(beamgen::Error::from)?;
    let count = problems.problems.len();
    Ok((problems, limit.unwrap_or(count).min(count)))
}
