//! The table of a bench: a row for each cell on each set.

use std::io::{self, Write};

use beamgen::eval::Spent;
use beamgen::{ScorerKind, StrategyKind};
use serde::Serialize;

use super::outline::Outline;
use crate::printable;
use crate::table::{Table, grouped, megabytes, percent};

/// A row of the table.
#[derive(Clone, Debug, Serialize)]
pub struct Summary {
    pub set: String,
    pub name: String,
    pub run: String,
    pub strategy: StrategyKind,
    pub scorer: ScorerKind,
    pub n: usize,
    pub m: usize,
    pub seeds: u64,
    pub problems: usize,
    /// Problems times seeds, or fewer in a bench that was not finished.
    pub searches: usize,
    /// Mean over problems and seeds, with the 95 % bootstrap interval over problems.
    pub accuracy: f64,
    pub accuracy_low: f64,
    pub accuracy_high: f64,
    /// All problems and seeds together. Passes count once for each problem with a row in them; the
    /// peak is that of the one problem with the largest.
    pub ledger: Spent,
    /// Whether the peak is an upper bound.
    pub peak_kv_is_bound: bool,
}

/// Writes a table for each set.
pub fn print(outline: &Outline, summaries: &[Summary]) -> io::Result<()> {
    let mut out = io::stdout().lock();
    let plural = if outline.seeds == 1 { "" } else { "s" };
    for set in &outline.sets {
        writeln!(
            out,
            "{}: {} problems, {} seed{plural}; tokens, passes and seconds per problem",
            printable::line(&set.name),
            set.ids.len(),
            outline.seeds
        )?;
        let all = set.ids.len() * outline.seeds as usize;
        let of_set = || summaries.iter().filter(|row| row.set == set.name);
        // How much of a cell there is, in a bench that was not finished.
        let is_partial = of_set().any(|row| row.searches < all);
        let mut head = HEAD.to_vec();
        if is_partial {
            head.insert(1, "done");
        }
        let mut table = Table::new(&head);
        for row in of_set() {
            let mut cells = cells(row);
            if is_partial {
                cells.insert(1, format!("{} of {all}", row.searches));
            }
            table.row(cells);
        }
        table.write(&mut out)?;
    }
    out.flush()
}

/// Columns of the table.
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

/// A summary as cells of the table.
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
