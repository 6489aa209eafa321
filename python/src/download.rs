//! Models by name: the hub, with the environment of Python's `huggingface_hub`, and the progress of
//! downloads.

use std::collections::HashMap;
use std::ffi::CString;
use std::sync::mpsc::Sender;
use std::time::{Duration, Instant};

use beamgen::hub::{Hub, HubConfig, Progress};
use beamgen::{Error, SolverBuilder};
use pyo3::exceptions::PyUserWarning;
use pyo3::prelude::*;

use crate::wait::Told;

/// News of a download.
pub enum News {
    /// How far a file is: model, file, bytes so far, bytes of all if the hub says.
    Bytes(String, String, u64, Option<u64>),
    /// How far a measurement is: how much is done, and of how much.
    Progress(usize, usize),
    /// A long wait, or what is left out, in one line.
    Warning(String),
}

/// Time between two reports of a file that is not done.
const PAUSE: Duration = Duration::from_millis(100);

/// Connects the builder to the hub if a named model is not on this machine.
pub(crate) fn attach<T: 'static>(
    builder: SolverBuilder,
    tell: Sender<Told<News, T>>,
) -> Result<SolverBuilder, Error> {
    let models = &builder.current_config().models;
    if !models.may_need_hub() {
        return Ok(builder);
    }
    let mut config = HubConfig::from_lookup(|name| std::env::var(name).ok())?;
    config.offline |= models.offline;
    // By file: two may be on their way at once.
    let mut told: HashMap<String, Instant> = HashMap::new();
    Ok(builder.hub(Hub::new(config)?, move |model, progress| {
        let news = match progress {
            Progress::Bytes { file, done, total } => {
                let last = told.get(&file);
                let is_early = last.is_some_and(|last| last.elapsed() < PAUSE);
                if is_early && total != Some(done) {
                    return;
                }
                told.insert(file.clone(), Instant::now());
                News::Bytes(model.to_owned(), file, done, total)
            }
            Progress::Limited { wait } => News::Warning(format!(
                "{model}: the hub takes no more requests for now; it is asked again in {} s",
                wait.as_secs()
            )),
            _ => return,
        };
        // Nobody listens any more after an interrupt.
        let _ = tell.send(Told::Note(news));
    }))
}

/// Calls the function that hears of downloads or of progress, or warns.
pub(crate) fn hear(py: Python<'_>, function: Option<&Py<PyAny>>, news: News) -> PyResult<()> {
    match (news, function) {
        (News::Bytes(model, file, done, total), Some(function)) => {
            function.call1(py, (model, file, done, total)).map(drop)
        }
        (News::Progress(done, total), Some(function)) => {
            function.call1(py, (done, total)).map(drop)
        }
        (News::Bytes(..) | News::Progress(..), None) => Ok(()),
        (News::Warning(line), _) => {
            let line = CString::new(line)?;
            PyErr::warn(py, &py.get_type::<PyUserWarning>(), &line, 1)
        }
    }
}
