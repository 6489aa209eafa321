//! Gold accuracy and the reward model's own score of the answers over N, and where they part: past
//! that N a wider search finds what the reward model takes for right (over-optimisation).

use beamgen::eval::metrics::Interval;
use beamgen::scorer::ScorerKind;
use serde::Serialize;

use super::measured::{Measured, interval, mean, paired};
use super::outline::distinct;

/// A run that a reward model chose in, over its numbers of chains.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(super) struct OverN {
    pub set: String,
    pub run: String,
    /// By rising N; at least two.
    pub points: Vec<Point>,
    pub turning: Option<Turning>,
}

/// A number of chains.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(super) struct Point {
    pub n: usize,
    pub accuracy: Interval,
    /// The mean score of the chosen chain; a search without an answer has earned none.
    pub reward: Interval,
    /// Accuracy less that at the smallest N, paired by problem.
    pub gain: Interval,
}

/// Accuracy is highest here, and is lost at a larger N while the reward is not.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub(super) struct Turning {
    pub n: usize,
    /// The larger N at which accuracy is lowest.
    pub lost_at: usize,
    /// Accuracy there less the highest; the interval is paired and below 0.
    pub lost: Interval,
}

impl OverN {
    /// `cells` are those of one set. Runs of one N, and those without a reward model, have none.
    pub(super) fn all(set: &str, cells: &[&Measured<'_>]) -> Vec<Self> {
        let runs = distinct(cells.iter().map(|cell| cell.cell.run.as_str()));
        let of_run = |run: &str| {
            let of_run = cells.iter().filter(|cell| cell.cell.run == run);
            let mut columns: Vec<Column> = of_run.filter_map(|cell| Column::of(cell)).collect();
            columns.sort_by_key(|column| column.n);
            (columns.len() > 1).then(|| Self {
                set: set.to_owned(),
                run: run.to_owned(),
                points: columns.iter().map(|of| of.point(&columns[0])).collect(),
                turning: turning(&columns),
            })
        };
        runs.into_iter().filter_map(of_run).collect()
    }
}

/// A cell's values by problem.
struct Column {
    n: usize,
    right: Vec<f64>,
    reward: Vec<f64>,
}

impl Column {
    /// `None` if no reward model scored the cell's chains. The exact checker is none: it is the gold.
    fn of(cell: &Measured<'_>) -> Option<Self> {
        let rows = || cell.rows.iter().flatten();
        let is_judged = cell.cell.config.models.scorer != ScorerKind::Exact
            && rows().any(|row| row.score.is_some() && !row.without_scores);
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

    /// Accuracy less another's, paired by problem.
    fn less(&self, other: &Self) -> Interval {
        paired(&self.right, &other.right)
    }
}

/// `columns` are by rising N.
fn turning(columns: &[Column]) -> Option<Turning> {
    let better = |best: usize, at: usize| mean(&columns[at].right) > mean(&columns[best].right);
    let best = (1..columns.len()).fold(0, |best, at| if better(best, at) { at } else { best });
    let (best, later) = (&columns[best], &columns[best + 1..]);
    let lost = later.iter().filter_map(|column| {
        let lost = column.less(best);
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

    /// So many of 100 problems right, in their order, and the same reward for all.
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
