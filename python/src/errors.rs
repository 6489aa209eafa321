//! Converts errors of the library to Python exceptions.

use pyo3::prelude::*;

pyo3::import_exception!(beamgen._errors, InputError);
pyo3::import_exception!(beamgen._errors, RunError);

/// Returns a `RunError` whose cause is the exception of a custom generator or scorer.
pub(crate) fn caused(py: Python<'_>, message: String, cause: PyErr) -> PyErr {
    let error = RunError::new_err(message);
    error.set_cause(py, Some(cause));
    error
}

/// Converts an error of the library to `InputError` if the fault is in the caller's input, and to
/// `RunError` otherwise.
pub(crate) fn from_library(error: &beamgen::Error) -> PyErr {
    if error.is_input() {
        InputError::new_err(error.to_string())
    } else {
        RunError::new_err(error.to_string())
    }
}

/// Converts an error of a measurement to an exception, with advice in Python's terms.
pub(crate) fn from_measurement(error: beamgen_measure::Error) -> PyErr {
    use beamgen::eval::RunFileFault;
    use beamgen_measure::Error::{Exists, RunFile, Search};
    let advice = match &error {
        Search(error) => return from_library(error),
        Exists { .. } => ": choose another folder",
        RunFile(error) if matches!(error.fault, RunFileFault::Exists) => {
            ": use resume=True, or choose another folder"
        }
        _ => "",
    };
    if error.is_input() {
        InputError::new_err(format!("{error}{advice}"))
    } else {
        RunError::new_err(error.to_string())
    }
}

/// Converts the error of a request that the service refused, or could not finish.
pub(crate) fn from_service(error: &beamgen::service::ServiceError) -> PyErr {
    match error {
        beamgen::service::ServiceError::Setting(error) => InputError::new_err(error.to_string()),
        beamgen::service::ServiceError::Closed => closed(),
        error => RunError::new_err(error.to_string()),
    }
}

/// Converts an error of scoring: `RunError` if the model failed or was lost, otherwise
/// `InputError`.
pub(crate) fn from_scorer(error: &beamgen::scorer::ScoreError) -> PyErr {
    use beamgen::scorer::ScoreError::{Failed, Lost};
    match error {
        Failed(_) | Lost(_) => RunError::new_err(error.to_string()),
        error => InputError::new_err(error.to_string()),
    }
}

/// Returns the error for a solver that was used after `close`.
pub(crate) fn closed() -> PyErr {
    RunError::new_err("the solver is closed")
}
