//! Interpolation between the measured points of accuracy over cost. Accuracy is taken as linear in the logarithm of
//! the cost.

/// The cost at which a curve reaches an accuracy, as far as the points tell.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Cost {
    /// The cost, interpolated between two points.
    About(f64),
    /// An upper bound: the cost of the cheapest point, which is already accurate enough.
    AtMost(f64),
    /// A lower bound: the cost of the most expensive point. No point is accurate enough.
    MoreThan(f64),
}

/// Returns the cost at which the curve first reaches `accuracy`. `points` are pairs of cost and accuracy, sorted by
/// cost; costs are positive. Returns `None` without points.
pub fn cost_of(points: &[(f64, f64)], accuracy: f64) -> Option<Cost> {
    let (&first, &last) = (points.first()?, points.last()?);
    if first.1 >= accuracy {
        return Some(Cost::AtMost(first.0));
    }
    for pair in points.windows(2) {
        let ((x, from), (y, to)) = (pair[0], pair[1]);
        // The curve may fall below the accuracy again later; only the first crossing counts.
        if to >= accuracy {
            let share = (accuracy - from) / (to - from);
            return Some(Cost::About((x.ln() + share * (y.ln() - x.ln())).exp()));
        }
    }
    Some(Cost::MoreThan(last.0))
}

/// Locates `cost` between `costs`, which are positive and sorted. Returns the indices of the points below and above,
/// and the weight of the point above. A cost beyond an end gives the end point. Returns `None` without points.
pub fn position(costs: &[f64], cost: f64) -> Option<(usize, usize, f64)> {
    let last = costs.len().checked_sub(1)?;
    let above = costs.partition_point(|&at| at < cost);
    // Extrapolation below the cheapest point would invent a trend.
    if above == 0 {
        return Some((0, 0, 0.0));
    }
    if above > last {
        return Some((last, last, 0.0));
    }
    let (x, y) = (costs[above - 1], costs[above]);
    let share = (cost.ln() - x.ln()) / (y.ln() - x.ln());
    Some((above - 1, above, share))
}

#[cfg(test)]
mod tests {
    use super::*;

    const POINTS: [(f64, f64); 4] = [(10.0, 0.2), (100.0, 0.4), (1000.0, 0.3), (10000.0, 0.6)];

    #[test]
    fn costs_are_read_in_the_logarithm() {
        fn about(accuracy: f64) -> f64 {
            match cost_of(&POINTS, accuracy) {
                Some(Cost::About(cost)) => cost,
                other => panic!("{other:?}"),
            }
        }
        assert_eq!(cost_of(&POINTS, 0.1), Some(Cost::AtMost(10.0)));
        assert_eq!(cost_of(&POINTS, 0.7), Some(Cost::MoreThan(10000.0)));
        assert!(
            (about(0.3) - 10f64.powf(1.5)).abs() < 1e-9,
            "the first time it is reached"
        );
        assert!((about(0.5) - 10f64.powf(3.0 + 2.0 / 3.0)).abs() < 1e-6);
        assert!((about(0.6) - 10000.0).abs() < 1e-6);
        assert_eq!(cost_of(&[], 0.5), None);
    }

    #[test]
    fn positions_lie_between_two_points() {
        let costs = POINTS.map(|(cost, _)| cost);
        let (below, above, share) = position(&costs, 10f64.powf(2.5)).unwrap();
        assert_eq!((below, above), (1, 2));
        assert!((share - 0.5).abs() < 1e-12);
        assert_eq!(position(&costs, 1.0), Some((0, 0, 0.0)));
        assert_eq!(position(&costs, 1e9), Some((3, 3, 0.0)));
        assert_eq!(position(&costs, 100.0), Some((0, 1, 1.0)));
        assert_eq!(position(&[], 1.0), None);
    }
}
