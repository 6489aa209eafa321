//! The extension module of the Python package `beamgen`. It has handles to a running solver, to a
//! group of requests, and to a reward model. Settings and results are passed as JSON. The public
//! classes are written in Python (`package/beamgen`).

#![cfg(feature = "extension")]
#![forbid(unsafe_code)]

mod annotate;
mod callable;
mod causes;
mod download;
mod engine;
mod errors;
mod follow;
mod labelled;
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
