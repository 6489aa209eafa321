//! Rewrites or guards given answers with the service of a solver.

use beamgen::eval::cut_response;
use beamgen::mend::{self, Task, steps_of};
use beamgen::{Problem, Service, Settings};
use pyo3::prelude::*;
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::errors::{self, InputError, RunError};
use crate::{problem, wait};

/// Parses the options of refining or guarding from JSON.
pub(crate) fn options<T: DeserializeOwned>(json: &str) -> PyResult<T> {
    serde_json::from_str(json).map_err(|error| InputError::new_err(error.to_string()))
}

/// Returns the outcome of each answer, as JSON. An answer is a line of a problem file with the steps of the
/// answer, or with its text as `response`.
pub(crate) fn run<T: Task + Send + 'static, D: Serialize>(
    py: Python<'_>,
    service: Service,
    settings: &Settings,
    answers: &[String],
    task: impl Fn(Problem) -> T,
    done: impl Fn(T) -> D,
) -> PyResult<Vec<String>> {
    let problem = |(at, answer): (usize, &String)| {
        let name = format!("answer {at}");
        let mut value = options(answer)?;
        cut_response(&mut value, &|text| steps_of(text, &settings.generator));
        problem::read(&value.to_string(), &name).map(&task)
    };
    let tasks: PyResult<Vec<T>> = (1..).zip(answers).map(problem).collect();
    let mut tasks = tasks?;
    let work = move |_| mend::run_by(&service, &mut tasks).map(|()| tasks);
    let worked = wait::run::<(), _>(py, work, Ok)?;
    let tasks = worked.map_err(|error| errors::from_service(&error))?;
    let json = |task| {
        let json = serde_json::to_string(&done(task));
        json.map_err(|error| RunError::new_err(error.to_string()))
    };
    tasks.into_iter().map(json).collect()
}
