//! The scheduler and the strategies on a scripted generator and scorer.

mod determinism;
mod memory;
mod pitfalls;
mod runs;
mod scripted;
