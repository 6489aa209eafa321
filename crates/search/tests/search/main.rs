//! The scheduler and the strategies on a scripted generator and scorer.

mod ahead;
mod budget;
mod determinism;
mod early_rejection;
mod memory;
mod pitfalls;
mod runs;
mod scripted;
