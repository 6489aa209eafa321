//! Tests of the whole: the real binary, the workspace's shape, the configuration files and the
//! documents.

mod annotate;
mod bad_checkpoints;
mod bad_hub;
mod bad_inputs;
mod bad_reward_models;
mod bench;
mod bench_engine;
mod book;
mod browser;
mod calibrate;
mod candle;
mod check;
mod ci;
mod circles;
mod configs;
mod data;
mod device;
mod documents;
mod edges;
mod effective;
mod escapes;
mod eval_prm_probes;
mod eval_prm_report;
#[cfg(feature = "remote")]
#[allow(
    dead_code,
    reason = "shared with the tests of the crate remote, which use all of it"
)]
#[path = "../crates/remote/tests/remote/fake.rs"]
mod fake;
mod foreign;
mod hostile_checkpoints;
mod hub_cache;
mod in_flight;
mod interrupt;
mod json;
mod judges;
mod label;
mod label_rules;
mod labels;
mod ledger;
mod manual;
mod mend;
mod monitor;
mod numbers;
mod outputs;
mod pairs;
mod pipe;
mod plan;
mod pool;
mod programs;
mod readme;
mod real_checkpoints;
mod real_world;
mod reference;
mod resume;
mod run;
mod run_file;
mod score;
mod secrets;
#[cfg(feature = "serve")]
mod serve;
#[allow(
    dead_code,
    reason = "shared with the tests of the crate hub, which use all of it"
)]
#[path = "../crates/hub/tests/server.rs"]
mod server;
#[cfg(feature = "remote")]
mod servers;
mod settings_agree;
mod show;
mod show_html;
mod sound;
mod special_files;
mod strategies;
#[path = "../crates/hub/tests/tls.rs"]
mod tls;
mod too_long;
mod train;
mod trust;
mod verifiers;
mod version;
mod words;
