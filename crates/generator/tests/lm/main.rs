//! The generator on a tiny model with random weights, mostly under the real scheduler.

#[path = "../tiny/mod.rs"]
mod tiny;

mod answers;
mod chains;
mod given;
mod limits;
mod logprobs;
mod memory;
mod prefixes;
mod real;
mod runs;
mod stops;
#[cfg(feature = "structured")]
mod structured;
mod thinking;
