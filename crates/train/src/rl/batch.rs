//! The batch of an update: sampled groups of chains with their rewards.

use beamgen_search::{Problem, Scorer};
use rand::seq::SliceRandom;
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::SeedableRng;

use super::Recipe;
use super::policy::Policy;
use super::reward::Earned;
use super::rollout::{Chain, Group, Rollouts};
use crate::Result;

/// The largest number of rounds of sampling for an update, where groups without signal are dropped.
const MOST: usize = 8;

/// The groups of an update.
#[derive(Debug, Default)]
pub(super) struct Batch {
    /// The groups to learn from.
    pub groups: Vec<(Group, Earned)>,
    /// The groups that were sampled and dropped, since their chains have equal rewards.
    pub dropped: Vec<(Group, Earned)>,
    /// The cost of all groups, dropped ones included. Its own list of groups is empty.
    pub rollouts: Rollouts,
}

impl Batch {
    /// Samples groups for the next problems of `stream`. If the algorithm drops groups without
    /// signal, more groups are sampled until enough remain.
    ///
    /// # Errors
    /// The policy or the scorer fails.
    pub(super) fn sample(
        recipe: &Recipe,
        policy: &mut Policy,
        mut scorer: Option<&mut (dyn Scorer + '_)>,
        stream: &mut Stream<'_>,
    ) -> Result<Self> {
        let plan = recipe.plan(recipe.group);
        let mut batch = Self::default();
        // Bounded: a policy that solves all problems, or none, would never fill the batch.
        for _ in 0..MOST {
            let problems = stream.next(recipe.problems - batch.groups.len());
            let scorer = scorer.as_deref_mut();
            let rollouts = plan.roll_out(policy.generator(), scorer, problems)?;
            // Dropped groups cost time and tokens too, so the cost counts them.
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

    /// Returns all sampled groups, dropped ones included.
    pub(super) fn all(&self) -> impl Iterator<Item = &(Group, Earned)> {
        self.groups.iter().chain(&self.dropped)
    }

    /// Returns the chains of all sampled groups.
    pub(super) fn chains(&self) -> impl Iterator<Item = &Chain> {
        self.all().flat_map(|(group, _)| &group.chains)
    }
}

/// The endless stream of problems: all of them in a random order, then again in another order.
#[derive(Debug)]
pub(super) struct Stream<'a> {
    pub problems: &'a [Problem],
    /// The seed of the orders.
    pub seed: u64,
    /// The number of problems taken so far, saved with the run's state.
    pub taken: &'a mut usize,
}

impl Stream<'_> {
    /// Returns the next problems. A problem's id is its number in the stream: random numbers follow
    /// from the id, so each round samples other chains.
    fn next(&mut self, count: usize) -> Vec<Problem> {
        let all = self.problems.len();
        let mut order: Option<(usize, Vec<usize>)> = None;
        let from = *self.taken;
        let problems = (from..from + count)
            .map(|number| {
                let round = number / all;
                if order.as_ref().is_none_or(|(known, _)| *known != round) {
                    // Each round has its own stream, so any place can be reached without the rounds
                    // before: a resumed run continues at `taken`.
                    let mut shuffled: Vec<usize> = (0..all).collect();
                    let mut rng = ChaCha8Rng::seed_from_u64(self.seed);
                    rng.set_stream(round as u64);
                    shuffled.shuffle(&mut rng);
                    order = Some((round, shuffled));
                }
                let at = order.as_ref().map_or(0, |(_, order)| order[number % all]);
                Problem {
                    id: number.to_string(),
                    ..self.problems[at].clone()
                }
            })
            .collect();
        *self.taken += count;
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
            let mut taken = from;
            let mut stream = Stream {
                problems: &problems,
                seed: 3,
                taken: &mut taken,
            };
            let next = stream.next(count);
            assert_eq!(taken, from + count);
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
