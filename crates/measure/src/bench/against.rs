//! Comparisons of each cell with the baseline: how many times fewer tokens and seconds it needs at equal accuracy,
//! and how many points more accurate it is at equal cost.

use beamgen::eval::curve::{Cost, cost_of, position};
use beamgen::eval::metrics::bootstrap_bounds;
use serde::Serialize;

use super::measured::{BOOTSTRAP_SEED, Measured, mean, mean_over, paired};

/// A kind of cost, as a mean over problems.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Axis {
    /// Tokens that the generator sampled, without those that the scorer read.
    Generated,
    /// The sampled tokens plus the tokens that the scorer read.
    Tokens,
    /// The wall-clock seconds of the run divided by the number of problems.
    Seconds,
    /// The floating-point operations of both models. Not among [`ALL`](Self::ALL): tables leave it out.
    Flops,
}

impl Axis {
    pub(super) const ALL: [Self; 3] = [Self::Generated, Self::Tokens, Self::Seconds];

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Generated => "generated",
            Self::Tokens => "generated and scored",
            Self::Seconds => "seconds",
            Self::Flops => "FLOPs",
        }
    }

    pub(super) fn of<'m>(self, measured: &'m Measured<'_>) -> &'m [f64] {
        match self {
            Self::Generated => &measured.generated,
            Self::Tokens => &measured.tokens,
            Self::Seconds => &measured.seconds,
            Self::Flops => &measured.flops,
        }
    }
}

/// The factor of cost: the baseline's cost at the accuracy of a cell, divided by the cell's cost.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Fewer {
    pub axis: Axis,
    /// The estimated factor, between `low` and `high`.
    pub factor: f64,
    /// Tells that `factor` is only a bound: `at-most` if the cheapest point of the baseline is already as accurate,
    /// `more-than` if no point is as accurate. `None` for an estimate between two points.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bound: Option<Bound>,
    /// The lower end of the 95 % bootstrap interval. It is 0 if the baseline's cheapest point may be as accurate as
    /// the cell.
    pub low: f64,
    /// The upper end of the interval. It is infinite (`null` in JSON) if the baseline may never be as accurate.
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
    /// The label of the baseline's cheapest or most expensive cell if the cost is beyond this end of the curve;
    /// `None` if the cost is between two points.
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
    /// The factor of each kind of cost; a kind with a cost of 0 is left out.
    pub fewer: Vec<Fewer>,
    pub points: Vec<Points>,
}

/// Compares each cell of `others` with the baseline, given by its cells on the same set.
pub(super) fn answers(
    set: &str,
    baseline: &[&Measured<'_>],
    others: &[&Measured<'_>],
) -> Vec<Answer> {
    // A bench may have no baseline.
    if baseline.is_empty() {
        return Vec::new();
    }
    others
        .iter()
        .map(|cell| Answer {
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
        })
        .collect()
}

/// Returns the factor of cost between the baseline and `cell`. Returns `None` if a cost is 0, since the ratio of the
/// costs is not defined then.
fn fewer(axis: Axis, baseline: &[&Measured<'_>], cell: &Measured<'_>) -> Option<Fewer> {
    // By problem: accuracy and cost of every point of the baseline, then those of the cell.
    let columns: Vec<[&[f64]; 2]> = baseline
        .iter()
        .copied()
        .chain([cell])
        .map(|measured| [measured.right.as_slice(), axis.of(measured)])
        .collect();
    let count = cell.right.len();
    let (estimate, bound) = factor(&columns, &(0..count).collect::<Vec<_>>())?;
    let (low, high) = bootstrap_bounds(count, BOOTSTRAP_SEED, |problems: &[usize]| {
        match factor(&columns, problems) {
            Some((factor, None)) => (factor, factor),
            Some((factor, Some(Bound::AtMost))) => (0.0, factor),
            Some((factor, Some(Bound::MoreThan))) => (factor, f64::INFINITY),
            // If a resampled set has a cost of 0, the factor may be anything.
            None => (0.0, f64::INFINITY),
        }
    })?;
    Some(Fewer {
        axis,
        factor: estimate,
        bound,
        low,
        high,
    })
}

/// Computes the factor on some of the problems, and the kind of bound if it is only a bound. The last column is the
/// cell, and the others are the baseline's points.
fn factor(columns: &[[&[f64]; 2]], problems: &[usize]) -> Option<(f64, Option<Bound>)> {
    let mut points: Vec<(f64, f64)> = columns
        .iter()
        .map(|[right, costs]| (mean_over(costs, problems), mean_over(right, problems)))
        .collect();
    if points.iter().any(|&(cost, _)| cost <= 0.0) {
        return None;
    }
    let (cost, accuracy) = points.pop()?;
    // The order of the baseline's points by cost may differ on resampled problems.
    points.sort_by(|a, b| a.0.total_cmp(&b.0));
    Some(match cost_of(&points, accuracy)? {
        Cost::About(there) => (there / cost, None),
        Cost::AtMost(there) => (there / cost, Some(Bound::AtMost)),
        Cost::MoreThan(there) => (there / cost, Some(Bound::MoreThan)),
    })
}

/// Returns the difference in accuracy at the cost of `cell`, or `None` if all costs of the baseline are 0.
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
    // Each problem is interpolated separately, because the paired interval needs a value for each problem.
    let between: Vec<f64> = (0..cell.right.len())
        .map(|i| (1.0 - share) * low.right[i] + share * high.right[i])
        .collect();
    let gain = paired(&cell.right, &between);
    Some(Points {
        axis,
        difference: gain.mean,
        low: gain.low,
        high: gain.high,
        // If the cost is beyond the curve, both positions are the same end.
        against_end: (below == above).then(|| low.cell.label()),
    })
}

#[cfg(test)]
mod tests {
    use beamgen::{Config, StrategyKind};

    use super::*;
    use crate::bench::outline::Cell;

    /// Makes a cell on 4 problems of equal cost, `right` of them right.
    fn measured(cell: &Cell, right: usize, cost: f64) -> Measured<'_> {
        Measured {
            set: 0,
            cell,
            rows: Vec::new(),
            right: (0..4).map(|i| f64::from(u8::from(i < right))).collect(),
            generated: vec![cost; 4],
            tokens: vec![2.0 * cost; 4],
            seconds: vec![cost / 1000.0; 4],
            flops: vec![1e6 * cost; 4],
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
        let answer =
            |right, cost| answers("s", &base, &[&measured(&cells[2], right, cost)]).remove(0);

        let half = answer(2, 50.0);
        assert_eq!((half.name.as_str(), half.accuracy), ("other@2", 0.5));
        for fewer in &half.fewer {
            assert!(
                (fewer.factor - 2.0).abs() < 1e-9 && fewer.bound.is_none(),
                "{fewer:?}"
            );
            assert!(fewer.low <= fewer.factor && fewer.factor <= fewer.high);
        }
        let half = answer(2, 100.0);
        for points in &half.points {
            assert!(
                points.difference.abs() < 1e-9 && points.against_end.is_none(),
                "{points:?}"
            );
        }
        let never = answer(4, 100.0);
        let fewer = &never.fewer[0];
        assert_eq!((fewer.factor, fewer.bound), (10.0, Some(Bound::MoreThan)));
        assert_eq!(fewer.high, f64::INFINITY);
        assert!((never.points[0].difference - 0.5).abs() < 1e-9);
        let easy = answer(0, 5000.0);
        assert_eq!(
            (easy.fewer[0].factor, easy.fewer[0].bound),
            (0.002, Some(Bound::AtMost))
        );
        assert_eq!(easy.points[0].against_end.as_deref(), Some("base@4"));
        assert_eq!(easy.points[0].difference, -0.75);
    }
}
