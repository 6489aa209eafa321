//! The extension module of the Python package `beamgen`: handles to a solver on its thread, to a
//! group of requests, to a reward model. Settings come in, and results go out, as JSON; the classes
//! that people see are Python's (`package/beamgen`).

#![cfg(feature = "extension")]
#![forbid(unsafe_code)]

mod annotate;
mod callable;
mod causes;
mod download;
mod engine;
mod errors;
mod launch;
mod load;
mod lock;
mod measure;
mod mend;
mod module;
mod news;
mod problem;
mod requests;
mod reward_model;
mod running;
mod wait;
mod wanted;
