//! What is measured: accuracy with its interval, and first-error F1 for reward models.

use crate::draw::SplitMix;

/// A mean with a 95 % interval, both as fractions of one.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Interval {
    /// The mean itself.
    pub mean: f64,
    /// 2.5th percentile of the resampled means.
    pub low: f64,
    /// 97.5th percentile.
    pub high: f64,
}

/// How often [`bootstrap`] resamples; its interval's ends are then good to about a tenth of its
/// width.
pub const RESAMPLES: usize = 2000;

/// The mean of one value a problem with a percentile-bootstrap interval; `None` without values.
///
/// The problem is what is resampled: for several seeds, give each problem's mean over the seeds, so
/// that the interval speaks about other problems of the same kind and not about more seeds on
/// these.
pub fn bootstrap(per_problem: &[f64], seed: u64) -> Option<Interval> {
    let n = per_problem.len();
    let mean =
        |problems: &[usize]| problems.iter().map(|&i| per_problem[i]).sum::<f64>() / n as f64;
    let (low, high) = bootstrap_of(n, seed, mean)?;
    Some(Interval {
        mean: per_problem.iter().sum::<f64>() / n as f64,
        low,
        high,
    })
}

/// The 2.5th and 97.5th percentile of a statistic over resampled problems, widened where needed to
/// include the statistic of the problems as they are. `statistic` is given `problems` indices below
/// `problems`: all of them once, and then drawn with replacement. It may be infinite. `None`
/// without problems.
///
/// The same seed draws the same problems, so two statistics of the same problems are comparable
/// draw by draw, and the statistic of a difference gives a paired interval.
pub fn bootstrap_of(
    problems: usize,
    seed: u64,
    mut statistic: impl FnMut(&[usize]) -> f64,
) -> Option<(f64, f64)> {
    bootstrap_bounds(problems, seed, |drawn| {
        let value = statistic(drawn);
        (value, value)
    })
}

/// [`bootstrap_of`] for a statistic of which only bounds are known: the 2.5th percentile of its
/// lower bounds and the 97.5th of its upper ones.
pub fn bootstrap_bounds(
    problems: usize,
    seed: u64,
    mut bounds: impl FnMut(&[usize]) -> (f64, f64),
) -> Option<(f64, f64)> {
    if problems == 0 {
        return None;
    }
    let all: Vec<usize> = (0..problems).collect();
    let (least, most) = bounds(&all);
    let mut draw = SplitMix::new(seed);
    let mut drawn = vec![0; problems];
    let (mut lows, mut highs): (Vec<f64>, Vec<f64>) = (0..RESAMPLES)
        .map(|_| {
            drawn.fill_with(|| draw.below(problems));
            bounds(&drawn)
        })
        .unzip();
    lows.sort_by(f64::total_cmp);
    highs.sort_by(f64::total_cmp);
    let low = lows[RESAMPLES * 25 / 1000];
    let high = highs[RESAMPLES * 975 / 1000 - 1];
    Some((low.min(least), high.max(most)))
}

/// The first step whose probability of being right is below `threshold`.
pub fn first_error(scores: &[f32], threshold: f32) -> Option<usize> {
    scores.iter().position(|&score| score < threshold)
}

/// First-error F1 as ProcessBench defines it.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct FirstErrorF1 {
    /// Share of the wrong chains whose first wrong step was named exactly.
    pub on_wrong: f64,
    /// Share of the right chains in which no step was flagged.
    pub on_right: f64,
    /// Harmonic mean of the two; 0 if both are.
    pub f1: f64,
    /// How many wrong chains there were.
    pub wrong: usize,
    /// How many right ones.
    pub right: usize,
}

/// First-error F1 over `(label, predicted)` pairs, each the index of the first wrong step or `None`
/// for none; `None` unless there are both wrong and right chains, for the mean has no meaning then.
pub fn first_error_f1(
    pairs: impl IntoIterator<Item = (Option<usize>, Option<usize>)>,
) -> Option<FirstErrorF1> {
    let (mut wrong, mut right, mut found, mut kept) = (0usize, 0usize, 0usize, 0usize);
    for (label, predicted) in pairs {
        let hit = usize::from(label == predicted);
        if label.is_some() {
            wrong += 1;
            found += hit;
        } else {
            right += 1;
            kept += hit;
        }
    }
    if wrong == 0 || right == 0 {
        return None;
    }
    let (on_wrong, on_right) = (found as f64 / wrong as f64, kept as f64 / right as f64);
    let f1 = if found + kept == 0 {
        0.0
    } else {
        2.0 * on_wrong * on_right / (on_wrong + on_right)
    };
    Some(FirstErrorF1 {
        on_wrong,
        on_right,
        f1,
        wrong,
        right,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_interval_matches_the_binomial_one() {
        let outcomes: Vec<f64> = (0..400).map(|i| f64::from(u8::from(i % 4 == 0))).collect();
        let got = bootstrap(&outcomes, 1).unwrap();
        assert_eq!(got.mean, 0.25);
        // The normal approximation: 1.96 * sqrt(0.25 * 0.75 / 400) = 0.0424.
        assert!((got.low - (0.25 - 0.0424)).abs() < 0.008, "{got:?}");
        assert!((got.high - (0.25 + 0.0424)).abs() < 0.008, "{got:?}");
        assert_eq!(
            bootstrap(&outcomes, 1),
            Some(got),
            "the same seed gives the same interval"
        );
        let varied: Vec<f64> = (0..50).map(|i| f64::from(i).sqrt()).collect();
        assert_ne!(bootstrap(&varied, 1), bootstrap(&varied, 2));
    }

    #[test]
    fn the_edges_of_the_bootstrap() {
        assert_eq!(bootstrap(&[], 0), None);
        assert_eq!(
            bootstrap(&[1.0], 0),
            Some(Interval {
                mean: 1.0,
                low: 1.0,
                high: 1.0
            })
        );
        assert_eq!(
            bootstrap(&[0.5; 7], 0),
            Some(Interval {
                mean: 0.5,
                low: 0.5,
                high: 0.5
            })
        );
    }

    /// A resample has about two thirds of the problems, some of them several times.
    #[test]
    fn an_interval_includes_the_figure_it_is_of() {
        let distinct = |problems: &[usize]| {
            let distinct: std::collections::BTreeSet<&usize> = problems.iter().collect();
            distinct.len() as f64
        };
        let (low, high) = bootstrap_of(200, 1, distinct).unwrap();
        assert!(low < 140.0 && high == 200.0, "{low} {high}");
    }

    #[test]
    fn bounds_that_are_open_stay_open() {
        let half_open = |_: &[usize]| (2.0, f64::INFINITY);
        assert_eq!(
            bootstrap_bounds(3, 0, half_open),
            Some((2.0, f64::INFINITY))
        );
        assert_eq!(bootstrap_bounds(0, 0, half_open), None);
    }

    #[test]
    fn first_errors_are_found() {
        assert_eq!(first_error(&[0.9, 0.4, 0.1], 0.5), Some(1));
        assert_eq!(first_error(&[0.9, 0.5], 0.5), None);
        assert_eq!(first_error(&[], 0.5), None);
    }

    #[test]
    fn f1_is_the_harmonic_mean_of_the_two_shares() {
        let got = first_error_f1([
            (Some(2), Some(2)),
            (Some(2), Some(1)),
            (Some(0), None),
            (Some(3), Some(3)),
            (None, None),
            (None, Some(4)),
            (None, None),
            (None, None),
        ])
        .unwrap();
        assert_eq!(
            (got.on_wrong, got.on_right, got.wrong, got.right),
            (0.5, 0.75, 4, 4)
        );
        assert!((got.f1 - 0.6).abs() < 1e-12);
        assert_eq!(
            first_error_f1([(Some(1), None), (None, Some(1))])
                .unwrap()
                .f1,
            0.0
        );
        assert_eq!(first_error_f1([(None, None)]), None);
    }
}
