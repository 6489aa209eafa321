//! The table of a bench: a row for each cell on each set.

use beamgen::StrategyKind;
use beamgen::eval::Spent;
use beamgen::scorer::ScorerKind;
use serde::Serialize;

use crate::{grouped, megabytes, percent};

/// A row of the table.
#[derive(Clone, Debug, Serialize)]
pub struct Summary {
    /// The name of the set.
    pub set: String,
    /// The cell's name, as `beam@16`.
    pub name: String,
    /// The name of the run.
    pub run: String,
    /// The strategy.
    pub strategy: StrategyKind,
    /// The scorer.
    pub scorer: ScorerKind,
    /// N, the number of chains.
    pub n: usize,
    /// M, the number of expansions.
    pub m: usize,
    /// The number of seeds.
    pub seeds: u64,
    /// The number of problems.
    pub problems: usize,
    /// Problems times seeds, or fewer in a bench that was not finished.
    pub searches: usize,
    /// Mean over problems and seeds, with the 95 % bootstrap interval over problems.
    pub accuracy: f64,
    /// The lower end of its interval.
    pub accuracy_low: f64,
    /// The upper end of its interval.
    pub accuracy_high: f64,
    /// All problems and seeds together. Passes count once for each problem with a row in them; the
    /// peak is that of the one problem with the largest.
    pub ledger: Spent,
    /// Whether the peak is an upper bound.
    pub peak_kv_is_bound: bool,
}

/// The columns of the table.
pub const HEAD: [&str; 9] = [
    "strategy",
    "accuracy",
    "95 % interval",
    "generated",
    "scored",
    "reused",
    "passes",
    "peak KV",
    "seconds",
];

/// Returns a summary as cells of the table.
#[must_use]
pub fn cells(row: &Summary) -> Vec<String> {
    let solved = row.searches as f64;
    let each = |total: u64| grouped((total as f64 / solved).round() as u64);
    let bound = if row.peak_kv_is_bound {
        "\u{2264} "
    } else {
        ""
    };
    vec![
        row.name.clone(),
        percent(row.accuracy),
        format!(
            "{:.1} to {:.1}",
            row.accuracy_low * 100.0,
            row.accuracy_high * 100.0
        ),
        each(row.ledger.generated_tokens),
        each(row.ledger.scored_tokens),
        each(row.ledger.reused_tokens),
        each(row.ledger.forward_passes),
        format!("{bound}{}", megabytes(row.ledger.peak_kv_bytes)),
        format!("{:.3}", row.ledger.seconds / solved),
    ]
}
