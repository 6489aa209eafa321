//! Comparisons of each strategy with the baseline: at equal accuracy, how many times fewer tokens
//! and seconds; at equal cost, how many points more.

use beamgen::eval::curve::{Cost, cost_of, position};
use beamgen::eval::metrics::bootstrap_bounds;
use serde::Serialize;

use super::measured::{BOOTSTRAP_SEED, Measured, mean, mean_over, paired};

/// A kind of cost that two cells are compared by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Axis {
    /// Tokens that the generator sampled.
    Generated,
    /// Sampled tokens and tokens that the scorer read.
    Tokens,
    /// Wall-clock seconds of the run, divided by its problems.
    Seconds,
}

impl Axis {
    pub(super) const ALL: [Self; 3] = [Self::Generated, Self::Tokens, Self::Seconds];

    /// Returns the name of the cost in tables.
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

/// The cost of the baseline at equal accuracy, as a multiple of a cell's cost.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Fewer {
    pub axis: Axis,
    /// The estimate of the multiple, always between `low` and `high`.
    pub factor: f64,
    /// The kind of bound, if the factor is one: `at-most` if the baseline's cheapest point is as
    /// accurate already, `more-than` if no point of the baseline is as accurate.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bound: Option<Bound>,
    /// The lower end of the 95 % bootstrap interval; 0 if the baseline's cheapest point may be as
    /// accurate already.
    pub low: f64,
    /// The upper end; infinite (`null`) if the baseline may never be as accurate.
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
    /// The nearest end of the baseline's curve, which was used because the cost is beyond the
    /// curve.
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
    /// The factors by kind of cost; kinds without costs are left out.
    pub fewer: Vec<Fewer>,
    pub points: Vec<Points>,
}

/// Compares the cells `others` of a set with the baseline, whose cells are sorted by N.
pub(super) fn answers(
    set: &str,
    baseline: &[&Measured<'_>],
    others: &[&Measured<'_>],
) -> Vec<Answer> {
    // A bench without a baseline has no comparisons.
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

/// Returns how much more the baseline spends for the accuracy of `cell`; `None` if a cost is 0,
/// since no cost is a multiple of 0.
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
            // A resampled set may have a cost of 0; then nothing is known.
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

/// Computes the factor on some problems, with the kind of bound if it is one. The last column is
/// the cell, all others are the baseline.
fn factor(columns: &[[&[f64]; 2]], problems: &[usize]) -> Option<(f64, Option<Bound>)> {
    let mut points: Vec<(f64, f64)> = columns
        .iter()
        .map(|[right, costs]| (mean_over(costs, problems), mean_over(right, problems)))
        .collect();
    if points.iter().any(|&(cost, _)| cost <= 0.0) {
        return None;
    }
    let (cost, accuracy) = points.pop()?;
    // A resampled set of problems may change the order of the baseline's points.
    points.sort_by(|a, b| a.0.total_cmp(&b.0));
    Some(match cost_of(&points, accuracy)? {
        Cost::About(there) => (there / cost, None),
        Cost::AtMost(there) => (there / cost, Some(Bound::AtMost)),
        Cost::MoreThan(there) => (there / cost, Some(Bound::MoreThan)),
    })
}

/// Returns the difference in accuracy at the cost of `cell`; `None` if the baseline has no costs.
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
    // Interpolated problem by problem, not as a mean, so that the interval can be paired.
    let between: Vec<f64> = (0..cell.right.len())
        .map(|i| (1.0 - share) * low.right[i] + share * high.right[i])
        .collect();
    let gain = paired(&cell.right, &between);
    Some(Points {
        axis,
        difference: gain.mean,
        low: gain.low,
        high: gain.high,
        // Beyond the ends of the curve, `position` returns the same point twice.
        against_end: (below == above).then(|| low.cell.label()),
    })
}

#[cfg(test)]
mod tests {
    use beamgen::{Config, StrategyKind};

    use super::*;
    use crate::bench::outline::Cell;

    /// A cell on 4 problems of equal cost, of which the first `right` are right.
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
