//! A Python callable as a scorer.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use beamgen::{Problem, ScoreError, StepScorer};
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;

use crate::causes::Causes;

/// Calls `(id, text, answer, steps) -> float` for the last of the steps.
pub struct PythonScorer {
    pub callable: Py<PyAny>,
    pub causes: Arc<Causes>,
    /// Set when the solver is being closed: Python is asked no more.
    pub closing: Arc<AtomicBool>,
}

impl PythonScorer {
    fn call(&self, py: Python<'_>, problem: &Problem, steps: &[&str]) -> PyResult<f32> {
        // As steps are in results.
        let steps: Vec<&str> = steps
            .iter()
            .map(|step| step.trim_start_matches('\n').trim_end())
            .collect();
        let problem = (&problem.id, &problem.text, &problem.answer);
        let arguments = (problem.0, problem.1, problem.2, steps);
        let score = self.callable.bind(py).call1(arguments)?;
        let number: f64 = score.extract().map_err(|_| {
            let given = score.repr().map_or_else(|_| "?".into(), |r| r.to_string());
            PyTypeError::new_err(format!("the scorer gave {given}, which is no number"))
        })?;
        Ok(number as f32)
    }
}

impl StepScorer for PythonScorer {
    fn score(&mut self, problem: &Problem, steps: &[&str]) -> Result<f32, ScoreError> {
        let gone = || ScoreError::Failed("the interpreter is closing".into());
        if self.closing.load(Ordering::Relaxed) {
            return Err(gone());
        }
        // Not where the interpreter is gone.
        let scored = Python::try_attach(|py| {
            self.call(py, problem, steps).map_err(|raised| {
                let message = raised.to_string().replace('\n', " ");
                self.causes.keep(problem, raised);
                ScoreError::Failed(message.into())
            })
        });
        scored.unwrap_or_else(|| Err(gone()))
    }
}
