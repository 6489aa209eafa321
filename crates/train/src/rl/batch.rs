//! The batch of an update: groups of chains, sampled for the next problems, with their rewards.

use beamgen_search::Problem;
use rand::seq::SliceRandom;
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::SeedableRng;

use super::Recipe;
use super::policy::Policy;
use super::reward::Earned;
use super::rollout::{Chain, Group, RewardSources, Rollouts};
use crate::Result;

/// The largest number of sampling rounds of an update. More than one is needed only if groups are dropped.
const MOST: usize = 8;

/// The groups of an update.
#[derive(Debug, Default)]
pub(super) struct Batch {
    pub groups: Vec<(Group, Earned)>,
    /// The groups that were sampled and dropped because their chains have equal rewards.
    pub dropped: Vec<(Group, Earned)>,
    /// The summed tokens and seconds of all sampled groups. `rollouts.groups` itself is empty.
    pub rollouts: Rollouts,
}

impl Batch {
    /// Samples groups for the next problems of `stream`. If the algorithm resamples, uninformative groups are
    /// replaced until the batch is full or `MOST` rounds are over.
    ///
    /// # Errors
    /// The policy or the reward model fails.
    pub(super) fn sample(
        recipe: &Recipe,
        policy: &mut Policy,
        mut rewards: RewardSources<'_>,
        stream: &mut Stream<'_>,
    ) -> Result<Self> {
        let plan = recipe.plan_of_group();
        let mut batch = Self::default();
        // The bound is needed because a policy that solves all problems, or none, never fills the batch.
        for _ in 0..MOST {
            let problems = stream.next(recipe.problems - batch.groups.len());
            let rollouts = plan.roll_out(policy.generator(), rewards.again(), problems)?;
            // Dropped groups took time and tokens too, so their cost is included.
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

    /// Returns the groups to learn from and the dropped ones, for reports.
    pub(super) fn all(&self) -> impl Iterator<Item = &(Group, Earned)> {
        self.groups.iter().chain(&self.dropped)
    }

    pub(super) fn chains(&self) -> impl Iterator<Item = &Chain> {
        self.all().flat_map(|(group, _)| &group.chains)
    }
}

/// The endless stream of problems: rounds over all problems, each in its own random order.
#[derive(Debug)]
pub(super) struct Stream<'a> {
    pub problems: &'a [Problem],
    pub seed: u64,
    /// The number of problems taken so far, which is saved in the run's state.
    pub taken: &'a mut usize,
}

impl Stream<'_> {
    /// Returns the next problems. A problem's id becomes its number in the stream. The random numbers of sampling
    /// depend on the id, so each round samples different chains.
    fn next(&mut self, count: usize) -> Vec<Problem> {
        let all = self.problems.len();
        let mut order: Option<(usize, Vec<usize>)> = None;
        let from = *self.taken;
        let problems = (from..from + count)
            .map(|number| {
                let round = number / all;
                if order.as_ref().is_none_or(|(known, _)| *known != round) {
                    // Each round has its own random stream. A resumed run can thus compute the order of its round
                    // without the earlier rounds.
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
