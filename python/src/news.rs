//! Messages from the engine's thread to the caller of requests: events and results.

use std::sync::Arc;

use beamgen::eval::Record;
use beamgen::result::Stopped;
use beamgen::service::ServiceError;
use beamgen::{ProblemResult, Progress};
use pyo3::prelude::*;

use crate::errors::{self, InputError, RunError};
use crate::running::Running;

/// A message about one request of a group. Positions count from 0 within the group.
pub(crate) enum News {
    Event(Progress),
    /// The request at this position may be finished, so its ticket should be checked.
    Changed(usize),
    Done(usize, Box<Result<ProblemResult, ServiceError>>),
}

/// Returns an event as JSON; `None` if it cannot be serialized.
pub(crate) fn event(progress: &Progress) -> Option<String> {
    serde_json::to_string(progress).ok()
}

/// The result of a request, in the form that the Python classes parse.
#[pyclass(frozen, get_all, module = "beamgen._beamgen")]
pub(crate) struct Outcome {
    position: usize,
    /// The line of `beamgen solve --json`.
    record: String,
    /// The search tree as JSON, in the form of a run file; `None` if the caller did not ask for it.
    tree: Option<String>,
    /// `cancelled` or `deadline`, if the search was ended early.
    stopped: Option<&'static str>,
    /// The exception to raise if the problem could not be solved; `None` otherwise.
    error: Option<Py<PyAny>>,
}

impl Outcome {
    pub(crate) fn new(
        py: Python<'_>,
        position: usize,
        result: &ProblemResult,
        with_tree: bool,
        running: &Arc<Running>,
    ) -> PyResult<Self> {
        let unwritable = |error: serde_json::Error| RunError::new_err(error.to_string());
        let (record, tree) = py.detach(|| {
            let record = serde_json::to_string(&Record::new(result, false));
            let tree = with_tree.then(|| serde_json::to_string(&result.tree));
            (record, tree)
        });
        let cause = running.causes.take(&result.problem);
        let error = result.error.as_ref().map(|message| match cause {
            Some(cause) => errors::caused(py, message.clone(), cause),
            None => InputError::new_err(message.clone()),
        });
        Ok(Self {
            position,
            record: record.map_err(unwritable)?,
            tree: tree.transpose().map_err(unwritable)?,
            stopped: result.stopped.map(|stopped| match stopped {
                Stopped::Deadline => "deadline",
                _ => "cancelled",
            }),
            error: error.map(|error| error.into_value(py).into_any()),
        })
    }
}
