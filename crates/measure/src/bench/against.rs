//! The questions people ask of each strategy: at equal accuracy, how many times fewer tokens and
//! seconds than the baseline; at equal tokens, how many points more.

use beamgen::eval::curve::{Cost, cost_of, position};
use beamgen::eval::metrics::bootstrap_bounds;
use serde::Serialize;

use super::measured::{BOOTSTRAP_SEED, Measured, mean, mean_over, paired};

/// What can be spent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Axis {
    /// Tokens sampled.
    Generated,
    /// Tokens sampled and tokens read by the scorer.
    Tokens,
    /// Wall-clock seconds.
    Seconds,
}

impl Axis {
    pub(super) const ALL: [Self; 3] = [Self::Generated, Self::Tokens, Self::Seconds];

    /// The cost in tables.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Generated => "generated",
            Self::Tokens => "generated and scored",
            Self::Seconds => "seconds",
        }
    }

    pub(super) fn of<'m>(self, measured: &'m Measured<'_>) -> &'m [f64] {
        match self {
            Self::Generated => &measured.generated,
            Self::Tokens => &measured.tokens,
            Self::Seconds => &measured.seconds,
        }
    }
}

/// How many times as much as a cell the baseline spends for the same accuracy.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Fewer {
    pub axis: Axis,
    /// Within `low` and `high`.
    pub factor: f64,
    /// The factor is a bound: `at-most` if the baseline's cheapest point is as accurate already,
    /// `more-than` if it never gets there.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bound: Option<Bound>,
    /// 95 % bootstrap interval: 0 if the baseline's cheapest point may be as accurate already,
    /// infinite (`null`) if it may never get there.
    pub low: f64,
    pub high: f64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Bound {
    AtMost,
    MoreThan,
}

/// The difference in accuracy to the baseline at the same cost.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Points {
    pub axis: Axis,
    pub difference: f64,
    pub low: f64,
    pub high: f64,
    /// The cost is not on the baseline's curve: its nearest end was taken, which is this.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub against_end: Option<String>,
}

/// One strategy at one N against the baseline.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Answer {
    pub set: String,
    pub name: String,
    pub run: String,
    pub accuracy: f64,
    /// By axis, as far as there are costs on it.
    pub fewer: Vec<Fewer>,
    pub points: Vec<Points>,
}

/// The answers for the cells of one set. `baseline` has the cells of the baseline there by rising
/// N.
pub(super) fn answers(
    set: &str,
    baseline: &[&Measured<'_>],
    others: &[&Measured<'_>],
) -> Vec<Answer> {
    if baseline.is_empty() {
        return Vec::new();
    }
    let answer = |cell: &&Measured<'_>| Answer {
        set: set.to_owned(),
        name: cell.cell.label(),
        run: cell.cell.run.clone(),
        accuracy: mean(&cell.right),
        fewer: Axis::ALL
            .iter()
            .filter_map(|&axis| fewer(axis, baseline, cell))
            .collect(),
        points: Axis::ALL
            .iter()
            .filter_map(|&axis| points(axis, baseline, cell))
            .collect(),
    };
    others.iter().map(answer).collect()
}

/// `None` if there is a cost of nothing, which is no part of anything.
fn fewer(axis: Axis, baseline: &[&Measured<'_>], cell: &Measured<'_>) -> Option<Fewer> {
    // By problem: accuracy and cost of every point of the baseline, then those of the cell.
    let columns: Vec<[&[f64]; 2]> = baseline
        .iter()
        .copied()
        .chain([cell])
        .map(|measured| [measured.right.as_slice(), axis.of(measured)])
        .collect();
    let factor = |problems: &[usize]| {
        let point = |of: &[&[f64]; 2]| (mean_over(of[1], problems), mean_over(of[0], problems));
        let mut points: Vec<(f64, f64)> = columns.iter().map(point).collect();
        if points.iter().any(|&(cost, _)| cost <= 0.0) {
            return None;
        }
        let (cost, accuracy) = points.pop()?;
        points.sort_by(|a, b| a.0.total_cmp(&b.0));
        Some(match cost_of(&points, accuracy)? {
            Cost::About(there) => (there / cost, None),
            Cost::AtMost(there) => (there / cost, Some(Bound::AtMost)),
            Cost::MoreThan(there) => (there / cost, Some(Bound::MoreThan)),
        })
    };
    let count = cell.right.len();
    let (estimate, bound) = factor(&(0..count).collect::<Vec<_>>())?;
    let bounds = |problems: &[usize]| match factor(problems) {
        Some((factor, None)) => (factor, factor),
        Some((factor, Some(Bound::AtMost))) => (0.0, factor),
        Some((factor, Some(Bound::MoreThan))) => (factor, f64::INFINITY),
        None => (0.0, f64::INFINITY),
    };
    let (low, high) = bootstrap_bounds(count, BOOTSTRAP_SEED, bounds)?;
    Some(Fewer {
        axis,
        factor: estimate,
        bound,
        low,
        high,
    })
}

/// `None` if the baseline has no costs.
fn points(axis: Axis, baseline: &[&Measured<'_>], cell: &Measured<'_>) -> Option<Points> {
    let mut by_cost: Vec<(f64, &Measured<'_>)> = baseline
        .iter()
        .map(|&measured| (mean(axis.of(measured)), measured))
        .filter(|&(cost, _)| cost > 0.0)
        .collect();
    by_cost.sort_by(|a, b| a.0.total_cmp(&b.0));
    let costs: Vec<f64> = by_cost.iter().map(|&(cost, _)| cost).collect();
    let (below, above, share) = position(&costs, mean(axis.of(cell)))?;
    let (low, high) = (by_cost[below].1, by_cost[above].1);
    let between: Vec<f64> = (0..cell.right.len())
        .map(|i| (1.0 - share) * low.right[i] + share * high.right[i])
        .collect();
    let gain = paired(&cell.right, &between);
    Some(Points {
        axis,
        difference: gain.mean,
        low: gain.low,
        high: gain.high,
        against_end: (below == above).then(|| low.cell.label()),
    })
}

#[cfg(test)]
mod tests {
    use beamgen::{Config, StrategyKind};

    use super::*;
    use crate::bench::outline::Cell;

    /// A cell on 4 problems that all cost the same, of which the first `right` are right.
    fn measured(cell: &Cell, right: usize, cost: f64) -> Measured<'_> {
        Measured {
            set: 0,
            cell,
            rows: Vec::new(),
            right: (0..4).map(|i| f64::from(u8::from(i < right))).collect(),
            generated: vec![cost; 4],
            tokens: vec![2.0 * cost; 4],
            seconds: vec![cost / 1000.0; 4],
        }
    }

    fn cell(run: &str, n: usize) -> Cell {
        let mut config = Config::default();
        config.search.strategy = StrategyKind::BEST_OF_N;
        config.search.n = n;
        Cell {
            run: run.to_owned(),
            config,
        }
    }

    #[test]
    fn costs_and_points_are_read_off_the_baseline() {
        let cells = [cell("base", 1), cell("base", 4), cell("other", 2)];
        let base = [measured(&cells[0], 1, 10.0), measured(&cells[1], 3, 1000.0)];
        let base: Vec<&Measured<'_>> = base.iter().collect();
        let of = |right, cost| answers("s", &base, &[&measured(&cells[2], right, cost)]).remove(0);

        let half = of(2, 50.0);
        assert_eq!((half.name.as_str(), half.accuracy), ("other@2", 0.5));
        for fewer in &half.fewer {
            assert!(
                (fewer.factor - 2.0).abs() < 1e-9 && fewer.bound.is_none(),
                "{fewer:?}"
            );
            assert!(fewer.low <= fewer.factor && fewer.factor <= fewer.high);
        }
        let half = of(2, 100.0);
        for points in &half.points {
            assert!(
                points.difference.abs() < 1e-9 && points.against_end.is_none(),
                "{points:?}"
            );
        }
        let never = of(4, 100.0);
        let fewer = &never.fewer[0];
        assert_eq!((fewer.factor, fewer.bound), (10.0, Some(Bound::MoreThan)));
        assert_eq!(fewer.high, f64::INFINITY);
        assert!((never.points[0].difference - 0.5).abs() < 1e-9);
        let easy = of(0, 5000.0);
        assert_eq!(
            (easy.fewer[0].factor, easy.fewer[0].bound),
            (0.002, Some(Bound::AtMost))
        );
        assert_eq!(easy.points[0].against_end.as_deref(), Some("base@4"));
        assert_eq!(easy.points[0].difference, -0.75);
    }
}
