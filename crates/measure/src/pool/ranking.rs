//! The table of a pool: a row for each way to choose.

use serde::Serialize;

use super::row::Row;
use super::selector::{Counts, MAJORITY, Selector};
use crate::intervals::{interval, paired};
use crate::percent;
use crate::report::markdown::{Column, between, points, share};

/// A way to choose among all solutions of each problem.
#[derive(Clone, Debug, Serialize)]
pub struct Ranked {
    /// The name of the set.
    pub set: String,
    /// The way to choose.
    pub selector: String,
    /// The number of problems.
    pub problems: usize,
    /// The number of solutions.
    pub solutions: usize,
    /// The mean over problems, with its 95 % interval over problems.
    pub accuracy: f64,
    /// The lower end of its interval.
    pub accuracy_low: f64,
    /// The upper end of its interval.
    pub accuracy_high: f64,
    /// Accuracy less that of the majority vote, paired by problem; `null` for that vote itself.
    pub over_majority: Option<f64>,
    /// The lower end of its interval.
    pub over_majority_low: Option<f64>,
    /// The upper end of its interval.
    pub over_majority_high: Option<f64>,
    /// The share of problems with a right answer from a solution without a wrong step; `null` where
    /// nothing is known of steps.
    pub sound: Option<f64>,
    /// The lower end of its interval.
    pub sound_low: Option<f64>,
    /// The upper end of its interval.
    pub sound_high: Option<f64>,
    /// Whether plots show it.
    #[serde(skip)]
    pub(super) is_main: bool,
}

/// The columns of the table: the heading of each, and its cell in a row.
pub const COLUMNS: [Column<Ranked>; 5] = [
    ("selector", |row| row.selector.clone()),
    ("accuracy, %", |row| {
        between(row.accuracy, (row.accuracy_low, row.accuracy_high), share)
    }),
    ("points over majority", |row| {
        let ends = (row.over_majority_low, row.over_majority_high);
        optional(row.over_majority, ends, points)
    }),
    ("right and sound, %", |row| {
        optional(row.sound, (row.sound_low, row.sound_high), share)
    }),
    ("unsound among right", |row| {
        let unsound = |sound: f64| {
            let right = row.accuracy.max(f64::MIN_POSITIVE);
            percent(((right - sound) / right).max(0.0))
        };
        row.sound.map_or("-".to_owned(), unsound)
    }),
];

fn optional(
    value: Option<f64>,
    ends: (Option<f64>, Option<f64>),
    number: fn(f64) -> String,
) -> String {
    match (value, ends) {
        (Some(value), (Some(low), Some(high))) => between(value, (low, high), number),
        _ => "-".to_owned(),
    }
}

/// The table of one set.
pub(super) fn ranking(set: &str, selectors: &[Selector], rows: &[&Row]) -> Vec<Ranked> {
    let values = |selector: &Selector, counts| -> Vec<f64> {
        let value = |(number, row): (usize, &&Row)| {
            let value = selector.value(row, row.len(), counts, number as u64);
            value.unwrap_or(0.0)
        };
        rows.iter().enumerate().map(value).collect()
    };
    let majority = selectors.iter().find(|of| of.name == MAJORITY);
    let majority = majority.map_or_else(Vec::new, |of| values(of, Counts::Right));
    let knows_steps = rows.iter().any(|row| row.knows_steps());
    let row = |selector: &Selector| {
        let right = values(selector, Counts::Right);
        let accuracy = interval(&right);
        let over = (selector.name != MAJORITY).then(|| paired(&right, &majority));
        let sound = knows_steps.then(|| interval(&values(selector, Counts::Sound)));
        Ranked {
            set: set.to_owned(),
            selector: selector.name.clone(),
            problems: rows.len(),
            solutions: rows.iter().map(|row| row.len()).sum(),
            accuracy: accuracy.mean,
            accuracy_low: accuracy.low,
            accuracy_high: accuracy.high,
            over_majority: over.map(|of| of.mean),
            over_majority_low: over.map(|of| of.low),
            over_majority_high: over.map(|of| of.high),
            sound: sound.map(|of| of.mean),
            sound_low: sound.map(|of| of.low),
            sound_high: sound.map(|of| of.high),
            is_main: selector.is_main,
        }
    };
    selectors.iter().map(row).collect()
}
