//! The bootstrap over problems, for several figures at once.

use serde::Serialize;

use crate::metrics::{Range, bootstrap_of};

/// A figure with its 95 % interval.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Figure {
    /// The figure on all data, in which each problem counts once.
    pub value: f64,
    /// The lower and the upper end of the interval, which contains `value`. `None` if the data have a single problem,
    /// or if more than a twentieth of the samples do not define the figure.
    pub interval: Option<(f64, f64)>,
}

/// Computes `K` figures with percentile bootstrap intervals over problems (Efron, 1979).
///
/// `statistic` gets the number of times that each problem counts. In the first call this is 1 for each, and later it
/// is that of a sample with replacement. A figure is computed from the samples that define it. If a figure is equal
/// in all samples, its interval is [`Range::of_equal`] over the problems that define it alone, if there are any.
pub fn resample<const K: usize>(
    problems: usize,
    ranges: [Range; K],
    seed: u64,
    mut statistic: impl FnMut(&[u32]) -> [Option<f64>; K],
) -> [Option<Figure>; K] {
    let mut draws: Vec<[Option<f64>; K]> = Vec::new();
    let mut counts = vec![0; problems];
    // Only the samples of `bootstrap_of` are used. Its interval is ignored, because figures may be undefined in some
    // samples.
    let _ = bootstrap_of(problems, seed, |drawn| {
        counts.fill(0);
        for &problem in drawn {
            counts[problem] += 1;
        }
        draws.push(statistic(&counts).map(|value| value.filter(|value| value.is_finite())));
        0.0
    });
    let Some((all, draws)) = draws.split_first() else {
        return [None; K];
    };
    // This count calls `statistic` once for each problem, so it is made only if a figure needs it.
    let mut alone: Option<[usize; K]> = None;
    std::array::from_fn(|k| {
        let value = all[k]?;
        let mut values: Vec<f64> = draws.iter().filter_map(|draw| draw[k]).collect();
        values.sort_by(f64::total_cmp);
        let is_known = problems > 1 && values.len() * 20 >= draws.len() * 19;
        let interval = if !is_known {
            None
        } else if values.first() == values.last() {
            let defining = alone.get_or_insert_with(|| defined_alone(problems, &mut statistic))[k];
            (defining > 0).then(|| ranges[k].of_equal(value, defining))
        } else {
            let low = values[values.len() * 25 / 1000];
            let high = values[(values.len() * 975 / 1000).max(1) - 1];
            Some((low.min(value), high.max(value)))
        };
        Some(Figure { value, interval })
    })
}

/// Counts, for each figure, the problems on which alone the figure is defined.
fn defined_alone<const K: usize>(
    problems: usize,
    statistic: &mut impl FnMut(&[u32]) -> [Option<f64>; K],
) -> [usize; K] {
    let mut counts = vec![0; problems];
    let mut defining = [0; K];
    for problem in 0..problems {
        counts[problem] = 1;
        for (count, value) in defining.iter_mut().zip(statistic(&counts)) {
            *count += usize::from(value.is_some_and(f64::is_finite));
        }
        counts[problem] = 0;
    }
    defining
}
