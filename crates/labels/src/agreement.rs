//! The agreement of people who rated the same chains.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::{LabelledChain, LabelledStep};

/// The agreement of two people who rated overlapping sets of chains.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Agreement {
    /// The names of the two people, in alphabetical order.
    pub raters: [String; 2],
    /// The agreement on the ratings (1, 0 or -1) of the steps that both rated.
    pub steps: Kappa,
    /// The agreement on the first wrong step, for the chains that both rated far enough: the step,
    /// or none.
    pub first_errors: Kappa,
}

/// Cohen's kappa (<https://doi.org/10.1177/001316446002000104>) and its counts.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Kappa {
    /// The number of items that both people rated.
    pub count: u64,
    /// The number of items on which they agree.
    pub equal: u64,
    /// The agreement beyond chance, as a share of the largest possible: 1 is full agreement, 0 is
    /// chance. `None` if chance alone would always agree.
    pub kappa: Option<f64>,
}

impl Kappa {
    /// Counts pairs of ratings by two people.
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
        // Both sums are exact integers, so the result is rounded only once.
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

/// The ratings of one person for one chain, by step.
type Ratings = Vec<Option<i8>>;

/// Returns the agreement of each two people on the chains, sorted by name. Chains with the same
/// problem and steps count as one chain. A rating without a name belongs to the person whose name
/// is given with its chain.
#[must_use]
pub fn agreement<'a>(
    chains: impl IntoIterator<Item = (&'a str, &'a LabelledChain)>,
) -> Vec<Agreement> {
    let mut by_rater: BTreeMap<&str, BTreeMap<String, Ratings>> = BTreeMap::new();
    for (unnamed, chain) in chains {
        // A key hashes the whole chain, so it is computed only if somebody rated the chain.
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
        // Each pair once: agreement is symmetric.
        for (other, of_other) in &raters[i + 1..] {
            let both = || {
                of_one
                    .iter()
                    .filter_map(|(key, a)| Some((a, of_other.get(key)?)))
            };
            let steps = both().flat_map(|(a, b)| a.iter().zip(b));
            // A chain counts only if both ratings determine the first error.
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

/// Returns the first wrong step, or `Some(None)` if no step is wrong; `None` if the ratings end
/// before that is known.
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
            // Both rate the second step wrong. One of them stopped there.
            chain(
                "a",
                &[
                    &[("anna", 1), ("ben", 1)],
                    &[("anna", -1), ("ben", -1)],
                    &[("ben", -1)],
                ],
            ),
            // Anna finds no error, Ben finds the first step wrong.
            chain("b", &[&[("anna", 1), ("ben", -1)], &[("anna", 0)]]),
            // Ben has not rated the last step.
            chain("c", &[&[("anna", 1), ("ben", 1)], &[("anna", 1)]]),
            // Neither finds an error.
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
