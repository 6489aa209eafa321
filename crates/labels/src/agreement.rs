//! The agreement between people who rated the same chains.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::{LabelledChain, LabelledStep};

/// The agreement between two people on the chains that both rated.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Agreement {
    /// The people's names, in alphabetical order.
    pub raters: [String; 2],
    /// The agreement on single steps, over all steps that both people rated 1, 0 or -1.
    pub steps: Kappa,
    /// The agreement on the index of a chain's first wrong step, where "no wrong step" is a value,
    /// too. A chain counts if each person rated all its steps up to the first one rated wrong.
    pub first_errors: Kappa,
}

/// Cohen's kappa (<https://doi.org/10.1177/001316446002000104>), with the counts it is computed
/// from.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Kappa {
    /// The number of items that both people rated.
    pub count: u64,
    /// The number of items that both people rated equally.
    pub equal: u64,
    /// `(observed - chance) / (1 - chance)`: 1 is full agreement, 0 is chance, below 0 is worse
    /// than chance. `None` if the agreement by chance is 1, or without items.
    pub kappa: Option<f64>,
}

impl Kappa {
    /// Computes the agreement from one pair per item: the first person's rating and the second's.
    #[must_use]
    pub fn of<T: Ord>(pairs: impl IntoIterator<Item = (T, T)>) -> Self {
        let (mut count, mut equal) = (0_u64, 0);
        let mut said: BTreeMap<T, [u64; 2]> = BTreeMap::new();
        for (a, b) in pairs {
            count += 1;
            equal += u64::from(a == b);
            said.entry(a).or_default()[0] += 1;
            said.entry(b).or_default()[1] += 1;
        }
        // The sums are integers: observed and chance agreement are subtracted without rounding.
        let by_chance: u64 = said.values().map(|[a, b]| a * b).sum();
        let most = count * count - by_chance;
        let beyond = (count * equal) as i64 - by_chance as i64;
        Self {
            count,
            equal,
            kappa: (most > 0).then(|| beyond as f64 / most as f64),
        }
    }
}

/// One person's ratings of a chain, one entry per step; `None` where the person did not rate.
type Ratings = Vec<Option<i8>>;

/// Returns the agreement of every two people, sorted by name. Chains with the same problem and the
/// same steps count as one chain. Each chain comes with a name for the person whose ratings have no
/// name.
#[must_use]
pub fn agreement<'a>(
    chains: impl IntoIterator<Item = (&'a str, &'a LabelledChain)>,
) -> Vec<Agreement> {
    let mut by_rater: BTreeMap<&str, BTreeMap<String, Ratings>> = BTreeMap::new();
    for (unnamed, chain) in chains {
        // A key is a hash of the whole chain, so it is computed at most once, and only for rated
        // chains.
        let mut key = None;
        let mut add = |rater: &'a str, of: &dyn Fn(&LabelledStep) -> Option<i8>| {
            let ratings: Ratings = chain.steps.iter().map(of).collect();
            if ratings.iter().any(Option::is_some) {
                let key = key.get_or_insert_with(|| chain.key()).clone();
                by_rater.entry(rater).or_default().insert(key, ratings);
            }
        };
        add(unnamed, &|step| step.rating);
        let mut names: Vec<&'a str> = Vec::new();
        for step in &chain.steps {
            names.extend(step.ratings.keys().map(String::as_str));
        }
        names.sort_unstable();
        names.dedup();
        for name in names {
            add(name, &|step| step.ratings.get(name)?.rating);
        }
    }
    let raters: Vec<_> = by_rater.iter().collect();
    let mut all = Vec::new();
    for (i, (one, of_one)) in raters.iter().enumerate() {
        // Later raters only: each pair of people is compared once.
        for (other, of_other) in &raters[i + 1..] {
            let both = || {
                of_one
                    .iter()
                    .filter_map(|(key, a)| Some((a, of_other.get(key)?)))
            };
            let steps = both().flat_map(|(a, b)| a.iter().zip(b));
            // `?` skips the chain if the first error is unknown for one of the two people.
            let first = both().filter_map(|(a, b)| Some((first_error(a)?, first_error(b)?)));
            all.push(Agreement {
                raters: [(**one).to_owned(), (**other).to_owned()],
                steps: Kappa::of(steps.filter_map(|(a, b)| (*a).zip(*b))),
                first_errors: Kappa::of(first),
            });
        }
    }
    all
}

/// Returns the index of the first wrong step, `Some(None)` if all steps are rated and none is
/// wrong, or `None` if an unrated step comes before any wrong one.
fn first_error(ratings: &[Option<i8>]) -> Option<Option<usize>> {
    for (i, rating) in ratings.iter().enumerate() {
        if (*rating)? < 0 {
            return Some(Some(i));
        }
    }
    Some(None)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Rated;

    #[test]
    fn kappa_is_that_of_cohens_table() {
        // 20 and 15 of 50 agree; chance agrees on (25 * 30 + 25 * 20) of 2500: (35/50 - 1/2) / (1/2).
        let table = [((1, 1), 20), ((1, 0), 5), ((0, 1), 10), ((0, 0), 15)];
        let pairs = table
            .into_iter()
            .flat_map(|(pair, times)| std::iter::repeat_n(pair, times));
        let kappa = Kappa::of(pairs);
        assert_eq!((kappa.count, kappa.equal), (50, 35));
        assert_eq!(kappa.kappa, Some(0.4));
        // Worse than chance, full agreement, and where chance cannot be wrong.
        assert_eq!(Kappa::of([(1, 0), (0, 1)]).kappa, Some(-1.0));
        assert_eq!(Kappa::of([(1, 1), (0, 0)]).kappa, Some(1.0));
        assert_eq!(Kappa::of([(1, 1), (1, 1)]).kappa, None);
        assert_eq!(Kappa::of::<i8>([]).kappa, None);
    }

    fn chain(problem: &str, ratings: &[&[(&str, i8)]]) -> LabelledChain {
        let mut chain = LabelledChain {
            problem: problem.to_owned(),
            ..LabelledChain::default()
        };
        for (i, ratings) in ratings.iter().enumerate() {
            let mut step = LabelledStep::unlabelled(format!("step {i}"));
            for &(name, rating) in *ratings {
                let (rating, comment) = (Some(rating), None);
                step.ratings
                    .insert(name.to_owned(), Rated { rating, comment });
            }
            chain.steps.push(step);
        }
        chain
    }

    #[test]
    fn two_people_are_compared_by_step_and_by_first_error() {
        let chains = [
            // Both rate the second step wrong; Anna does not rate the third.
            chain(
                "a",
                &[
                    &[("anna", 1), ("ben", 1)],
                    &[("anna", -1), ("ben", -1)],
                    &[("ben", -1)],
                ],
            ),
            // Anna rates no step wrong, Ben rates the first step wrong.
            chain("b", &[&[("anna", 1), ("ben", -1)], &[("anna", 0)]]),
            // Ben has not rated the last step, so his first error is unknown.
            chain("c", &[&[("anna", 1), ("ben", 1)], &[("anna", 1)]]),
            // Both rate every step right.
            chain("d", &[&[("anna", 1), ("ben", 1)]]),
        ];
        let found = agreement(chains.iter().map(|chain| ("file", chain)));
        let [found] = &found[..] else {
            panic!("{found:?}")
        };
        assert_eq!(found.raters, ["anna", "ben"]);
        // (1, 1), (-1, -1), (1, -1), (1, 1), (1, 1): 4 of 5; chance 4 * 3 + 1 * 2 of 25.
        assert_eq!((found.steps.count, found.steps.equal), (5, 4));
        assert_eq!(found.steps.kappa, Some(6.0 / 11.0));
        // (1, 1), (none, 0), (none, none): 2 of 3; chance 1 * 1 + 2 * 1 of 9.
        let first = &found.first_errors;
        assert_eq!((first.count, first.equal), (3, 2));
        assert_eq!(first.kappa, Some(0.5));
    }

    #[test]
    fn ratings_without_names_are_those_of_their_files() {
        fn rated(rating: i8) -> LabelledChain {
            LabelledChain {
                problem: "a".to_owned(),
                steps: vec![LabelledStep {
                    rating: Some(rating),
                    ..LabelledStep::unlabelled("b".to_owned())
                }],
                ..LabelledChain::default()
            }
        }
        let (one, other) = (rated(1), rated(-1));
        let found = agreement([("one", &one), ("other", &other)]);
        assert_eq!(found.len(), 1);
        assert_eq!((found[0].steps.count, found[0].steps.equal), (1, 0));
        assert_eq!(agreement([("one", &one), ("one", &other)]), []);
    }
}
