//! The table of a bench: a row for each cell on each set.

use beamgen::StrategyKind;
use beamgen::eval::Spent;
use beamgen::result::Evidence;
use beamgen::scorer::ScorerKind;
use serde::Serialize;

use crate::report::markdown::{Column, decimal, share};
use crate::rerank::Share;
use crate::{grouped, megabytes, operations, percent};

/// A row of the table.
#[derive(Clone, Debug, Serialize)]
pub struct Summary {
    /// The name of the set.
    pub set: String,
    /// The label of the cell, for example `beam@16`.
    pub name: String,
    /// The name of the run.
    pub run: String,
    /// The kind of strategy; several names, such as presets, may have the same kind.
    pub strategy: StrategyKind,
    /// The kind of scorer; `none` if the cell only samples or votes.
    pub scorer: ScorerKind,
    /// N, the number of chains.
    pub n: usize,
    /// M, the number of expansions.
    pub m: usize,
    /// The number of seeds with which each problem is searched.
    pub seeds: u64,
    /// The number of problems with a row; in an unfinished bench it may be smaller than the set.
    pub problems: usize,
    /// The number of rows: problems times seeds, or fewer if the bench is unfinished.
    pub searches: usize,
    /// The share of right answers, as a mean over seeds and then over problems.
    pub accuracy: f64,
    /// The lower end of the accuracy's 95 % interval over problems.
    pub accuracy_low: f64,
    /// The upper end of the accuracy's 95 % interval over problems.
    pub accuracy_high: f64,
    /// The share of searches of which any finished chain is right, a bound on every choice among them: pass@N for
    /// independent samples. `None` if rows of an earlier version do not say.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub any: Option<Share>,
    /// True if the searches saw outcomes of an open verifier.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub sees_outcomes: bool,
    /// The total cost of all rows. A forward pass counts once for each problem in its batch. The peak memory is the
    /// largest of any row.
    pub ledger: Spent,
    /// The operations that the models ran, as a multiple of the fewest operations for each problem alone; `None`
    /// if those of a model are unknown, or rows of an earlier version do not say.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub excess: Option<f64>,
    /// True if the peak memory is only an upper bound.
    pub peak_kv_is_bound: bool,
    /// The right answers by sound chains; `None` if no chain was audited.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sound: Option<Sound>,
    /// The pairs of twins with two right answers; `None` if the set has no twins.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub twins: Option<Twins>,
}

/// The columns of the table: the heading of each, and its cell in a row.
pub const COLUMNS: [Column<Summary>; 13] = [
    ("strategy", |row| {
        let mark = if row.sees_outcomes { " \u{2020}" } else { "" };
        format!("{}{mark}", row.name)
    }),
    ("accuracy", |row| percent(row.accuracy)),
    ("95 % interval", |row| {
        let ends = (share(row.accuracy_low), share(row.accuracy_high));
        format!("{} to {}", ends.0, ends.1)
    }),
    ("any right", |row| {
        row.any.map_or("-".to_owned(), |any| percent(any.share))
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
    ("FLOPs", |row| {
        let each = |total| operations((total as f64 / row.searches as f64) as u64);
        row.ledger.total_flops().map_or("-".to_owned(), each)
    }),
    ("/ least", |row| {
        row.excess
            .map_or("-".to_owned(), |excess| format!("{excess:.2}"))
    }),
    ("width", |row| {
        let width = row.ledger.width.mean();
        width.map_or("-".to_owned(), |width| format!("{width:.2}"))
    }),
];

impl Summary {
    /// Returns whether the cell belongs into the table of soundness: audited, or with twins in its set.
    #[must_use]
    pub fn has_soundness(&self) -> bool {
        self.sound.is_some() || self.twins.is_some()
    }

    fn each(&self, total: u64) -> String {
        grouped((total as f64 / self.searches as f64).round() as u64)
    }
}

/// The right answers of audited searches, by the finding on their chains.
#[derive(Clone, Debug, Serialize)]
pub struct Sound {
    /// The share of right answers by sound chains, as a mean over seeds and problems, with an interval over problems.
    #[serde(flatten)]
    pub share: Share,
    /// The number of searches with a right answer, by a sound chain or not.
    pub right: usize,
    /// The number of right answers by unsound chains, for each kind in [`Evidence::ALL`].
    pub unsound: [usize; 3],
}

/// The result on pairs of problems that differ only in their numbers.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Twins {
    /// The share of pairs with two right answers, with an interval over pairs.
    #[serde(flatten)]
    pub share: Share,
    /// The number of pairs in the set, the units of the interval.
    pub pairs: usize,
}

/// The columns of the table of soundness, whose rows have [`Summary::has_soundness`].
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
