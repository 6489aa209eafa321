//! Chooses among solutions that exist already.
//!
//! [`Pools::open`] reads files of solutions and cuts each into steps. [`Pools::score`] asks a reward
//! model once about every solution, and [`Pools::check`] asks checkers. The report has every rule and
//! selector over these scores, and is a function of the raw rows: [`redraw`] draws it again.

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
