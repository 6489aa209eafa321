//! The scheduler and the strategies on a scripted generator and scorer.

mod adaptive;
mod budget;
mod determinism;
mod early_rejection;
mod every_strategy;
mod given;
mod judges;
mod memory;
mod outcomes;
mod pitfalls;
mod pruning;
mod requests;
mod rollouts;
mod runs;
mod scripted;
mod speculative;
mod stating;
mod verifying;
