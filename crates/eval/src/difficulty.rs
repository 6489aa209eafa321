//! Difficulty buckets, and the best candidate (a way of searching) for each bucket within a budget of tokens: Snell
//! et al., "Scaling LLM Test-Time Compute Optimally", arXiv 2408.03314, section 3.2.
//!
//! The budget is a mean over all problems, so hard problems may use tokens that easy problems save. All buckets may
//! get the same candidate. A choice by bucket is thus never worse than a single candidate on the problems it was made
//! on. [`held_out`] measures both on other problems.
//!
//! The difficulty is the oracle's: the measured pass rate of a single sample, which needs the
//! reference answers. A deployed system has no answers and would have to estimate the difficulty.

use crate::draw::SplitMix;

/// The buckets by pass rate of a single sample, hardest first, in per cent.
pub const BUCKETS: [&str; 5] = ["0", "0 to 25", "25 to 50", "50 to 75", "75 to 100"];

/// The number of times that [`held_out`] splits the problems into random halves.
pub const HALVINGS: usize = 50;

/// Returns the index in [`BUCKETS`] of a pass rate from 0 to 1. A bucket includes its upper end, so the first one
/// contains only problems that no sample solved.
pub fn bucket(pass_rate: f64) -> usize {
    (pass_rate * 4.0).ceil().clamp(0.0, 4.0) as usize
}

/// Returns the indices of each bucket's problems, given the bucket of each problem.
pub fn members(buckets: &[usize]) -> Vec<Vec<usize>> {
    let all = (0..BUCKETS.len()).map(|bucket| {
        let problems = 0..buckets.len();
        problems.filter(|&i| buckets[i] == bucket).collect()
    });
    all.collect()
}

/// The accuracy and the cost of each problem, for one candidate or for a choice of candidates.
#[derive(Clone, PartialEq, Debug)]
pub struct Measures {
    /// The share of runs with a right answer, for each problem.
    pub right: Vec<f64>,
    /// The mean number of tokens of a run, for each problem.
    pub tokens: Vec<f64>,
}

#[derive(Clone, Copy, PartialEq, Debug, Default)]
struct Sums {
    right: f64,
    tokens: f64,
}

impl Sums {
    fn plus(self, other: Self) -> Self {
        Self {
            right: self.right + other.right,
            tokens: self.tokens + other.tokens,
        }
    }

    /// Compares by `right` first; equally many right answers are better with fewer tokens.
    fn is_better_than(self, other: Self) -> bool {
        self.right > other.right || (self.right == other.right && self.tokens < other.tokens)
    }
}

/// The sums of candidates and budget in each bucket, over some of the problems.
///
/// All totals are sums over buckets in the same order. With another order, rounding could put a candidate that spends
/// exactly the budget over it.
struct Totals {
    /// By candidate, then by bucket.
    candidates: Vec<Vec<Sums>>,
    budget: f64,
    is_empty: Vec<bool>,
}

impl Totals {
    fn of(candidates: &[Measures], budget: &[f64], members: &[Vec<usize>]) -> Self {
        let candidates = candidates.iter().map(|candidate| {
            let in_buckets = members.iter().map(|problems| Sums {
                right: sum(&candidate.right, problems),
                tokens: sum(&candidate.tokens, problems),
            });
            in_buckets.collect()
        });
        Self {
            candidates: candidates.collect(),
            // The budget is summed by bucket as candidates are, since one sum over all problems would round
            // differently.
            budget: members
                .iter()
                .map(|problems| sum(budget, problems))
                .fold(0.0, |a, b| a + b),
            is_empty: members.iter().map(Vec::is_empty).collect(),
        }
    }

    fn single(&self) -> Option<usize> {
        let mut best: Option<(usize, Sums)> = None;
        for (at, buckets) in self.candidates.iter().enumerate() {
            let all = buckets
                .iter()
                .fold(Sums::default(), |all, &sums| all.plus(sums));
            // In a tie of both sums the first candidate stays.
            if all.tokens <= self.budget && best.is_none_or(|(_, most)| all.is_better_than(most)) {
                best = Some((at, all));
            }
        }
        best.map(|(at, _)| at)
    }

    /// Returns the exact optimum of a multiple-choice knapsack, by Pareto fronts (Nemhauser and Ullmann, 1969). After
    /// each bucket, only partial choices that no other one beats are kept.
    fn by_bucket(&self) -> Option<Vec<Option<usize>>> {
        let mut front: Vec<(Sums, Vec<Option<usize>>)> = vec![(Sums::default(), Vec::new())];
        for (bucket, &is_empty) in self.is_empty.iter().enumerate() {
            // All candidates are equal on an empty bucket, so a pick would be noise in reports.
            if is_empty {
                for (_, picks) in front.iter_mut() {
                    picks.push(None);
                }
                continue;
            }
            // No best choice has a candidate that another one beats in this bucket.
            let options = self.candidates.iter().enumerate();
            let options = pareto(options.map(|(at, buckets)| (buckets[bucket], at)).collect());
            let mut longer = Vec::with_capacity(front.len() * options.len());
            for (sums, picks) in &front {
                for &(more, at) in &options {
                    let sums = sums.plus(more);
                    // Tokens only grow from bucket to bucket, so a partial choice over the budget stays over it.
                    if sums.tokens <= self.budget {
                        longer.push((sums, (picks, at)));
                    }
                }
            }
            // Picks are copied after `pareto`, which drops most of the partial choices.
            let kept = pareto(longer).into_iter().map(|(sums, (picks, at))| {
                let picks: &Vec<Option<usize>> = picks;
                (sums, picks.iter().copied().chain([Some(at)]).collect())
            });
            front = kept.collect();
        }
        // The front rises in both sums, so the last choice has the most right answers.
        front.pop().map(|(_, picks)| picks)
    }
}

fn sum(values: &[f64], problems: &[usize]) -> f64 {
    problems.iter().map(|&i| values[i]).sum()
}

/// Returns the Pareto front, sorted by tokens. Of equal sums the first is kept.
fn pareto<T>(mut all: Vec<(Sums, T)>) -> Vec<(Sums, T)> {
    all.sort_by(|(a, _), (b, _)| {
        // At equal tokens the most accurate comes first, and `retain` drops the others.
        a.tokens
            .total_cmp(&b.tokens)
            .then(b.right.total_cmp(&a.right))
    });
    let mut most = f64::NEG_INFINITY;
    all.retain(|(sums, _)| {
        let kept = sums.right > most;
        most = most.max(sums.right);
        kept
    });
    all
}

/// Returns the index of the most accurate candidate within the budget; the cheaper one wins a tie. `budget` has the
/// tokens of each problem, and only the sum is a limit. `members` has the problems of each bucket. Returns `None` if
/// no candidate is within the budget.
pub fn best_single(
    candidates: &[Measures],
    budget: &[f64],
    members: &[Vec<usize>],
) -> Option<usize> {
    Totals::of(candidates, budget, members).single()
}

/// Returns the most accurate choice of a candidate for each bucket within the budget; the cheaper one wins a tie.
/// `budget` has the tokens of each problem, and only the sum over all problems is a limit. `members` has the problems
/// of each bucket; an empty one gets no candidate. Returns `None` if no choice is within the budget.
///
/// On these problems the choice is at least as accurate as the candidate by [`best_single`].
pub fn best_by_bucket(
    candidates: &[Measures],
    budget: &[f64],
    members: &[Vec<usize>],
) -> Option<Vec<Option<usize>>> {
    Totals::of(candidates, budget, members).by_bucket()
}

/// The results of choices on problems other than those they were made on.
#[derive(Clone, PartialEq, Debug)]
pub struct HeldOut {
    /// The results if each problem is searched with the candidate of its bucket.
    pub by_bucket: Measures,
    /// The results if all problems are searched with the best single candidate.
    pub single: Measures,
}

impl Measures {
    fn new(problems: usize) -> Self {
        Self {
            right: vec![0.0; problems],
            tokens: vec![0.0; problems],
        }
    }

    fn add(&mut self, problem: usize, candidate: &Measures) {
        self.right[problem] += candidate.right[problem];
        self.tokens[problem] += candidate.tokens[problem];
    }
}

/// Measures choices on problems they were not made on, by two-fold cross-validation within each bucket. Every bucket
/// is halved [`HALVINGS`] times, and each half is measured with the choice made on the other half. `buckets` and
/// `budget` have the bucket and the tokens of each problem. If the choosing half has no problem of a bucket, the best
/// single candidate is used. Returns `None` for fewer than two problems, or if no candidate is within the budget of a
/// half.
pub fn held_out(
    candidates: &[Measures],
    budget: &[f64],
    buckets: &[usize],
    seed: u64,
) -> Option<HeldOut> {
    let count = buckets.len();
    if count < 2 {
        return None;
    }
    let mut draw = SplitMix::new(seed);
    let mut all = members(buckets);
    let mut sums = HeldOut {
        by_bucket: Measures::new(count),
        single: Measures::new(count),
    };
    for _ in 0..HALVINGS {
        let mut halves = [Vec::new(), Vec::new()];
        // The half that gets the first odd problem is random, since the same half would otherwise always be larger.
        let mut larger = draw.below(2);
        for problems in &mut all {
            for i in (1..problems.len()).rev() {
                problems.swap(i, draw.below(i + 1));
            }
            // Buckets of odd size take turns in which half has one more.
            let (more, less) = problems.split_at(problems.len().div_ceil(2));
            if problems.len() % 2 == 1 {
                larger = 1 - larger;
            }
            halves[larger].push(more.to_vec());
            halves[1 - larger].push(less.to_vec());
        }
        for (seen, reported) in [(&halves[0], &halves[1]), (&halves[1], &halves[0])] {
            let totals = Totals::of(candidates, budget, seen);
            let single = totals.single()?;
            for (choice, problems) in totals.by_bucket()?.into_iter().zip(reported) {
                for &problem in problems {
                    // The choosing half may have no problem of this bucket, and thus no choice for it.
                    let chosen = &candidates[choice.unwrap_or(single)];
                    sums.by_bucket.add(problem, chosen);
                    sums.single.add(problem, &candidates[single]);
                }
            }
        }
    }
    for measures in [&mut sums.by_bucket, &mut sums.single] {
        for sum in measures.right.iter_mut().chain(&mut measures.tokens) {
            *sum /= HALVINGS as f64;
        }
    }
    Some(sums)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn mean(of: &[f64]) -> f64 {
        of.iter().sum::<f64>() / of.len() as f64
    }

    #[test]
    fn buckets_include_their_upper_end() {
        let rates = [0.0, 0.001, 0.25, 0.26, 0.5, 0.75, 0.76, 1.0];
        assert_eq!(rates.map(bucket), [0, 1, 1, 2, 2, 3, 4, 4]);
    }

    /// Right and tokens of a candidate on an easy problem and on a hard one.
    fn candidate(easy: (f64, f64), hard: (f64, f64), problems: usize) -> Measures {
        let pair = |i: usize| if i.is_multiple_of(2) { easy } else { hard };
        Measures {
            right: (0..problems).map(|i| pair(i).0).collect(),
            tokens: (0..problems).map(|i| pair(i).1).collect(),
        }
    }

    /// Even problems are easy, odd ones hard; `wide` costs twice as much on hard ones.
    fn narrow_and_wide() -> ([Measures; 2], Vec<usize>) {
        let ways = [
            candidate((1.0, 10.0), (0.0, 10.0), 40),
            candidate((1.0, 20.0), (1.0, 40.0), 40),
        ];
        (ways, (0..40).map(|i| 4 - 3 * (i % 2)).collect())
    }

    /// The mistake of earlier reports: the wide way fits the budget of 30 on average, but not
    /// within the hard bucket alone, where it was left out.
    #[test]
    fn a_budget_is_a_mean_over_all_problems_and_no_cap_within_a_bucket() {
        let (ways, buckets) = narrow_and_wide();
        let members = members(&buckets);
        let within = |budget: f64| {
            let budget = vec![budget; 40];
            let by_bucket = best_by_bucket(&ways, &budget, &members)?;
            Some((by_bucket, best_single(&ways, &budget, &members)?))
        };
        let picks = |easy, hard| vec![None, Some(hard), None, None, Some(easy)];
        assert_eq!(within(9.0), None);
        assert_eq!(within(10.0), Some((picks(0, 0), 0)));
        assert_eq!(within(24.0), Some((picks(0, 0), 0)));
        assert_eq!(
            within(25.0),
            Some((picks(0, 1), 0)),
            "what the easy ones leave"
        );
        assert_eq!(
            within(30.0),
            Some((picks(0, 1), 1)),
            "the cheaper of equals"
        );
    }

    #[test]
    fn a_choice_for_each_bucket_beats_the_single_one_on_problems_not_seen() {
        let (ways, buckets) = narrow_and_wide();
        let got = held_out(&ways, &[25.0; 40], &buckets, 1).unwrap();
        assert_eq!(
            (mean(&got.by_bucket.right), mean(&got.by_bucket.tokens)),
            (1.0, 25.0)
        );
        assert_eq!(
            (mean(&got.single.right), mean(&got.single.tokens)),
            (0.5, 10.0)
        );
        assert_eq!(held_out(&ways, &[5.0; 40], &buckets, 1), None);
        assert_eq!(held_out(&ways, &[25.0], &buckets[..1], 1), None);
    }

    /// Noise that looks like a difference on the half it was chosen on is none on the other.
    #[test]
    fn noise_is_not_reported_as_a_gain() {
        let mut draw = SplitMix::new(5);
        let mut coin = |_| draw.below(2) as f64;
        let ways: Vec<Measures> = (0..20)
            .map(|_| Measures {
                right: (0..200).map(&mut coin).collect(),
                tokens: vec![1.0; 200],
            })
            .collect();
        let buckets: Vec<usize> = (0..200).map(|i| i % 5).collect();
        let got = held_out(&ways, &[1.0; 200], &buckets, 1).unwrap();
        let gain = mean(&got.by_bucket.right) - mean(&got.single.right);
        assert!(gain.abs() < 0.06, "{gain}");
        let members = members(&buckets);
        let chosen = best_by_bucket(&ways, &[1.0; 200], &members).unwrap();
        let seen = members.iter().zip(chosen).map(|(problems, choice)| {
            problems
                .iter()
                .map(|&i| ways[choice.unwrap()].right[i])
                .sum::<f64>()
        });
        assert!(
            seen.sum::<f64>() / 200.0 > 0.6,
            "in sample it looks like one"
        );
    }

    /// All choices of a candidate for each bucket, one after the other.
    fn by_enumeration(ways: &[Measures], budget: &[f64], members: &[Vec<usize>]) -> Option<Sums> {
        let totals = Totals::of(ways, budget, members);
        let mut best: Option<Sums> = None;
        for number in 0..ways.len().pow(members.len() as u32) {
            let picks = (0..members.len() as u32).map(|b| number / ways.len().pow(b) % ways.len());
            let all = picks
                .enumerate()
                .map(|(bucket, at)| totals.candidates[at][bucket]);
            let all = all.fold(Sums::default(), Sums::plus);
            if all.tokens <= totals.budget && best.is_none_or(|best| all.is_better_than(best)) {
                best = Some(all);
            }
        }
        best
    }

    fn worth(ways: &[Measures], members: &[Vec<usize>], picks: &[Option<usize>]) -> Sums {
        let of = |problems: &Vec<usize>, pick: Option<usize>| {
            let way = &ways[pick.unwrap_or(0)];
            Sums {
                right: problems.iter().map(|&i| way.right[i]).sum(),
                tokens: problems.iter().map(|&i| way.tokens[i]).sum(),
            }
        };
        let all = members
            .iter()
            .zip(picks)
            .map(|(problems, &pick)| of(problems, pick));
        all.fold(Sums::default(), Sums::plus)
    }

    /// Candidates with thirds right and odd tokens, the bucket of each problem, and which
    /// candidate's spending is the budget: nothing adds up evenly.
    fn measured() -> impl Strategy<Value = (Vec<Measures>, Vec<usize>, usize)> {
        (1..6_usize, 2..20_usize).prop_flat_map(|(ways, problems)| {
            let way = proptest::collection::vec((0..4_u8, 1..900_u16), problems);
            let way = way.prop_map(|values| Measures {
                right: values
                    .iter()
                    .map(|&(right, _)| f64::from(right) / 3.0)
                    .collect(),
                tokens: values
                    .iter()
                    .map(|&(_, tokens)| f64::from(tokens) / 7.0)
                    .collect(),
            });
            let buckets = proptest::collection::vec(0..BUCKETS.len(), problems);
            (proptest::collection::vec(way, ways), buckets, 0..ways)
        })
    }

    proptest! {
        #[test]
        fn the_choice_is_the_best_of_all_and_never_below_the_best_single_one(
            (ways, buckets, reference) in measured(),
        ) {
            let members = members(&buckets);
            let budget = &ways[reference].tokens;
            let picks = best_by_bucket(&ways, budget, &members).expect("the reference is within");
            let single = best_single(&ways, budget, &members).expect("the reference is within");
            let got = worth(&ways, &members, &picks);
            prop_assert_eq!(Some(got), by_enumeration(&ways, budget, &members));
            prop_assert!(got.right >= worth(&ways, &members, &[Some(single); BUCKETS.len()]).right);
            for (pick, problems) in picks.iter().zip(&members) {
                prop_assert_eq!(pick.is_none(), problems.is_empty());
            }
            let held_out = held_out(&ways, budget, &buckets, 1).expect("the reference is within");
            for (way, most) in [(&held_out.single.right, 1.0), (&held_out.by_bucket.right, 1.0)] {
                prop_assert!(way.iter().all(|&right| (0.0..=most + 1e-9).contains(&right)));
            }
        }
    }
}
