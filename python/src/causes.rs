//! The exceptions that custom generators and scorers raised. A result only has the message; whoever
//! takes it finds the exception here, by the problem.

use std::collections::HashMap;
use std::sync::Mutex;

use beamgen::Problem;
use pyo3::PyErr;

use crate::lock::lock;

#[derive(Default)]
pub struct Causes(Mutex<HashMap<u64, PyErr>>);

impl Causes {
    /// Keeps the first exception of a problem; later ones are its consequences.
    pub fn keep(&self, problem: &Problem, raised: PyErr) {
        lock(&self.0).entry(problem.key()).or_insert(raised);
    }

    pub fn take(&self, problem: &Problem) -> Option<PyErr> {
        lock(&self.0).remove(&problem.key())
    }
}
