//! What the Python package `beamgen` is made of in Rust: handles to a solver on its thread, to a
//! group of requests, to a reward model. Settings come in, and results go out, as JSON; the classes
//! that people see are Python's (`package/beamgen`).

#![forbid(unsafe_code)]

#[cfg(feature = "extension")]
mod callable;
#[cfg(feature = "extension")]
mod causes;
#[cfg(feature = "extension")]
mod download;
#[cfg(feature = "extension")]
mod engine;
#[cfg(feature = "extension")]
mod errors;
#[cfg(feature = "extension")]
mod launch;
#[cfg(feature = "extension")]
mod load;
#[cfg(feature = "extension")]
mod lock;
#[cfg(feature = "extension")]
mod module;
#[cfg(feature = "extension")]
mod news;
#[cfg(feature = "extension")]
mod problem;
#[cfg(feature = "extension")]
mod requests;
#[cfg(feature = "extension")]
mod reward_model;
#[cfg(feature = "extension")]
mod running;
#[cfg(feature = "extension")]
mod wait;
#[cfg(feature = "extension")]
mod wanted;
