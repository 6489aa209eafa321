//! Problems, from JSON and from files.

use std::path::PathBuf;

use beamgen::Problem;
use beamgen::eval::{Problems, ProblemsError};
use pyo3::prelude::*;

use crate::errors::InputError;

/// Parses a problem from a line of a problem file. `name` stands for the problem in errors.
pub(crate) fn read(json: &str, name: &str) -> PyResult<Problem> {
    let read = Problems::read(json.as_bytes(), name).map_err(|error| match error {
        ProblemsError::Line { fault, .. } => InputError::new_err(format!("{name}: {fault}")),
        error => InputError::new_err(error.to_string()),
    });
    let first = read?.problems.into_iter().next();
    first.ok_or_else(|| InputError::new_err(format!("{name}: empty: give a problem")))
}

/// Reads all problems of a file, which is JSON lines, or text with one problem per line.
#[pyfunction]
pub(crate) fn read_problems(py: Python<'_>, path: PathBuf) -> PyResult<Vec<String>> {
    lines(py.detach(|| Problems::open(&path)))
}

/// Returns the sample problems of the bundled world.
#[pyfunction]
pub(crate) fn sample_problems() -> PyResult<Vec<String>> {
    lines(beamgen::bundled::sample())
}

/// Returns each problem as JSON.
fn lines(problems: Result<Problems, ProblemsError>) -> PyResult<Vec<String>> {
    let problems = problems.map_err(|error| InputError::new_err(error.to_string()))?;
    let lines = problems.problems.iter().map(serde_json::to_string);
    let lines: Result<Vec<String>, _> = lines.collect();
    lines.map_err(|error| InputError::new_err(error.to_string()))
}
