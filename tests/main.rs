//! Tests of the whole: the real binary, the workspace's shape, the configuration files and the
//! documents.

mod bad_checkpoints;
mod bad_hub;
mod bad_inputs;
mod bench;
mod bench_engine;
mod configs;
mod device;
mod edges;
mod escapes;
mod foreign;
mod in_flight;
mod json;
mod ledger;
mod pipe;
mod readme;
mod real_checkpoints;
mod resume;
mod run;
mod score;
mod special_files;
mod strategies;
