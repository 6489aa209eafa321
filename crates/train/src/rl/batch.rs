//! What is sampled for an update: groups of chains with what they earned.

use beamgen_search::{Problem, Scorer};
use rand::seq::SliceRandom;
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::SeedableRng;

use super::Recipe;
use super::policy::Policy;
use super::reward::Earned;
use super::rollout::{Chain, Group, Rollouts};
use crate::Result;

/// Batches sampled for one update, at most, where groups without signal are dropped.
const MOST: usize = 8;

/// The groups of an update.
#[derive(Debug, Default)]
pub(super) struct Batch {
    /// Learnt from.
    pub groups: Vec<(Group, Earned)>,
    /// Sampled and dropped.
    pub dropped: Vec<(Group, Earned)>,
    /// What all of them cost; its groups are those above.
    pub rollouts: Rollouts,
}

impl Batch {
    /// Samples groups of the next problems of `stream`. Where the algorithm drops groups without
    /// signal, others are sampled until there are enough.
    ///
    /// # Errors
    /// A model fails.
    pub(super) fn sample(
        recipe: &Recipe,
        policy: &mut Policy,
        mut scorer: Option<&mut (dyn Scorer + '_)>,
        stream: &mut Stream<'_>,
    ) -> Result<Self> {
        let plan = recipe.plan(recipe.group);
        let mut batch = Self::default();
        for _ in 0..MOST {
            let problems = stream.next(recipe.problems - batch.groups.len());
            let scorer = scorer.as_deref_mut();
            let rollouts = plan.roll_out(policy.generator(), scorer, problems)?;
            batch.rollouts.tokens += rollouts.tokens;
            batch.rollouts.seconds += rollouts.seconds;
            batch.rollouts.scoring += rollouts.scoring;
            for group in rollouts.groups {
                let earned = Earned::of(recipe, &group);
                if recipe.algorithm.resamples && !earned.informative {
                    batch.dropped.push((group, earned));
                } else {
                    batch.groups.push((group, earned));
                }
            }
            if batch.groups.len() >= recipe.problems {
                break;
            }
        }
        Ok(batch)
    }

    /// All groups that were sampled.
    pub(super) fn all(&self) -> impl Iterator<Item = &(Group, Earned)> {
        self.groups.iter().chain(&self.dropped)
    }

    /// All chains that were sampled.
    pub(super) fn chains(&self) -> impl Iterator<Item = &Chain> {
        self.all().flat_map(|(group, _)| &group.chains)
    }
}

/// The endless stream of problems: all of them in a random order, then again in another.
#[derive(Debug)]
pub(super) struct Stream<'a> {
    /// The problems.
    pub problems: &'a [Problem],
    /// Of the orders.
    pub seed: u64,
    /// How many problems were taken.
    pub drawn: &'a mut usize,
}

impl Stream<'_> {
    /// The next problems. A problem's number in the stream is its id, so that its chains have new
    /// random numbers each time.
    fn next(&mut self, count: usize) -> Vec<Problem> {
        let all = self.problems.len();
        let mut order: Option<(usize, Vec<usize>)> = None;
        let mut next = |drawn: usize| {
            let round = drawn / all;
            if order.as_ref().is_none_or(|(of, _)| *of != round) {
                let mut shuffled: Vec<usize> = (0..all).collect();
                let mut rng = ChaCha8Rng::seed_from_u64(self.seed);
                rng.set_stream(round as u64);
                shuffled.shuffle(&mut rng);
                order = Some((round, shuffled));
            }
            let at = order.as_ref().map_or(0, |(_, order)| order[drawn % all]);
            Problem {
                id: drawn.to_string(),
                ..self.problems[at].clone()
            }
        };
        let from = *self.drawn;
        let problems = (from..from + count).map(&mut next).collect();
        *self.drawn += count;
        problems
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_stream_has_every_problem_once_a_round_and_depends_on_its_place_alone() {
        let problems: Vec<Problem> = (0..5)
            .map(|i| Problem {
                text: i.to_string(),
                ..Problem::from("")
            })
            .collect();
        let take = |from: usize, count: usize| {
            let mut drawn = from;
            let mut stream = Stream {
                problems: &problems,
                seed: 3,
                drawn: &mut drawn,
            };
            let next = stream.next(count);
            assert_eq!(drawn, from + count);
            next
        };
        let all = take(0, 20);
        for round in all.chunks(5) {
            let mut texts: Vec<&str> = round.iter().map(|p| p.text.as_str()).collect();
            texts.sort_unstable();
            assert_eq!(texts, ["0", "1", "2", "3", "4"]);
        }
        assert_eq!([take(0, 7), take(7, 13)].concat(), all);
        assert_eq!(all[19].id, "19");
    }
}
