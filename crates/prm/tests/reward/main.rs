//! The reward model on a tiny decoder with random weights.

#[path = "../../../generator/tests/tiny/mod.rs"]
mod tiny;

mod families;
mod golden;
mod incremental;
mod judges;
mod loading;
mod memory;
mod models;
mod prefixes;
mod tokens;
