//! Means over problems with their 95 % intervals.

use beamgen::eval::metrics::{Interval, Range, mean_with_interval};

/// The seed of every bootstrap, so that intervals of the same problems are comparable.
pub(crate) const BOOTSTRAP_SEED: u64 = 0;

/// Returns the mean of one share (0 to 1) for each problem, with a 95 % interval; 0 without problems.
pub(crate) fn interval(by_problem: &[f64]) -> Interval {
    interval_within(Range::Unit, by_problem)
}

/// Returns the mean of `a - b` with a paired 95 % interval over problems; 0 without problems.
pub(crate) fn paired(a: &[f64], b: &[f64]) -> Interval {
    let differences: Vec<f64> = a.iter().zip(b).map(|(a, b)| a - b).collect();
    interval_within(Range::Signed, &differences)
}

fn interval_within(range: Range, by_problem: &[f64]) -> Interval {
    // The mean of no problems would be NaN, which JSON cannot express.
    mean_with_interval(by_problem, range, BOOTSTRAP_SEED).unwrap_or(Interval {
        mean: 0.0,
        low: 0.0,
        high: 0.0,
    })
}
