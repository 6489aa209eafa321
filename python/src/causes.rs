//! Exceptions that custom generators and scorers raised. A result contains only the text of an
//! error, so the reader of the result looks the exception up here, by problem.

use std::collections::HashMap;
use std::sync::Mutex;

use beamgen::Problem;
use pyo3::PyErr;

use crate::lock::lock;

#[derive(Default)]
pub struct Causes(Mutex<HashMap<u64, PyErr>>);

impl Causes {
    /// Keeps the first exception for a problem. Later exceptions are consequences of the first.
    pub fn keep(&self, problem: &Problem, raised: PyErr) {
        lock(&self.0).entry(problem.key()).or_insert(raised);
    }

    pub fn take(&self, problem: &Problem) -> Option<PyErr> {
        lock(&self.0).remove(&problem.key())
    }
}
