//! Accuracy and mean reward as functions of N, and the N at which they diverge. Above that N, a search finds more
//! chains that only the reward model considers right (over-optimisation; Gao et al., arXiv 2210.10760).

use beamgen::eval::metrics::Interval;
use beamgen::scorer::ScorerKind;
use serde::Serialize;

use super::measured::{Measured, interval, mean, paired};
use super::outline::distinct;

/// The curve of a run whose answers a reward model chose, over N.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(super) struct OverN {
    pub set: String,
    pub run: String,
    /// The points of the curve, sorted by N. One point would not be a curve, so there are at least two.
    pub points: Vec<Point>,
    pub turning: Option<Turning>,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
pub(super) struct Point {
    pub n: usize,
    pub accuracy: Interval,
    /// The mean score of the chosen chain; a search without a chosen chain counts as 0.
    pub reward: Interval,
    /// The accuracy minus that at the smallest N, with a paired interval over problems.
    pub gain: Interval,
}

/// The N with the highest accuracy, if at a larger N the accuracy is lower and the reward is not.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub(super) struct Turning {
    pub n: usize,
    /// The larger N at which accuracy is lowest.
    pub lost_at: usize,
    /// The accuracy at `lost_at` minus that at `n`. The whole paired interval is below 0.
    pub lost: Interval,
}

impl OverN {
    /// Makes the curves of the runs in `cells`, which are of one set. A run with only one N, or without a reward
    /// model, has none.
    pub(super) fn all(set: &str, cells: &[&Measured<'_>]) -> Vec<Self> {
        let runs = distinct(cells.iter().map(|cell| cell.cell.run.as_str()));
        runs.into_iter()
            .filter_map(|run| {
                let of_run = cells.iter().filter(|cell| cell.cell.run == run);
                let mut columns: Vec<Column> = of_run.filter_map(|cell| Column::of(cell)).collect();
                columns.sort_by_key(|column| column.n);
                (columns.len() > 1).then(|| Self {
                    set: set.to_owned(),
                    run: run.to_owned(),
                    points: columns.iter().map(|of| of.point(&columns[0])).collect(),
                    turning: turning(&columns),
                })
            })
            .collect()
    }
}

/// The values of a cell, each with one number for each problem.
struct Column {
    n: usize,
    right: Vec<f64>,
    reward: Vec<f64>,
}

impl Column {
    /// Returns `None` if no reward model scored the chains. The exact checker does not count, because its scores are
    /// the truth.
    fn of(cell: &Measured<'_>) -> Option<Self> {
        let mut rows = cell.rows.iter().flatten();
        let is_judged = cell.cell.config.models.scorer != ScorerKind::Exact
            && rows.any(|row| row.score.is_some() && !row.without_scores);
        let reward = cell.rows.iter().map(|rows| {
            let scores = rows.iter().map(|row| f64::from(row.score.unwrap_or(0.0)));
            scores.sum::<f64>() / rows.len() as f64
        });
        is_judged.then(|| Self {
            n: cell.n(),
            right: cell.right.clone(),
            reward: reward.collect(),
        })
    }

    fn point(&self, smallest: &Self) -> Point {
        Point {
            n: self.n,
            accuracy: interval(&self.right),
            reward: interval(&self.reward),
            gain: self.less(smallest),
        }
    }

    /// Returns the accuracy minus that of `other`, with a paired interval over problems.
    fn less(&self, other: &Self) -> Interval {
        paired(&self.right, &other.right)
    }
}

/// Finds the turning point of a run. `columns` must be sorted by N.
fn turning(columns: &[Column]) -> Option<Turning> {
    // Only a higher accuracy replaces the best one, so in a tie the smaller N stays.
    let mut best = 0;
    for at in 1..columns.len() {
        if mean(&columns[at].right) > mean(&columns[best].right) {
            best = at;
        }
    }
    let (best, later) = (&columns[best], &columns[best + 1..]);
    let lost = later.iter().filter_map(|column| {
        let lost = column.less(best);
        // An interval below 0 excludes chance as the reason for the loss.
        let is_over = lost.high < 0.0 && mean(&column.reward) >= mean(&best.reward);
        is_over.then_some(Turning {
            n: best.n,
            lost_at: column.n,
            lost,
        })
    });
    lost.min_by(|a, b| a.lost.mean.total_cmp(&b.lost.mean))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Makes a column of 100 problems, `right` of them right, all with the same reward.
    fn column(n: usize, right: usize, reward: f64) -> Column {
        Column {
            n,
            right: (0..100).map(|i| f64::from(u8::from(i < right))).collect(),
            reward: vec![reward; 100],
        }
    }

    #[test]
    fn the_turning_point_is_the_best_n_of_a_run_that_loses_while_its_reward_rises() {
        let columns = [
            column(4, 60, 0.6),
            column(16, 90, 0.8),
            column(64, 80, 0.9),
            column(256, 70, 0.95),
        ];
        let found = turning(&columns).expect("a turning point");
        assert_eq!((found.n, found.lost_at), (16, 256));
        assert!((found.lost.mean + 0.2).abs() < 1e-9 && found.lost.high < 0.0);
    }

    #[test]
    fn neither_a_gain_nor_noise_nor_a_falling_reward_is_a_turning_point() {
        assert_eq!(turning(&[column(4, 60, 0.6), column(16, 90, 0.8)]), None);
        assert_eq!(turning(&[column(4, 90, 0.6), column(16, 89, 0.8)]), None);
        assert_eq!(turning(&[column(4, 90, 0.9), column(16, 60, 0.8)]), None);
    }
}
