//! The table of a bench: a row for each cell on each set.

use beamgen::StrategyKind;
use beamgen::eval::Spent;
use beamgen::result::Evidence;
use beamgen::scorer::ScorerKind;
use serde::Serialize;

use crate::report::markdown::{Column, decimal, share};
use crate::rerank::Share;
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
    /// Right answers by sound chains, of chains that were audited.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sound: Option<Sound>,
    /// Pairs of twins that are right on both, of a set with twins.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub twins: Option<Twins>,
}

/// The columns of the table: the heading of each, and its cell in a row.
pub const COLUMNS: [Column<Summary>; 9] = [
    ("strategy", |row| row.name.clone()),
    ("accuracy", |row| percent(row.accuracy)),
    ("95 % interval", |row| {
        let ends = (share(row.accuracy_low), share(row.accuracy_high));
        format!("{} to {}", ends.0, ends.1)
    }),
    ("generated", |row| row.each(row.ledger.generated_tokens)),
    ("scored", |row| row.each(row.ledger.scored_tokens)),
    ("reused", |row| row.each(row.ledger.reused_tokens)),
    ("passes", |row| row.each(row.ledger.forward_passes)),
    ("peak KV", |row| {
        let bound = if row.peak_kv_is_bound {
            "\u{2264} "
        } else {
            ""
        };
        format!("{bound}{}", megabytes(row.ledger.peak_kv_bytes))
    }),
    ("seconds", |row| {
        decimal(row.ledger.seconds / row.searches as f64)
    }),
];

impl Summary {
    /// Whether its chains were audited, or its set has twins.
    #[must_use]
    pub fn has_soundness(&self) -> bool {
        self.sound.is_some() || self.twins.is_some()
    }

    /// The part of a total that each search has.
    fn each(&self, total: u64) -> String {
        grouped((total as f64 / self.searches as f64).round() as u64)
    }
}

/// Right answers, and how many of them are sound, of a cell whose chains were audited.
#[derive(Clone, Debug, Serialize)]
pub struct Sound {
    /// The share of problems that are right by a sound chain: mean over problems and seeds, with its
    /// interval over problems.
    #[serde(flatten)]
    pub share: Share,
    /// Right searches.
    pub right: usize,
    /// The unsound ones among them, by [`Evidence::ALL`].
    pub unsound: [usize; 3],
}

/// Pairs of twins.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Twins {
    /// The share of them that are right on both, with its interval over pairs.
    #[serde(flatten)]
    pub share: Share,
    /// The number of pairs.
    pub pairs: usize,
}

/// The columns of the table of soundness, of rows for which [`Summary::has_soundness`].
pub const SOUND_COLUMNS: [Column<Summary>; 7] = [
    ("strategy", |row| row.name.clone()),
    ("right", |row| percent(row.accuracy)),
    ("right and sound", |row| {
        let sound = row.sound.as_ref();
        sound.map_or("-".to_owned(), |of| of.share.shown())
    }),
    ("unsound right ones", |row| {
        let sound = row.sound.as_ref();
        sound.map_or("-".to_owned(), |of| {
            let unsound: usize = of.unsound.iter().sum();
            format!("{unsound} of {}", of.right)
        })
    }),
    ("proved by a checker", |row| {
        found_by(row, Evidence::Checker)
    }),
    ("below the bound", |row| found_by(row, Evidence::Scorer)),
    ("right on both twins", |row| {
        row.twins.map_or("-".to_owned(), |of| {
            format!("{}, {} pairs", of.share.shown(), of.pairs)
        })
    }),
];

fn found_by(row: &Summary, by: Evidence) -> String {
    let sound = row.sound.as_ref();
    sound.map_or("-".to_owned(), |of| of.unsound[by as usize].to_string())
}
