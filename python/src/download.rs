//! Opens the Hugging Face hub with the environment variables of Python's `huggingface_hub`, and
//! reports the progress of downloads.

use std::collections::HashMap;
use std::ffi::CString;
use std::sync::mpsc::Sender;
use std::time::{Duration, Instant};

use beamgen::hub::{Hub, HubConfig, Progress};
use beamgen::{Error, SolverBuilder};
use pyo3::exceptions::PyUserWarning;
use pyo3::prelude::*;

use crate::wait::Told;

/// A message from a working thread about a download or a measurement.
pub enum News {
    /// Progress of a download: the model, the file, the bytes so far, and the file's size if the
    /// hub reports it.
    Bytes(String, String, u64, Option<u64>),
    /// Progress of a measurement: the amount of work done, and the amount of all work.
    Progress(usize, usize),
    /// A text for the user, about a long wait or about skipped records.
    Warning(String),
}

/// The minimum time between two progress reports of the same file.
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
    // The time of the last report for each file. Several files may be downloading at the same time.
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
                "{model}: the hub limits requests; trying again in {} s",
                wait.as_secs()
            )),
            _ => return,
        };
        // Sending fails if the caller was interrupted and no longer waits.
        let _ = tell.send(Told::Note(news));
    }))
}

/// Passes a message to `function` (for downloads or progress), or issues a Python warning for a
/// text.
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
