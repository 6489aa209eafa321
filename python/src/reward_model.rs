//! A reward model without a generator, for given steps.

use std::sync::{Arc, Mutex};

use beamgen::scorer::{Scorer, score_chains};
use pyo3::prelude::*;

use crate::download;
use crate::errors;
use crate::load;
use crate::lock::lock;
use crate::wait;
use crate::wanted::Wanted;

/// See the file.
#[pyclass(frozen, module = "beamgen._beamgen")]
pub struct RewardModel {
    model: Arc<Mutex<Box<dyn Scorer + Send>>>,
    is_bundled: bool,
}

#[pymethods]
impl RewardModel {
    /// Loads the model; `download` is called as for an `Engine`.
    #[new]
    fn new(py: Python<'_>, wanted: &str, download: Option<Py<PyAny>>) -> PyResult<Self> {
        let wanted = Wanted::read(wanted)?;
        let load = move |tell| load::reward_model(&wanted, tell);
        let hear = |news| download::hear(py, download.as_ref(), news);
        let loaded = wait::run(py, load, hear)?;
        let (model, is_bundled) = loaded.map_err(|error| errors::from_library(&error))?;
        Ok(Self {
            model: Arc::new(Mutex::new(model)),
            is_bundled,
        })
    }

    /// The probabilities that the steps are right, one a step.
    fn score(&self, py: Python<'_>, problem: String, steps: Vec<String>) -> PyResult<Vec<f32>> {
        let model = Arc::clone(&self.model);
        let score = move |_| {
            let steps: Vec<&str> = steps.iter().map(String::as_str).collect();
            let scored = score_chains(&mut **lock(&model), &[(&problem, &steps)])?;
            scored.into_iter().next().unwrap_or_else(|| Ok(Vec::new()))
        };
        let scored = wait::run::<(), _>(py, score, Ok)?;
        scored.map_err(|error| errors::from_scorer(&error))
    }

    /// Whether a problem is foreign to the bundled model, if it is that: its scores mean nothing.
    fn is_foreign(&self, problem: &str) -> bool {
        self.is_bundled && !beamgen::bundled::knows(problem)
    }
}
