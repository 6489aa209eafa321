//! Problem files, answer extraction and equality, metrics, and the run files that make a run
//! resumable.
//!
//! Nothing here runs a model: the library below the solver that says what a problem is on disk,
//! whether two answers are the same, and how sure a measured accuracy is.

#![forbid(unsafe_code)]
#![deny(missing_docs)]

mod algebra;
pub mod answer;
pub mod calibrate;
mod chains;
pub mod curve;
pub mod difficulty;
mod draw;
mod export;
mod fingerprint;
pub mod metrics;
pub mod number;
pub mod pass_at_k;
pub mod pool;
pub mod probes;
mod problems;
pub mod profile;
pub mod quality;
mod record;
mod run_file;
pub mod twins;

pub use answer::{MathAnswers, Verdict};
pub use beamgen_records::{DataSource, Place, RecordsError, is_table, write_table};
pub use chains::{GivenChain, context_of, cut_response, steps_of};
pub use fingerprint::Fingerprint;
pub use problems::{
    Found, LineFault, MAX_PROBLEM_BYTES, NamedKeys, Problems, ProblemsError, Wanted,
};
pub use record::{Record, Spent, StepRecord, chain_verdict, is_correct, verdict};
pub use run_file::{RunFile, RunFileError, RunFileFault, RunHeader};
