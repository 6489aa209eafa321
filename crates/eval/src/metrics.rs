//! Means and shares with confidence intervals, and the first error that scores predict.

use serde::Serialize;

use crate::draw::SplitMix;

/// A mean with a 95 % interval, both as fractions of one.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
pub struct Interval {
    /// The mean itself; `value` in reports.
    #[serde(rename = "value")]
    pub mean: f64,
    /// The lower end.
    pub low: f64,
    /// The upper end.
    pub high: f64,
}

/// The number of samples of [`bootstrap_of`]. With 2000, the error of an end is about a tenth of the interval's
/// width.
pub const RESAMPLES: usize = 2000;

/// The standard normal quantile of a 95 % interval.
const Z: f64 = 1.959_963_984_540_054;

/// Returns Wilson's 95 % interval (Wilson, 1927) of a share in `trials` independent trials, at least one. Unlike the
/// normal approximation, the interval is not empty at a share of 0 or 1.
pub fn wilson(share: f64, trials: usize) -> (f64, f64) {
    let n = trials as f64;
    let middle = share + Z * Z / (2.0 * n);
    let half = Z * (share * (1.0 - share) / n + (Z / (2.0 * n)).powi(2)).sqrt();
    let scale = 1.0 + Z * Z / n;
    let (low, high) = ((middle - half) / scale, (middle + half) / scale);
    // For a share of 0 or 1, rounding may put an end slightly beyond the share.
    (low.clamp(0.0, share), high.clamp(share, 1.0))
}

/// Returns the share of right trials with Wilson's interval, or `None` without trials.
pub fn share(right: usize, trials: usize) -> Option<Interval> {
    let mean = right as f64 / trials as f64;
    let (low, high) = (trials > 0).then(|| wilson(mean, trials))?;
    Some(Interval { mean, low, high })
}

/// The range of the values that a mean is taken of.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Range {
    /// From 0 to 1: shares, and probabilities.
    Unit,
    /// From -1 to 1, as correlations and differences of shares.
    Signed,
}

impl Range {
    /// Returns a 95 % interval of a mean if all `problems` independent values are equal to `value`. Resampling would
    /// give an empty interval; this one is the widest that values of the range can have.
    ///
    /// No values between 0 and 1 spread more than outcomes of 0 and 1, so the interval for `Unit` is Wilson's. A
    /// difference of 0 means that no problem differs: the interval of this share, on both sides.
    pub fn of_equal(self, value: f64, problems: usize) -> (f64, f64) {
        match self {
            Self::Unit => wilson(value.clamp(0.0, 1.0), problems),
            Self::Signed if value == 0.0 => {
                let (_, most) = wilson(0.0, problems);
                (-most, most)
            }
            Self::Signed => {
                // The range is mapped to 0 to 1, where -1 and 1 become the outcomes 0 and 1, and back.
                let (low, high) = wilson(value.midpoint(1.0).clamp(0.0, 1.0), problems);
                (2.0 * low - 1.0, 2.0 * high - 1.0)
            }
        }
    }
}

/// Returns the mean of one value for each problem with a 95 % interval; `None` without values.
///
/// With several seeds, pass the mean of each problem over the seeds. The interval then describes other problems of
/// the same kind, not more seeds of these problems. The method is Wilson's for values that are 0 or 1,
/// [`Range::of_equal`] for equal values, and otherwise a percentile bootstrap over problems.
pub fn mean_with_interval(per_problem: &[f64], range: Range, seed: u64) -> Option<Interval> {
    let n = per_problem.len();
    let first = *per_problem.first()?;
    let mean = per_problem.iter().sum::<f64>() / n as f64;
    let mut values = per_problem.iter();
    let outcomes = range == Range::Unit && values.all(|value| [0.0, 1.0].contains(value));
    // Resampling shows no spread of equal values, and too little of few outcomes.
    let (low, high) = if outcomes || per_problem.iter().all(|&value| value == first) {
        range.of_equal(mean, n)
    } else {
        let mean =
            |problems: &[usize]| problems.iter().map(|&i| per_problem[i]).sum::<f64>() / n as f64;
        bootstrap_of(n, seed, mean)?
    };
    Some(Interval { mean, low, high })
}

/// Returns the 2.5th and the 97.5th percentile of a statistic over resampled problems (percentile bootstrap; Efron,
/// 1979). The interval is widened if needed to include the statistic of all problems. `statistic` gets a list of
/// `problems` indices: first every index once, then samples with replacement. Its values may be infinite. Returns
/// `None` without problems.
///
/// Equal seeds give equal samples. The statistic of a difference thus gives a paired interval.
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

/// Bootstraps a statistic of which only a lower and an upper bound are known, with the samples of [`bootstrap_of`].
/// Returns the 2.5th percentile of the lower bounds and the 97.5th of the upper bounds.
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
    // 50 of the 2000 samples are cut off at each end.
    let low = lows[RESAMPLES * 25 / 1000];
    let high = highs[RESAMPLES * 975 / 1000 - 1];
    Some((low.min(least), high.max(most)))
}

/// Returns the index of the first step with a score below `threshold`.
pub fn first_error(scores: &[f32], threshold: f32) -> Option<usize> {
    scores.iter().position(|&score| score < threshold)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn near(got: (f64, f64), wanted: (f64, f64)) {
        let off = (got.0 - wanted.0).abs().max((got.1 - wanted.1).abs());
        assert!(off < 5e-4, "{got:?} instead of {wanted:?}");
    }

    /// Values of R's `prop.test(correct = FALSE)` and of the formula's textbook cases.
    #[test]
    fn shares_have_wilsons_interval() {
        for (right, trials, low, high) in [
            (3, 3, 0.4385, 1.0),
            (0, 3, 0.0, 0.5615),
            (1, 1, 0.2065, 1.0),
            (0, 500, 0.0, 0.0076),
            (500, 500, 0.9924, 1.0),
            (5, 10, 0.2366, 0.7634),
            (81, 263, 0.2553, 0.3662),
        ] {
            let got = share(right, trials).unwrap();
            near((got.low, got.high), (low, high));
            let outcomes: Vec<f64> = (0..trials)
                .map(|i| f64::from(u8::from(i < right)))
                .collect();
            let same = mean_with_interval(&outcomes, Range::Unit, 1).unwrap();
            assert_eq!((same.low, same.high), (got.low, got.high));
        }
        assert_eq!(share(0, 0), None);
    }

    /// With several seeds, the value of a problem is a mean that may be neither 0 nor 1.
    #[test]
    fn means_of_problems_are_resampled() {
        let halves: Vec<f64> = (0..400).map(|i| [0.0, 0.5, 1.0, 0.5][i % 4]).collect();
        let got = mean_with_interval(&halves, Range::Unit, 1).unwrap();
        assert_eq!(got.mean, 0.5);
        // The normal approximation: 1.96 * sqrt(0.125 / 400) = 0.0346.
        assert!((got.low - (0.5 - 0.0346)).abs() < 0.007, "{got:?}");
        assert!((got.high - (0.5 + 0.0346)).abs() < 0.007, "{got:?}");
        let again = |seed| mean_with_interval(&halves, Range::Unit, seed);
        assert_eq!(again(1), Some(got), "the same seed gives the same interval");
        assert_ne!(again(2), Some(got));
    }

    #[test]
    fn equal_values_are_no_certainty() {
        let interval = |values: &[f64], range| {
            let got = mean_with_interval(values, range, 0).unwrap();
            (got.low, got.high)
        };
        near(interval(&[0.5; 7], Range::Unit), wilson(0.5, 7));
        // No difference in any of three problems, or the same one in each.
        near(interval(&[0.0; 3], Range::Signed), (-0.5615, 0.5615));
        near(interval(&[1.0; 3], Range::Signed), (-0.123, 1.0));
        near(interval(&[-1.0; 3], Range::Signed), (-1.0, 0.123));
        near(interval(&[0.0; 500], Range::Signed), (-0.0076, 0.0076));
        assert_eq!(mean_with_interval(&[], Range::Unit, 0), None);
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
}
