//! The unbiased estimator of pass@k (Chen et al. 2021, "Evaluating Large Language Models Trained on
//! Code", section 2.1).

/// Returns the probability that at least one of `k` samples is right if they are taken without replacement from `n`
/// samples, `correct` of which are right: `1 - C(n - correct, k) / C(n, k)`. The expected value over pools of `n`
/// samples is the pass@k. Returns `None` if `k` is 0, or if `k` or `correct` is above `n`.
pub fn pass_at_k(n: usize, correct: usize, k: usize) -> Option<f64> {
    if k == 0 || k > n || correct > n {
        return None;
    }
    // The product form: no binomial coefficient is ever formed, so nothing overflows.
    let wrong = n - correct;
    if wrong < k {
        return Some(1.0);
    }
    let none = (0..k).fold(1.0, |product, i| {
        product * (wrong - i) as f64 / (n - i) as f64
    });
    Some(1.0 - none)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_the_share_of_subsets_with_a_right_sample() {
        for n in 1..=9_usize {
            for correct in 0..=n {
                for k in 1..=n {
                    let (mut all, mut hit) = (0, 0);
                    for subset in 0..1_u32 << n {
                        if subset.count_ones() as usize == k {
                            all += 1;
                            hit += u32::from(subset & ((1 << correct) - 1) != 0);
                        }
                    }
                    let want = f64::from(hit) / f64::from(all);
                    let got = pass_at_k(n, correct, k).unwrap();
                    assert!(
                        (got - want).abs() < 1e-12,
                        "{n} {correct} {k}: {got} {want}"
                    );
                }
            }
        }
    }

    #[test]
    fn more_than_there_are_cannot_be_drawn() {
        assert_eq!(pass_at_k(4, 2, 5), None);
        assert_eq!(pass_at_k(4, 2, 0), None);
        assert_eq!(pass_at_k(4, 5, 1), None);
        assert_eq!(pass_at_k(2000, 1000, 1000), Some(1.0));
    }
}
