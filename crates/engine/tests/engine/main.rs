//! The tests of the engine that can share a process. Tests that count allocations, fork, or need a
//! device of their own are separate programs.

#[path = "../common/mod.rs"]
mod common;
#[path = "../common/every_field.rs"]
mod fields;

mod chat;
mod checkpoint;
mod declared_tokens;
mod every_field;
mod flops;
mod formats;
mod fuzz;
mod invariance;
mod lending;
mod prefixes;
mod refusals;
mod sampling;
mod smollm2;
mod tokenizer;
mod weight_type;
