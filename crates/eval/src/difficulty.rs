//! Difficulty buckets, and which way of searching to take for which difficulty within a budget
//! (Snell et al. 2024, "Scaling LLM Test-Time Compute Optimally", section 3.2).
//!
//! The difficulty is the oracle's: the measured pass rate of a single sample, which needs the
//! reference answers. Deployed, it would have to be estimated.

use crate::draw::SplitMix;

/// The buckets by pass rate of a single sample, hardest first, in per cent.
pub const BUCKETS: [&str; 5] = ["0", "0 to 25", "25 to 50", "50 to 75", "75 to 100"];

/// How often [`held_out`] halves the problems.
pub const HALVINGS: usize = 50;

/// The bucket of a pass rate from 0 to 1, an index into [`BUCKETS`]. A bucket includes its upper
/// end; only problems that no sample solved are in the first.
pub fn bucket(pass_rate: f64) -> usize {
    (pass_rate * 4.0).ceil().clamp(0.0, 4.0) as usize
}

/// One way of searching, measured on every problem.
#[derive(Clone, Debug)]
pub struct Candidate {
    /// By problem: share of the seeds that were right.
    pub right: Vec<f64>,
    /// By problem: mean tokens.
    pub tokens: Vec<f64>,
}

impl Candidate {
    fn means(&self, problems: &[usize]) -> (f64, f64) {
        let mean =
            |of: &[f64]| problems.iter().map(|&i| of[i]).sum::<f64>() / problems.len() as f64;
        (mean(&self.right), mean(&self.tokens))
    }
}

/// The most accurate candidate on these problems among those whose mean tokens on them are within
/// the budget, the cheaper of equals. `None` without problems, or if nothing is within it.
pub fn best_within(candidates: &[Candidate], problems: &[usize], budget: f64) -> Option<usize> {
    if problems.is_empty() {
        return None;
    }
    let mut best: Option<(usize, f64, f64)> = None;
    for (at, candidate) in candidates.iter().enumerate() {
        let (right, tokens) = candidate.means(problems);
        let better =
            best.is_none_or(|(_, most, least)| right > most || (right == most && tokens < least));
        if tokens <= budget && better {
            best = Some((at, right, tokens));
        }
    }
    best.map(|(at, ..)| at)
}

/// By problem, the accuracy of choices made on other problems.
#[derive(Clone, PartialEq, Debug)]
pub struct HeldOut {
    /// With the best candidate of the problem's bucket.
    pub by_bucket: Vec<f64>,
    /// With the one candidate that is best on all.
    pub single: Vec<f64>,
}

/// Halves the problems [`HALVINGS`] times, chooses on one half and reports on the other, both ways
/// round. `buckets` has the bucket of every problem. In a bucket for which the choosing half has
/// nothing, the single best candidate stands in. `None` if a half has no candidate within the
/// budget.
pub fn held_out(
    candidates: &[Candidate],
    buckets: &[usize],
    budget: f64,
    seed: u64,
) -> Option<HeldOut> {
    let count = buckets.len();
    if count < 2 {
        return None;
    }
    let mut draw = SplitMix::new(seed);
    let mut order: Vec<usize> = (0..count).collect();
    let mut sums = HeldOut {
        by_bucket: vec![0.0; count],
        single: vec![0.0; count],
    };
    for _ in 0..HALVINGS {
        for i in (1..count).rev() {
            order.swap(i, draw.below(i + 1));
        }
        let (one, other) = order.split_at(count / 2);
        for (seen, reported) in [(one, other), (other, one)] {
            let single = best_within(candidates, seen, budget)?;
            let chosen: Vec<usize> = (0..BUCKETS.len())
                .map(|bucket| {
                    let same: Vec<usize> = seen
                        .iter()
                        .copied()
                        .filter(|&i| buckets[i] == bucket)
                        .collect();
                    best_within(candidates, &same, budget).unwrap_or(single)
                })
                .collect();
            for &problem in reported {
                sums.by_bucket[problem] += candidates[chosen[buckets[problem]]].right[problem];
                sums.single[problem] += candidates[single].right[problem];
            }
        }
    }
    for sum in sums.by_bucket.iter_mut().chain(&mut sums.single) {
        *sum /= HALVINGS as f64;
    }
    Some(sums)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_include_their_upper_end() {
        let rates = [0.0, 0.001, 0.25, 0.26, 0.5, 0.75, 0.76, 1.0];
        assert_eq!(rates.map(bucket), [0, 1, 1, 2, 2, 3, 4, 4]);
    }

    fn candidate(right: [f64; 2], tokens: f64, problems: usize) -> Candidate {
        Candidate {
            right: (0..problems).map(|i| right[i % 2]).collect(),
            tokens: vec![tokens; problems],
        }
    }

    /// Even problems are easy, odd ones hard; each has its own best way.
    fn two_ways() -> (Vec<Candidate>, Vec<usize>) {
        let ways = vec![
            candidate([1.0, 0.0], 10.0, 40),
            candidate([0.5, 0.75], 20.0, 40),
            candidate([1.0, 1.0], 30.0, 40),
        ];
        (ways, (0..40).map(|i| 4 - 3 * (i % 2)).collect())
    }

    #[test]
    fn the_best_within_the_budget_is_taken() {
        let (ways, _) = two_ways();
        let all: Vec<usize> = (0..40).collect();
        assert_eq!(best_within(&ways, &all, 5.0), None);
        assert_eq!(best_within(&ways, &all, 10.0), Some(0));
        assert_eq!(best_within(&ways, &all, 20.0), Some(1));
        assert_eq!(best_within(&ways, &all, 99.0), Some(2));
        assert_eq!(
            best_within(&ways, &[0, 2], 99.0),
            Some(0),
            "the cheaper of equals"
        );
        assert_eq!(best_within(&ways, &[], 99.0), None);
    }

    #[test]
    fn a_choice_for_each_bucket_beats_the_single_one_on_problems_not_seen() {
        let (ways, buckets) = two_ways();
        let got = held_out(&ways, &buckets, 20.0, 1).unwrap();
        let mean = |of: &[f64]| of.iter().sum::<f64>() / of.len() as f64;
        assert_eq!(
            mean(&got.by_bucket),
            0.875,
            "1 on the easy half, 0.75 on the hard one"
        );
        assert!(
            (mean(&got.single) - 0.625).abs() < 0.05,
            "{}",
            mean(&got.single)
        );
        assert_eq!(held_out(&ways, &buckets, 5.0, 1), None);
    }

    /// Noise that looks like a difference on the half it was chosen on is none on the other.
    #[test]
    fn noise_is_not_reported_as_a_gain() {
        let mut draw = SplitMix::new(5);
        let mut coin = |_| draw.below(2) as f64;
        let ways: Vec<Candidate> = (0..20)
            .map(|_| Candidate {
                right: (0..200).map(&mut coin).collect(),
                tokens: vec![1.0; 200],
            })
            .collect();
        let buckets: Vec<usize> = (0..200).map(|i| i % 5).collect();
        let got = held_out(&ways, &buckets, 1.0, 1).unwrap();
        let mean = |of: &[f64]| of.iter().sum::<f64>() / of.len() as f64;
        assert!(
            (mean(&got.by_bucket) - 0.5).abs() < 0.06,
            "{}",
            mean(&got.by_bucket)
        );
        let seen = best_within(&ways, &(0..40).collect::<Vec<_>>(), 1.0).unwrap();
        assert!(
            ways[seen].right[..40].iter().sum::<f64>() / 40.0 > 0.6,
            "in sample it looks like one"
        );
    }
}
