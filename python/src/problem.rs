//! Problems, from JSON and from files.

use std::path::PathBuf;

use beamgen::Problem;
use beamgen::eval::{NamedKeys, Problems, ProblemsError, RecordsError, Wanted};
use beamgen::hub::{DataSetPart, Hub, HubConfig};
use pyo3::prelude::*;

use crate::download::{News, hear};
use crate::errors::InputError;

/// Parses a problem from a line of a problem file. `name` stands for the problem in errors.
pub(crate) fn read(json: &str, name: &str) -> PyResult<Problem> {
    let read = Problems::read(json.as_bytes(), name).map_err(|error| match error {
        ProblemsError::Record { fault, .. } => InputError::new_err(format!("{name}: {fault}")),
        ProblemsError::Records(RecordsError::Record { fault, .. }) => {
            InputError::new_err(format!("{name}: {fault}"))
        }
        error => InputError::new_err(error.to_string()),
    });
    let first = read?.problems.into_iter().next();
    first.ok_or_else(|| InputError::new_err(format!("{name}: empty: give a problem")))
}

/// Reads all problems of a file or of a data set on the hub. Notes on it become warnings.
#[pyfunction]
pub(crate) fn load_problems(
    py: Python<'_>,
    name: PathBuf,
    part: (Option<String>, Option<String>),
    keys: (Option<String>, Option<String>, Option<String>),
) -> PyResult<Vec<String>> {
    let ((subset, split), (problem, answer, solution)) = (part, keys);
    let (part, keys) = (
        DataSetPart { subset, split },
        NamedKeys {
            problem,
            answer,
            solution,
        },
    );
    let read = py.detach(|| {
        let found = beamgen::find_data(&name, &part, hub, &mut |_| ())?;
        let problems = Problems::open_with(found.source, &keys, Wanted::default())?;
        Ok::<_, beamgen::Error>((problems, found.notes))
    });
    let (problems, notes) = read.map_err(|error| InputError::new_err(error.to_string()))?;
    for note in notes.into_iter().chain(problems.unread_note()) {
        hear(py, None, News::Warning(note))?;
    }
    lines(Ok(problems))
}

/// Opens the hub with the environment variables of Python's `huggingface_hub`.
pub(crate) fn hub() -> Result<Hub, beamgen::Error> {
    let config = HubConfig::from_lookup(|name| std::env::var(name).ok())?;
    Ok(Hub::new(config)?)
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
