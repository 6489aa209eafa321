//! The values of a cell on a set, computed from its rows over all problems and seeds.

use std::collections::HashMap;
use std::path::Path;

use beamgen::eval::Spent;
use beamgen::eval::metrics::Interval;

use beamgen::result::Ledger;

use super::outline::{Cell, Outline};
use super::row::Row;
use super::summary::Summary;
pub(super) use crate::intervals::{BOOTSTRAP_SEED, interval, paired};
use crate::{Error, Share};

/// A cell on a set. The vectors of numbers have a mean over seeds for each problem, in the set's order.
pub(super) struct Measured<'a> {
    pub set: usize,
    pub cell: &'a Cell,
    /// The rows of each problem, in the order of seeds.
    pub rows: Vec<Vec<&'a Row>>,
    pub right: Vec<f64>,
    pub generated: Vec<f64>,
    /// Generated plus scored tokens, the cost of both models.
    pub tokens: Vec<f64>,
    /// The problems' shares of the wall-clock time in seconds. The mean of the shares is the time of the run divided
    /// by the number of problems.
    pub seconds: Vec<f64>,
    /// The floating-point operations of both models; 0 if those of a model are unknown.
    pub flops: Vec<f64>,
}

impl<'a> Measured<'a> {
    fn new(set: usize, cell: &'a Cell, rows: Vec<Vec<&'a Row>>) -> Self {
        let right = by_problem(&rows, |row| f64::from(u8::from(row.correct)));
        let generated = by_problem(&rows, |row| row.ledger.generated_tokens as f64);
        let tokens = by_problem(&rows, |row| {
            (row.ledger.generated_tokens + row.ledger.scored_tokens) as f64
        });
        let flops = by_problem(&rows, |row| row.ledger.total_flops().unwrap_or(0) as f64);
        let mut seconds = by_problem(&rows, |row| row.ledger.seconds.total());
        // Problems run concurrently, so the sum of their own seconds differs from the time of the run. The scale
        // makes both equal.
        let scale = wall(&rows)
            / rows
                .iter()
                .flatten()
                .map(|row| row.ledger.seconds.total())
                .sum::<f64>();
        // If all seconds are 0, the scale is not finite and is not applied.
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
            flops,
        }
    }

    pub(super) fn n(&self) -> usize {
        self.cell.n()
    }

    pub(super) fn accuracy(&self) -> Interval {
        interval(&self.right)
    }

    /// Returns the share of searches with any right chain; `None` if a row does not say.
    fn any_right(&self) -> Option<Share> {
        let all = self.rows.iter().flatten();
        all.clone().all(|row| row.any_right.is_some()).then(|| {
            let any = |row: &Row| f64::from(u8::from(row.any_right == Some(true)));
            Share::over(&by_problem(&self.rows, any))
        })
    }

    /// Returns the mean of a value over all rows, that is over problems and seeds.
    pub(super) fn mean(&self, value: impl Fn(&Row) -> f64) -> f64 {
        let all = self.rows.iter().flatten();
        all.map(|row| value(row)).sum::<f64>() / self.rows.iter().flatten().count() as f64
    }

    pub(super) fn summary(&self, outline: &Outline) -> Summary {
        let accuracy = self.accuracy();
        let mut ledger = Ledger::default();
        for row in self.rows.iter().flatten() {
            ledger += &row.ledger;
        }
        let excess = ledger.excess();
        let mut ledger = Spent::of_run(&ledger, 0.0);
        // Problems share the machine, so the time of the run is not the sum of their seconds.
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
            any: self.any_right(),
            sees_outcomes: config.search.uses_outcomes(),
            ledger,
            excess,
            peak_kv_is_bound: self.rows.iter().flatten().any(|row| row.without_scores),
            sound: None,
            twins: None,
        }
    }
}

/// Returns the mean of a value over the seeds, for each problem.
fn by_problem(rows: &[Vec<&Row>], value: impl Fn(&Row) -> f64) -> Vec<f64> {
    rows.iter()
        .map(|rows| rows.iter().map(|row| value(row)).sum::<f64>() / rows.len() as f64)
        .collect()
}

pub(super) fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len().max(1) as f64
}

pub(super) fn mean_over(values: &[f64], problems: &[usize]) -> f64 {
    problems.iter().map(|&i| values[i]).sum::<f64>() / problems.len() as f64
}

/// Returns the wall-clock time of the run in seconds, the sum over all uninterrupted stretches. A stretch ends with
/// its last result, so the time between this and a kill is not counted.
fn wall(rows: &[Vec<&Row>]) -> f64 {
    let mut stretches: HashMap<(u64, u32), f64> = HashMap::new();
    for row in rows.iter().flatten() {
        let last = stretches.entry((row.seed, row.part)).or_default();
        *last = last.max(row.wall);
    }
    let mut seconds: Vec<f64> = stretches.into_values().collect();
    // Sorting fixes the order of addition. The order of a hash map is different in each process and would change the
    // rounding.
    seconds.sort_by(f64::total_cmp);
    seconds.iter().sum()
}

/// Groups the rows of a finished bench by set and cell. Rows that the outline does not have are ignored.
pub(super) fn measured<'a>(
    outline: &'a Outline,
    rows: &'a [Row],
    source: &Path,
) -> Result<Vec<Measured<'a>>, Error> {
    let rows = by_key(rows);
    cells(outline)
        .map(|(set, cell)| {
            let of = &outline.sets[set];
            let mut found = Vec::with_capacity(of.ids.len());
            for id in &of.ids {
                let mut of_problem = Vec::new();
                for seed in seeds(outline, cell) {
                    let row = rows.get(&(&*of.name, &*cell.run, cell.n(), seed, &**id));
                    of_problem.push(*row.ok_or_else(|| Error::NoRow {
                        path: source.to_owned(),
                        cell: format!("set \"{}\", {}", of.name, cell.label()),
                        id: id.clone(),
                        seed,
                    })?);
                }
                found.push(of_problem);
            }
            Ok(Measured::new(set, cell, found))
        })
        .collect()
}

/// Groups the rows of an unfinished bench. Cells and problems without rows are left out.
pub(super) fn measured_so_far<'a>(outline: &'a Outline, rows: &'a [Row]) -> Vec<Measured<'a>> {
    let rows = by_key(rows);
    cells(outline)
        .filter_map(|(set, cell)| {
            let of = &outline.sets[set];
            let all = of.ids.iter().map(|id: &'a String| -> Vec<&Row> {
                seeds(outline, cell)
                    .filter_map(|seed| rows.get(&(&*of.name, &*cell.run, cell.n(), seed, &**id)))
                    .copied()
                    .collect()
            });
            // Means are over the problems with rows.
            let some: Vec<Vec<&Row>> = all.filter(|rows| !rows.is_empty()).collect();
            (!some.is_empty()).then(|| Measured::new(set, cell, some))
        })
        .collect()
}

fn cells(outline: &Outline) -> impl Iterator<Item = (usize, &Cell)> {
    (0..outline.sets.len()).flat_map(|set| outline.cells.iter().map(move |cell| (set, cell)))
}

fn seeds(outline: &Outline, cell: &Cell) -> impl Iterator<Item = u64> + use<> {
    // The seed of the cell and the following ones, as `Series::new` uses them.
    let first = cell.config.generator.seed;
    (0..outline.seeds).map(move |offset| first.wrapping_add(offset))
}

/// Set, run, N, seed and problem.
type Key<'a> = (&'a str, &'a str, usize, u64, &'a str);

fn by_key<'a>(rows: &'a [Row]) -> HashMap<Key<'a>, &'a Row> {
    rows.iter()
        .map(|row| ((&*row.set, &*row.run, row.n, row.seed, &*row.id), row))
        .collect()
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
