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
    /// The label of the cell, such as `beam@16`.
    pub name: String,
    /// The name of the run.
    pub run: String,
    /// The strategy of the search, without its preset.
    pub strategy: StrategyKind,
    /// The kind of scorer; `none` for samples and votes.
    pub scorer: ScorerKind,
    /// N, the number of chains.
    pub n: usize,
    /// M, the number of expansions.
    pub m: usize,
    /// The number of seeds of each problem.
    pub seeds: u64,
    /// The number of problems with rows.
    pub problems: usize,
    /// The number of searches: problems times seeds, or fewer in an unfinished bench.
    pub searches: usize,
    /// The mean accuracy over problems and seeds.
    pub accuracy: f64,
    /// The lower end of its 95 % interval over problems.
    pub accuracy_low: f64,
    /// The upper end of its 95 % interval over problems.
    pub accuracy_high: f64,
    /// The cost of all problems and seeds together. A pass counts once for each problem with a row
    /// in it; the peak is that of the problem with the largest.
    pub ledger: Spent,
    /// Whether the peak memory is an upper bound.
    pub peak_kv_is_bound: bool,
    /// Right answers by sound chains; `None` unless chains were audited.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sound: Option<Sound>,
    /// Pairs of twins with right answers to both; `None` for a set without twins.
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
    /// Whether the cell's chains were audited or its set has twins.
    #[must_use]
    pub fn has_soundness(&self) -> bool {
        self.sound.is_some() || self.twins.is_some()
    }

    /// Divides a total by the number of searches, for tables.
    fn each(&self, total: u64) -> String {
        grouped((total as f64 / self.searches as f64).round() as u64)
    }
}

/// Right answers of a cell whose chains were audited, and the number of sound ones.
#[derive(Clone, Debug, Serialize)]
pub struct Sound {
    /// The share of problems with a right answer by a sound chain: the mean over problems and
    /// seeds, with its interval over problems.
    #[serde(flatten)]
    pub share: Share,
    /// The number of searches with a right answer.
    pub right: usize,
    /// The number of right answers by unsound chains, by the kinds of [`Evidence::ALL`].
    pub unsound: [usize; 3],
}

/// Pairs of twins: problems that differ only in their numbers.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Twins {
    /// The share of pairs with right answers to both, with its interval over pairs.
    #[serde(flatten)]
    pub share: Share,
    /// The number of pairs of twins in the set.
    pub pairs: usize,
}

/// The columns of the table of soundness, for rows with [`Summary::has_soundness`].
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
    // `unsound` is in the order of the variants of `Evidence`.
    sound.map_or("-".to_owned(), |of| of.unsound[by as usize].to_string())
}
