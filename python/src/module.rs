//! The module `beamgen._beamgen`.

use pyo3::prelude::*;

#[pymodule(gil_used = false)]
mod _beamgen {
    use super::*;

    #[pymodule_export]
    use crate::annotate::Annotation;
    #[pymodule_export]
    use crate::engine::Engine;
    #[pymodule_export]
    use crate::labelled::{calibrate, check, label};
    #[pymodule_export]
    use crate::launch::launch;
    #[pymodule_export]
    use crate::measure::{bench, evaluate_prm, monitor, plan, rerank};
    #[pymodule_export]
    use crate::news::Outcome;
    #[pymodule_export]
    use crate::problem::{load_problems, sample_problems};
    #[pymodule_export]
    use crate::requests::Requests;
    #[pymodule_export]
    use crate::reward_model::RewardModel;

    #[pymodule_init]
    fn init(module: &Bound<'_, PyModule>) -> PyResult<()> {
        module.add("__version__", env!("CARGO_PKG_VERSION"))
    }
}
