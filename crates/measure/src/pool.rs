//! Reranking: chooses among existing solutions of a problem, without a generator.
//!
//! [`Pools::open`] reads files of solutions and splits them into steps. [`Pools::score`] scores all solutions with a
//! reward model, and [`Pools::check`] asks checkers. The report applies every rule and selector to these scores. It
//! is a function of the raw rows, from which [`redraw`] draws it again.

mod data;
mod folder;
mod markdown;
mod outline;
mod plots;
mod ranking;
mod report;
mod row;
mod selector;
#[cfg(test)]
mod tests;

pub use data::{PoolScorer, Pools, scorers};
pub use folder::{create, is_pool, redraw};
pub use outline::{Outline, Rightness, ScorerOutline, SetOutline};
pub use ranking::{COLUMNS, Ranked};
pub use report::{AtK, Count, Curve, Disagreement, Disagreements, Report};
