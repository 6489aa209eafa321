//! Estimates of best-of-k and of votes of k, from a pool of n independent samples.
//!
//! The first k samples are only one random subset, so their result is noisy. The estimates here use all subsets in
//! closed form, or the mean over many random subsets.

use beamgen_search::{Choose, Standing};

use crate::draw::SplitMix;

/// The number of random subsets over which [`chosen_at_k`] averages a vote.
pub const SUBSETS: usize = 100;

/// The facts of a finished chain on which a choice among chains depends.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Sample {
    /// True if the answer certainly equals the reference.
    pub correct: bool,
    /// A number that equal answers share; `None` without an answer.
    pub class: Option<u32>,
    /// True if the answer is a guess: the last number of a chain that marks no answer.
    pub is_guess: bool,
    /// The aggregated score of the chain, which decides ties and weighted votes; `None` without a scorer.
    pub score: Option<f32>,
    /// The number of sampled tokens, the cost of the chain.
    pub tokens: u32,
}

/// Returns the probability that the answer chosen among `k` samples is right. The samples are taken from the pool
/// without replacement, and the choice is made as by [`beamgen_search::choose()`]. Returns `None` if `k` is 0 or
/// above the size of the pool.
///
/// [`Choose::Best`] is exact: if the pool is sorted by [`Standing`], the sample of rank `i` is the best one in `C(n -
/// 1 - i, k - 1) / C(n, k)` of the subsets. Votes have no closed form; their value is the mean over [`SUBSETS`]
/// random subsets from `seed`.
pub fn chosen_at_k(pool: &[Sample], k: usize, how: Choose, seed: u64) -> Option<f64> {
    if k == 0 || k > pool.len() {
        return None;
    }
    Some(match how {
        // With one sample there is no choice, so the exact pass rate replaces random subsets.
        _ if k == 1 => pass_rate(pool)?,
        Choose::Best => best_at_k(pool, k),
        Choose::Majority | Choose::Weighted => vote_at_k(pool, k, how, seed),
    })
}

/// Returns the indices of the samples, preferred ones first and those without an answer last. The sort is stable, so
/// the first of equal samples wins, as in a search.
fn ranking(pool: &[Sample], scored: bool) -> Vec<usize> {
    let standing = |sample: &Sample| Standing {
        is_guess: sample.is_guess,
        score: sample.score.filter(|_| scored),
    };
    let mut order: Vec<usize> = (0..pool.len()).collect();
    order.sort_by(|&a, &b| {
        let (a, b) = (&pool[a], &pool[b]);
        let answered = b.class.is_some().cmp(&a.class.is_some());
        answered.then(standing(a).order(standing(b)))
    });
    order
}

fn best_at_k(pool: &[Sample], k: usize) -> f64 {
    let n = pool.len();
    // The probability that the sample of this rank is the best of a subset: k/n for the first rank. The ratio of
    // neighbouring ranks has no binomial coefficient, so nothing overflows.
    let mut probability = k as f64 / n as f64;
    let mut right = 0.0;
    for (rank, at) in ranking(pool, true).into_iter().enumerate() {
        if pool[at].class.is_some() && pool[at].correct {
            right += probability;
        }
        // Below rank n - k no sample can be the best: others of the subset stand above it.
        if rank + k >= n {
            break;
        }
        probability *= (n - rank - k) as f64 / (n - 1 - rank) as f64;
    }
    right
}

/// Estimates the accuracy of a vote of `k`. A majority vote ignores scores even in ties, as a search without a scorer
/// does.
fn vote_at_k(pool: &[Sample], k: usize, how: Choose, seed: u64) -> f64 {
    let mut rank_of = vec![0; pool.len()];
    for (rank, at) in ranking(pool, how == Choose::Weighted)
        .into_iter()
        .enumerate()
    {
        rank_of[at] = rank;
    }
    let classes = pool.iter().filter_map(|sample| sample.class).max();
    let classes = classes.map_or(0, |most| most as usize + 1);
    let mut draw = SplitMix::new(seed);
    let mut order: Vec<usize> = (0..pool.len()).collect();
    // The whole pool is one subset.
    let subsets = if k == pool.len() { 1 } else { SUBSETS };
    let mut right = 0;
    for _ in 0..subsets {
        // The first k places of a Fisher-Yates shuffle are a uniform subset, whatever the order before the shuffle.
        for i in 0..k {
            let other = i + draw.below(order.len() - i);
            order.swap(i, other);
        }
        right += usize::from(winner_is_right(pool, how, &rank_of, classes, &order[..k]));
    }
    right as f64 / subsets as f64
}

/// Returns whether the answer with the most votes in the subset is right. In a tie, the answer with the best ranked
/// chain wins.
fn winner_is_right(
    pool: &[Sample],
    how: Choose,
    rank_of: &[usize],
    classes: usize,
    subset: &[usize],
) -> bool {
    // By class: its votes, and its best member.
    let mut counted: Vec<(f64, Option<usize>)> = vec![(0.0, None); classes];
    for &at in subset {
        let Some(class) = pool[at].class else {
            continue;
        };
        let (votes, best) = &mut counted[class as usize];
        *votes += match how {
            // A chain without a score adds no weight, but its answer may still be chosen.
            Choose::Weighted => f64::from(pool[at].score.unwrap_or(0.0)),
            _ => 1.0,
        };
        let better = best.filter(|&best| rank_of[best] < rank_of[at]);
        *best = better.or(Some(at));
    }
    let members = counted.into_iter();
    let members = members.filter_map(|(votes, best)| Some((votes, best?)));
    let winner = members.max_by(|(votes, at), (others, other)| {
        let by_rank = rank_of[*other].cmp(&rank_of[*at]);
        votes.total_cmp(others).then(by_rank)
    });
    winner.is_some_and(|(_, at)| pool[at].correct)
}

/// Returns the share of right samples, or `None` for an empty pool.
pub fn pass_rate(pool: &[Sample]) -> Option<f64> {
    let right = pool.iter().filter(|sample| sample.correct).count();
    (!pool.is_empty()).then(|| right as f64 / pool.len() as f64)
}

#[cfg(test)]
mod tests {
    use beamgen_search::{FinishedChain, choose};

    use super::*;

    /// Returns pools of 8 samples. They have guesses, ties of scores and of votes, and chains without an answer or a
    /// score.
    fn pools() -> Vec<Vec<Sample>> {
        let mut draw = SplitMix::new(7);
        let sample = |draw: &mut SplitMix| {
            let class = draw.below(5) as u32;
            Sample {
                correct: class == 1,
                class: (class != 4).then_some(class),
                is_guess: draw.below(3) == 0,
                // Sums of eighths are exact in any order, as is every tie.
                score: (draw.below(7) > 0).then(|| draw.below(8) as f32 / 8.0),
                tokens: 1,
            }
        };
        (0..30)
            .map(|_| (0..8).map(|_| sample(&mut draw)).collect())
            .collect()
    }

    /// Every subset of size `k`, in the pool's order, through the search's own `choose`.
    fn by_enumeration(pool: &[Sample], k: usize, how: Choose) -> f64 {
        let chain = |sample: &Sample| -> FinishedChain {
            let answer = sample.class.map(|class| class.to_string());
            let score = sample.score.filter(|_| how != Choose::Majority);
            let chain = serde_json::json!({
                "node": 0, "finish": "answer", "score": score, "logprob": 0.0, "answer": answer, "class": answer,
                "is_guess": sample.is_guess,
            });
            serde_json::from_value(chain).unwrap()
        };
        let (mut all, mut right) = (0, 0);
        for subset in 0..1_u32 << pool.len() {
            if subset.count_ones() as usize != k {
                continue;
            }
            let picked: Vec<&Sample> = pool
                .iter()
                .enumerate()
                .filter(|(i, _)| subset >> i & 1 == 1)
                .map(|(_, sample)| sample)
                .collect();
            let chains: Vec<FinishedChain> = picked.iter().map(|sample| chain(sample)).collect();
            all += 1;
            right += u32::from(choose(&chains, how).is_some_and(|i| picked[i].correct));
        }
        f64::from(right) / f64::from(all)
    }

    #[test]
    fn best_of_k_is_the_mean_over_all_subsets() {
        for pool in pools() {
            for k in 1..=pool.len() {
                let got = chosen_at_k(&pool, k, Choose::Best, 0).unwrap();
                let want = by_enumeration(&pool, k, Choose::Best);
                assert!((got - want).abs() < 1e-12, "k {k}: {got} {want} {pool:?}");
            }
        }
    }

    #[test]
    fn votes_approach_the_mean_over_all_subsets() {
        for how in [Choose::Majority, Choose::Weighted] {
            for k in 1..=8 {
                let (mut got, mut want) = (0.0, 0.0);
                for (seed, pool) in pools().into_iter().enumerate() {
                    got += chosen_at_k(&pool, k, how, seed as u64).unwrap();
                    want += by_enumeration(&pool, k, how);
                }
                // 30 pools of 100 subsets: a standard error of 0.01 at most.
                assert!((got - want).abs() / 30.0 < 0.03, "{how} {k}: {got} {want}");
            }
        }
    }

    #[test]
    fn the_choice_of_the_whole_pool_is_that_of_the_search() {
        for pool in pools() {
            for &how in Choose::ALL {
                let got = chosen_at_k(&pool, 8, how, 3);
                assert_eq!(got, Some(by_enumeration(&pool, 8, how)), "{how} {pool:?}");
            }
        }
    }

    #[test]
    fn one_of_k_is_the_pass_rate_however_chosen() {
        for pool in pools() {
            let rate = pass_rate(&pool);
            assert_eq!(chosen_at_k(&pool, 1, Choose::Majority, 0), rate);
            assert!((best_at_k(&pool, 1) - rate.unwrap()).abs() < 1e-12);
        }
        assert_eq!(pass_rate(&[]), None);
        assert_eq!(chosen_at_k(&pools()[0], 9, Choose::Best, 0), None);
    }
}
