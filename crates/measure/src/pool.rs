//! Reranking: chooses among solutions that exist already.
//!
//! [`Pools::open`] reads files of solutions and splits each solution into steps. [`Pools::score`]
//! asks a reward model once for every solution, and [`Pools::check`] asks checkers. The report
//! applies every rule and selector to these scores, and depends only on the raw rows: [`redraw`]
//! draws it again.

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
