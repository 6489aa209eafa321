//! The main table of a pool, with a row for each selector.

use serde::Serialize;

use super::row::Row;
use super::selector::{Counts, MAJORITY, Selector};
use crate::intervals::{interval, paired};
use crate::percent;
use crate::report::markdown::{Column, between, points, share};

/// The figures of one selector, if it chooses among all solutions of each problem.
#[derive(Clone, Debug, Serialize)]
pub struct Ranked {
    /// The name of the set.
    pub set: String,
    /// The name of the selector, unique in the table of the set.
    pub selector: String,
    /// The number of problems, which are the units of all intervals.
    pub problems: usize,
    /// The number of solutions of all problems together.
    pub solutions: usize,
    /// The probability that the choice is right, as a mean over problems.
    pub accuracy: f64,
    /// The lower end of the accuracy's 95 % interval over problems.
    pub accuracy_low: f64,
    /// The upper end of the accuracy's 95 % interval over problems.
    pub accuracy_high: f64,
    /// The accuracy minus that of the majority vote, as a mean of paired differences. `None` for the majority vote.
    pub over_majority: Option<f64>,
    /// The lower end of the 95 % interval of `over_majority`.
    pub over_majority_low: Option<f64>,
    /// The upper end of the 95 % interval of `over_majority`.
    pub over_majority_high: Option<f64>,
    /// The probability that the choice is right and has no wrong step, as a mean over problems. `None` if nothing is
    /// known about steps.
    pub sound: Option<f64>,
    /// The lower end of the 95 % interval of `sound`.
    pub sound_low: Option<f64>,
    /// The upper end of the 95 % interval of `sound`.
    pub sound_high: Option<f64>,
    /// True if figures and curves include this selector.
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
        row.sound.map_or("-".to_owned(), |sound: f64| {
            // If no answer is right, this bound replaces a division by 0.
            let right = row.accuracy.max(f64::MIN_POSITIVE);
            percent(((right - sound) / right).max(0.0))
        })
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

/// Makes the table of a set; `rows` has the problems of this set only.
pub(super) fn ranking(set: &str, selectors: &[Selector], rows: &[&Row]) -> Vec<Ranked> {
    let majority = selectors.iter().find(|of| of.name == MAJORITY);
    let majority = majority.map_or_else(Vec::new, |of| values(rows, of, Counts::Right));
    // If nothing is known about steps, all right answers would count as sound, which would mislead.
    let knows_steps = rows.iter().any(|row| row.knows_steps());
    selectors
        .iter()
        .map(|selector| {
            let right = values(rows, selector, Counts::Right);
            let accuracy = interval(&right);
            // The difference of the majority vote to itself is left out.
            let over = (selector.name != MAJORITY).then(|| paired(&right, &majority));
            let sound = knows_steps.then(|| interval(&values(rows, selector, Counts::Sound)));
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
        })
        .collect()
}

/// Returns the probability of a right choice among all solutions, for each problem.
fn values(rows: &[&Row], selector: &Selector, counts: Counts) -> Vec<f64> {
    rows.iter()
        .enumerate()
        .map(|(number, row)| {
            let value = selector.value(row, row.len(), counts, number as u64);
            // Without solutions there is no right choice.
            value.unwrap_or(0.0)
        })
        .collect()
}
