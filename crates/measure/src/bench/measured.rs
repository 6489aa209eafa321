//! Rows put together: a cell on a set, over all problems and seeds.

use std::collections::HashMap;
use std::path::Path;

use beamgen::eval::Spent;
use beamgen::eval::metrics::Interval;

use super::outline::{Cell, Outline};
use super::row::Row;
use super::summary::Summary;
use crate::Error;
pub(super) use crate::intervals::{BOOTSTRAP_SEED, interval, paired};

/// A cell on a set. Vectors are by problem, in the set's order: means over the seeds.
pub(super) struct Measured<'a> {
    pub set: usize,
    pub cell: &'a Cell,
    /// By problem, then by seed.
    pub rows: Vec<Vec<&'a Row>>,
    pub right: Vec<f64>,
    pub generated: Vec<f64>,
    /// Generated and scored together.
    pub tokens: Vec<f64>,
    /// Shares of the wall-clock time: their mean is the run's time divided by the problems.
    pub seconds: Vec<f64>,
}

impl<'a> Measured<'a> {
    fn new(set: usize, cell: &'a Cell, rows: Vec<Vec<&'a Row>>) -> Self {
        let by_problem = |value: &dyn Fn(&Row) -> f64| -> Vec<f64> {
            let mean = |rows: &Vec<&Row>| {
                rows.iter().map(|row| value(row)).sum::<f64>() / rows.len() as f64
            };
            rows.iter().map(mean).collect()
        };
        let right = by_problem(&|row| f64::from(u8::from(row.correct)));
        let generated = by_problem(&|row| row.ledger.generated_tokens as f64);
        let tokens =
            by_problem(&|row| (row.ledger.generated_tokens + row.ledger.scored_tokens) as f64);
        let mut seconds = by_problem(&|row| row.ledger.seconds.total());
        let booked = |row: &&Row| row.ledger.seconds.total();
        let scale = wall(&rows) / rows.iter().flatten().map(booked).sum::<f64>();
        if scale.is_finite() {
            for seconds in seconds.iter_mut() {
                *seconds *= scale;
            }
        }
        Self {
            set,
            cell,
            rows,
            right,
            generated,
            tokens,
            seconds,
        }
    }

    /// N: chains per problem.
    pub(super) fn n(&self) -> usize {
        self.cell.n()
    }

    pub(super) fn accuracy(&self) -> Interval {
        interval(&self.right)
    }

    /// The mean over all rows.
    pub(super) fn mean(&self, value: impl Fn(&Row) -> f64) -> f64 {
        let all = self.rows.iter().flatten();
        all.map(|row| value(row)).sum::<f64>() / self.rows.iter().flatten().count() as f64
    }

    pub(super) fn summary(&self, outline: &Outline) -> Summary {
        let accuracy = self.accuracy();
        let mut ledger = Spent::default();
        for row in self.rows.iter().flatten() {
            ledger.add(&Spent::new(&row.ledger, 0.0));
        }
        ledger.seconds = wall(&self.rows);
        let config = &self.cell.config;
        Summary {
            set: outline.sets[self.set].name.clone(),
            name: self.cell.label(),
            run: self.cell.run.clone(),
            strategy: config.search.strategy,
            scorer: config.models.scorer,
            n: self.n(),
            m: config.search.m,
            seeds: outline.seeds,
            problems: self.rows.len(),
            searches: self.rows.iter().flatten().count(),
            accuracy: accuracy.mean,
            accuracy_low: accuracy.low,
            accuracy_high: accuracy.high,
            ledger,
            peak_kv_is_bound: self.rows.iter().flatten().any(|row| row.without_scores),
            sound: None,
            twins: None,
        }
    }
}

pub(super) fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len().max(1) as f64
}

/// The mean of some problems' values.
pub(super) fn mean_over(values: &[f64], problems: &[usize]) -> f64 {
    problems.iter().map(|&i| values[i]).sum::<f64>() / problems.len() as f64
}

/// Seconds of all uninterrupted stretches. A stretch lasts until its last result: what a killed one
/// did after that is lost and not counted.
fn wall(rows: &[Vec<&Row>]) -> f64 {
    let mut stretches: HashMap<(u64, u32), f64> = HashMap::new();
    for row in rows.iter().flatten() {
        let last = stretches.entry((row.seed, row.part)).or_default();
        *last = last.max(row.wall);
    }
    let mut seconds: Vec<f64> = stretches.into_values().collect();
    // Summed in an order of its own: a map's changes from run to run.
    seconds.sort_by(f64::total_cmp);
    seconds.iter().sum()
}

/// All cells on all sets, by set and then by cell. Rows of other benches in the folder are ignored;
/// a missing one is an error.
pub(super) fn measured<'a>(
    outline: &'a Outline,
    rows: &'a [Row],
    source: &Path,
) -> Result<Vec<Measured<'a>>, Error> {
    let rows = by_key(rows);
    let complete = |(set, cell): (usize, &'a Cell)| {
        let of = &outline.sets[set];
        let row = |id: &'a String, seed: u64| {
            let found = rows.get(&(&*of.name, &*cell.run, cell.n(), seed, &**id));
            found.copied().ok_or_else(|| Error::NoRow {
                path: source.to_owned(),
                cell: format!("set \"{}\", {}", of.name, cell.label()),
                id: id.clone(),
                seed,
            })
        };
        let of_problem = |id| seeds(outline, cell).map(|seed| row(id, seed)).collect();
        let rows = of.ids.iter().map(of_problem);
        let rows = rows.collect::<Result<Vec<Vec<&Row>>, Error>>()?;
        Ok(Measured::new(set, cell, rows))
    };
    cells(outline).map(complete).collect()
}

/// What there is of a bench that was not finished: cells with any row, on the problems with any.
pub(super) fn measured_so_far<'a>(outline: &'a Outline, rows: &'a [Row]) -> Vec<Measured<'a>> {
    let rows = by_key(rows);
    let there = |(set, cell): (usize, &'a Cell)| {
        let of = &outline.sets[set];
        let of_problem = |id: &'a String| -> Vec<&Row> {
            let of_seed = |seed| rows.get(&(&*of.name, &*cell.run, cell.n(), seed, &**id));
            seeds(outline, cell).filter_map(of_seed).copied().collect()
        };
        let all = of.ids.iter().map(of_problem);
        let some: Vec<Vec<&Row>> = all.filter(|rows| !rows.is_empty()).collect();
        (!some.is_empty()).then(|| Measured::new(set, cell, some))
    };
    cells(outline).filter_map(there).collect()
}

fn cells(outline: &Outline) -> impl Iterator<Item = (usize, &Cell)> {
    let of_set = |set| outline.cells.iter().map(move |cell| (set, cell));
    (0..outline.sets.len()).flat_map(of_set)
}

fn seeds(outline: &Outline, cell: &Cell) -> impl Iterator<Item = u64> + use<> {
    let first = cell.config.generator.seed;
    (0..outline.seeds).map(move |offset| first.wrapping_add(offset))
}

/// Set, run, N, seed and problem.
type Key<'a> = (&'a str, &'a str, usize, u64, &'a str);

fn by_key<'a>(rows: &'a [Row]) -> HashMap<Key<'a>, &'a Row> {
    let key = |row: &'a Row| (&*row.set, &*row.run, row.n, row.seed, &*row.id);
    rows.iter().map(|row| (key(row), row)).collect()
}

#[cfg(test)]
mod tests {
    use beamgen::result::Ledger;
    use serde_json::json;

    use super::*;

    fn row(seed: u64, part: u32, wall: f64) -> Row {
        let row = json!({
            "set": "s", "run": "r", "n": 1, "m": 1, "scorer": "none", "seed": seed, "id": "p", "correct": true,
            "answer": "1", "score": null, "finish": "answer", "ledger": Ledger::default(), "part": part, "wall": wall,
            "depths": {"sampled": [], "kept": [], "scored": []},
        });
        serde_json::from_value(row).unwrap()
    }

    #[test]
    fn the_time_of_a_run_is_that_of_its_stretches() {
        // Two seeds; the first was killed and continued.
        let rows = [
            row(0, 0, 2.0),
            row(0, 0, 3.0),
            row(0, 1, 1.5),
            row(1, 0, 4.0),
            row(1, 0, 4.5),
            row(1, 0, 0.5),
        ];
        let by_problem: Vec<Vec<&Row>> = (0..3).map(|i| vec![&rows[i], &rows[i + 3]]).collect();
        assert_eq!(wall(&by_problem), 3.0 + 1.5 + 4.5);
    }
}
