//! Lets a person rate chains, through Python.

use std::path::PathBuf;
use std::sync::Mutex;

use beamgen::generator::GeneratorConfig;
use beamgen::mend::steps_of;
use beamgen_labels::annotate::{self, Options, Order};
use beamgen_labels::{LabelsError, open_any};
use pyo3::prelude::*;

use crate::errors::InputError;
use crate::lock::lock;

/// The chains that a person rates, and the file to which ratings are appended.
#[pyclass(frozen)]
pub(crate) struct Annotation(Mutex<annotate::Annotation>);

#[expect(clippy::needless_pass_by_value, reason = "how `map_err` hands it over")]
fn refused(error: LabelsError) -> PyErr {
    InputError::new_err(error.to_string())
}

#[pymethods]
impl Annotation {
    #[new]
    fn new(
        chains: PathBuf,
        out: PathBuf,
        rater: String,
        order: &str,
        seed: u64,
        through: bool,
    ) -> PyResult<Self> {
        let names = Order::ALL.map(Order::name).join(", ");
        let order = Order::named(order).ok_or_else(|| {
            InputError::new_err(format!("unknown order {order:?}: use one of {names}"))
        })?;
        let options = Options {
            rater,
            order,
            seed,
            stops: !through,
        };
        let cut = |text: &str| steps_of(text, &GeneratorConfig::default());
        let chains = open_any(&chains, &cut).map_err(refused)?.chains;
        let annotation = annotate::Annotation::open(chains, &out, options).map_err(refused)?;
        Ok(Self(Mutex::new(annotation)))
    }

    /// Performs an action, given as JSON. Returns the view after the action, as JSON.
    fn act(&self, act: &str) -> PyResult<String> {
        let invalid = |error: serde_json::Error| InputError::new_err(error.to_string());
        let act = serde_json::from_str(act).map_err(invalid)?;
        let mut annotation = lock(&self.0);
        let view = annotation.act(act).map_err(refused)?;
        serde_json::to_string(&view).map_err(invalid)
    }
}
