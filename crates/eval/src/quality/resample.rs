//! The bootstrap by problem.

use serde::Serialize;

use crate::metrics::{Range, bootstrap_of};

/// A figure with its 95 % interval.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Figure {
    /// The figure of the data as they are.
    pub value: f64,
    /// The ends of the interval, low and high, which includes the figure. `None` for a single
    /// problem, and if the figure is undefined in more than a twentieth of the draws.
    pub interval: Option<(f64, f64)>,
}

/// The figures of a statistic with percentile intervals over resampled problems. `statistic` is
/// given how often each of the `problems` is drawn: first each once. All chains of a problem move
/// together. Draws in which a figure is undefined do not count for it. A figure that is the same in
/// every draw has the interval of its `ranges` over the problems that define it each alone, if any.
pub fn resample<const K: usize>(
    problems: usize,
    ranges: [Range; K],
    seed: u64,
    mut statistic: impl FnMut(&[u32]) -> [Option<f64>; K],
) -> [Option<Figure>; K] {
    let mut draws: Vec<[Option<f64>; K]> = Vec::new();
    let mut counts = vec![0; problems];
    // Only the draws are of use here: the percentiles are taken of each figure below.
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

/// How many problems define each figure alone.
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
