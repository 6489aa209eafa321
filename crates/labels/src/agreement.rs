//! How far people agree who rated the same chains.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::{LabelledChain, LabelledStep};

/// How far two people agree, each of whom has rated a part of the chains.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Agreement {
    /// Their names.
    pub raters: [String; 2],
    /// Ratings of the steps that both rated: 1, 0 or -1.
    pub steps: Kappa,
    /// The first wrong steps of the chains of which both say it: the step, or none.
    pub first_errors: Kappa,
}

/// Cohen's kappa and what it is made of.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Kappa {
    /// Things that both spoke of.
    pub count: u64,
    /// The things on which they agree.
    pub equal: u64,
    /// The agreement beyond chance, as a share of the most there can be: 1 is full agreement, 0 is
    /// chance. It is unknown where chance would always agree.
    pub kappa: Option<f64>,
}

impl Kappa {
    /// Counts pairs of what two people say.
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
        // Both sums are exact, so there is one rounding only.
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

/// The ratings of one person for one chain.
type Ratings = Vec<Option<i8>>;

/// How far each two people agree on the chains, in the order of their names. Chains with the same
/// problem and steps are one. A rating without a name is by the person whose name stands next to
/// its chain.
#[must_use]
pub fn agreement<'a>(
    chains: impl IntoIterator<Item = (&'a str, &'a LabelledChain)>,
) -> Vec<Agreement> {
    let mut by_rater: BTreeMap<&str, BTreeMap<String, Ratings>> = BTreeMap::new();
    for (unnamed, chain) in chains {
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
        for (other, of_other) in &raters[i + 1..] {
            let both = || {
                of_one
                    .iter()
                    .filter_map(|(key, a)| Some((a, of_other.get(key)?)))
            };
            let steps = both().flat_map(|(a, b)| a.iter().zip(b));
            let first = |(a, b): (&Ratings, &Ratings)| Some((first_error(a)?, first_error(b)?));
            all.push(Agreement {
                raters: [(**one).to_owned(), (**other).to_owned()],
                steps: Kappa::of(steps.filter_map(|(a, b)| (*a).zip(*b))),
                first_errors: Kappa::of(both().filter_map(first)),
            });
        }
    }
    all
}

/// The first wrong step, or `None` inside if none is; nothing if the ratings do not say.
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
        let step = |(i, of): (usize, &&[(&str, i8)])| {
            let rated = |&(name, rating): &(&str, i8)| {
                let rating = Some(rating);
                let comment = None;
                (name.to_owned(), Rated { rating, comment })
            };
            LabelledStep {
                ratings: of.iter().map(rated).collect(),
                ..LabelledStep::unlabelled(format!("step {i}"))
            }
        };
        LabelledChain {
            problem: problem.to_owned(),
            steps: ratings.iter().enumerate().map(step).collect(),
            ..LabelledChain::default()
        }
    }

    #[test]
    fn two_people_are_compared_by_step_and_by_first_error() {
        let chains = [
            // Both: the second step is wrong. One stopped there.
            chain(
                "a",
                &[
                    &[("anna", 1), ("ben", 1)],
                    &[("anna", -1), ("ben", -1)],
                    &[("ben", -1)],
                ],
            ),
            // Anna: none; Ben: the first.
            chain("b", &[&[("anna", 1), ("ben", -1)], &[("anna", 0)]]),
            // Ben has not come to its end.
            chain("c", &[&[("anna", 1), ("ben", 1)], &[("anna", 1)]]),
            // Both: none.
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
        let rated = |rating| LabelledChain {
            problem: "a".to_owned(),
            steps: vec![LabelledStep {
                rating: Some(rating),
                ..LabelledStep::unlabelled("b".to_owned())
            }],
            ..LabelledChain::default()
        };
        let (one, other) = (rated(1), rated(-1));
        let found = agreement([("one", &one), ("other", &other)]);
        assert_eq!(found.len(), 1);
        assert_eq!((found[0].steps.count, found[0].steps.equal), (1, 0));
        assert_eq!(agreement([("one", &one), ("one", &other)]), []);
    }
}
