//! The work of a launcher, in a process that Python started for it.

use std::ffi::OsString;

use beamgen::launcher::run_if_asked;
use pyo3::prelude::*;

/// Runs the launcher with `arguments[at..]`. Returns the exit code for the process.
#[pyfunction]
pub(crate) fn launch(arguments: Vec<OsString>, at: usize) -> u8 {
    match run_if_asked(&arguments, at) {
        Some(Ok(code)) => code,
        Some(Err(error)) => {
            eprintln!("beamgen: {error}");
            error.exit_code()
        }
        None => {
            eprintln!("beamgen: a launcher is started by a solver, not by hand");
            2
        }
    }
}
