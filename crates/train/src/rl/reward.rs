//! Rewards of the chains of a group, and advantages of their tokens.

use super::advantage::{advantages, is_informative, shaped};
use super::rollout::{Chain, Group};
use super::{Recipe, Reward};

/// A group's rewards and advantages.
#[derive(Debug)]
pub(super) struct Earned {
    /// The reward of each chain for reports, without length penalties.
    pub rewards: Vec<f64>,
    /// The advantage of each token, for each chain of the group.
    pub advantages: Vec<Vec<f64>>,
    /// True if the chains have different rewards, so that the group has a gradient. Length penalties do not count.
    pub informative: bool,
}

impl Earned {
    /// Computes the rewards that `recipe` asks for, and the advantages of the tokens.
    pub(super) fn of(recipe: &Recipe, group: &Group) -> Self {
        let chains = group.chains.iter();
        let outcomes: Vec<Vec<f64>> = chains
            .clone()
            .map(|chain| vec![f64::from(u8::from(chain.is_right()))])
            .collect();
        let processes = if recipe.reward.scores() {
            chains
                .map(|chain| recipe.credit.rewards(&chain.scores()))
                .collect()
        } else {
            vec![Vec::new(); outcomes.len()]
        };
        let right: Vec<f64> = outcomes.iter().map(|outcome| outcome[0]).collect();
        let rewards: Vec<f64> = group
            .chains
            .iter()
            .zip(&right)
            .map(|(chain, right)| match recipe.reward {
                Reward::Outcome | Reward::Rollouts => *right,
                Reward::Prm => recipe.credit.earned(&chain.scores()),
                Reward::Both => right + recipe.prm_weight * recipe.credit.earned(&chain.scores()),
            })
            .collect();
        // With both rewards only the outcome counts, because step scores nearly always differ a little.
        let informative = match recipe.reward {
            Reward::Prm => is_informative(&rewards),
            Reward::Outcome | Reward::Both | Reward::Rollouts => is_informative(&right),
        };
        let algorithm = &recipe.algorithm;
        let by_step: Vec<Vec<f64>> = match recipe.reward {
            Reward::Outcome => {
                let by_chain = advantages(algorithm, &penalised(recipe, group, outcomes));
                let steps = group.chains.iter().map(|chain| chain.steps.len());
                by_chain
                    .iter()
                    .zip(steps)
                    .map(|(a, n)| vec![a[0]; n])
                    .collect()
            }
            Reward::Prm => advantages(algorithm, &penalised(recipe, group, processes)),
            Reward::Rollouts => {
                let before = right.iter().sum::<f64>() / right.len().max(1) as f64;
                let gains = group
                    .chains
                    .iter()
                    .map(|chain| gains(before, chain))
                    .collect();
                penalised(recipe, group, gains)
            }
            Reward::Both => {
                // Each reward gets its own baseline and scale, because the two have different ranges.
                let by_chain = advantages(algorithm, &penalised(recipe, group, outcomes));
                let by_step = advantages(algorithm, &processes);
                let both = by_chain.iter().zip(by_step).map(|(outcome, process)| {
                    let both = process
                        .iter()
                        .map(|&process| shaped(outcome[0], process, recipe.prm_weight));
                    both.collect()
                });
                both.collect()
            }
        };
        let tokens = by_step.iter().zip(&group.chains).map(|(by_step, chain)| {
            let steps = by_step.iter().zip(&chain.steps);
            steps
                .flat_map(|(&advantage, step)| std::iter::repeat_n(advantage, step.tokens))
                .collect()
        });
        Self {
            rewards,
            advantages: tokens.collect(),
            informative,
        }
    }
}

/// Returns V after each step minus V before it, where `before` is V of the problem. A step without a value, which was
/// not completed, changes nothing.
fn gains(before: f64, chain: &Chain) -> Vec<f64> {
    let mut before = before;
    let gains = chain.steps.iter().map(|step| {
        let after = step.value.unwrap_or(before);
        let gain = after - before;
        before = after;
        gain
    });
    gains.collect()
}

/// Subtracts the length penalty from the last reward of each chain, if the algorithm has a penalty.
fn penalised(recipe: &Recipe, group: &Group, mut rewards: Vec<Vec<f64>>) -> Vec<Vec<f64>> {
    if recipe.algorithm.overlong {
        let limit = recipe.generator.max_chain_tokens;
        for (own, chain) in rewards.iter_mut().zip(&group.chains) {
            if let Some(last) = own.last_mut() {
                *last -= penalty(chain.tokens.len(), limit);
            }
        }
    }
    rewards
}

/// The last fraction of the length limit, in which the penalty grows: 4,096 of 20,480 tokens in DAPO.
const PART: f64 = 0.2;

/// Returns the length penalty, 0 to 1, of a chain with `length` of at most `limit` tokens: the soft overlong
/// punishment of DAPO (arXiv 2503.14476).
fn penalty(length: usize, limit: usize) -> f64 {
    let (length, limit) = (length as f64, limit as f64);
    let free = limit * (1.0 - PART);
    ((length - free) / (limit - free).max(f64::MIN_POSITIVE)).clamp(0.0, 1.0)
}

#[cfg(test)]
mod tests {
    use super::super::rollout::Step;
    use super::super::{Algorithm, Credit};
    use super::*;
    use beamgen_eval::Verdict;

    /// Makes a chain with one step for each pair of a number of tokens and a score.
    fn chain(right: bool, steps: &[(usize, f32)]) -> Chain {
        let total = steps.iter().map(|step| step.0).sum();
        Chain {
            tokens: vec![0; total],
            steps: steps
                .iter()
                .map(|&(tokens, score)| Step {
                    tokens,
                    log_prob: -1.0,
                    score: Some(score),
                    value: None,
                })
                .collect(),
            finished: true,
            verdict: if right {
                Verdict::Same
            } else {
                Verdict::Different
            },
            repeated: 0,
            is_unsound: false,
        }
    }

    fn group(chains: Vec<Chain>) -> Group {
        Group {
            prompt: vec![1],
            chains,
        }
    }

    fn recipe(algorithm: &str, reward: Reward, credit: Credit) -> Recipe {
        Recipe {
            algorithm: algorithm.parse().unwrap(),
            reward,
            credit,
            ..Recipe::default()
        }
    }

    #[test]
    fn an_outcome_is_worth_the_same_at_all_tokens() {
        let group = group(vec![
            chain(true, &[(2, 0.0), (1, 0.0)]),
            chain(false, &[(1, 0.0)]),
        ]);
        let earned = Earned::of(&recipe("dr-grpo", Reward::Outcome, Credit::Min), &group);
        assert_eq!(earned.rewards, [1.0, 0.0]);
        assert_eq!(earned.advantages, [vec![0.5; 3], vec![-0.5]]);
        assert!(earned.informative);
    }

    #[test]
    fn the_worst_step_and_those_before_it_are_blamed() {
        let group = group(vec![
            chain(true, &[(1, 1.0), (1, 1.0), (1, 1.0)]),
            chain(false, &[(1, 1.0), (1, 0.0), (1, 1.0)]),
        ]);
        let earned = Earned::of(&recipe("rloo", Reward::Prm, Credit::Min), &group);
        let [right, wrong] = &earned.advantages[..] else {
            panic!("two chains");
        };
        assert!(right.iter().all(|&a| a > 0.0), "{right:?}");
        assert!(wrong[0] < -1.0 && wrong[1] < -1.0, "{wrong:?}");
        // What follows the mistake is worth less than what others earn there, and no more.
        assert!(wrong[2] > -0.5, "{wrong:?}");
    }

    #[test]
    fn both_keep_the_sign_of_the_outcome() {
        let group = group(vec![
            chain(true, &[(1, 1.0), (1, 0.0)]),
            chain(false, &[(1, 1.0), (1, 1.0)]),
            chain(false, &[(1, 0.0), (1, 1.0)]),
        ]);
        for row in Algorithm::ALL {
            let earned = Earned::of(&recipe(row.name, Reward::Both, Credit::Min), &group);
            assert!(earned.advantages[0].iter().all(|&a| a > 0.0));
            assert!(earned.advantages[1..].iter().flatten().all(|&a| a < 0.0));
        }
    }

    #[test]
    fn a_reward_model_speaks_where_all_answers_are_wrong() {
        let group = group(vec![chain(false, &[(1, 0.9)]), chain(false, &[(1, 0.1)])]);
        let earned = Earned::of(&recipe("dr-grpo", Reward::Both, Credit::Min), &group);
        assert!(earned.advantages[0][0] > 0.0 && earned.advantages[1][0] < 0.0);
        assert!(!earned.informative);
    }

    #[test]
    fn a_step_earns_what_it_adds_to_the_value() {
        let mut chains = [true, false].map(|right| chain(right, &[(2, 0.0), (1, 0.0), (1, 0.0)]));
        for (chain, values) in chains.iter_mut().zip([[0.75, 0.25, 1.0], [0.5, 0.0, 0.0]]) {
            for (step, value) in chain.steps.iter_mut().zip(values) {
                step.value = Some(value);
            }
        }
        let group = group(chains.to_vec());
        let earned = Earned::of(&recipe("grpo", Reward::Rollouts, Credit::Min), &group);
        // V of the problem is the mean outcome, 1/2.
        let expected = [vec![0.25, 0.25, -0.5, 0.75], vec![0.0, 0.0, -0.5, 0.0]];
        assert_eq!(earned.advantages, expected);
        assert_eq!(earned.rewards, [1.0, 0.0]);
        assert!(earned.informative);
        // Together the steps earn the outcome less what was to be expected.
        assert_eq!(gains(0.5, &group.chains[0]).iter().sum::<f64>(), 0.5);
    }

    #[test]
    fn an_unfinished_chain_scores_nothing() {
        let mut cut = chain(false, &[(1, 1.0), (1, 1.0)]);
        cut.finished = false;
        cut.steps.iter_mut().for_each(|step| step.score = None);
        let group = group(vec![cut, chain(true, &[(1, 1.0)])]);
        let earned = Earned::of(&recipe("dr-grpo", Reward::Prm, Credit::Sum), &group);
        assert_eq!(earned.rewards, [0.0, 1.0]);
    }

    #[test]
    fn a_penalty_of_length_is_no_information() {
        let mut recipe = recipe("dapo", Reward::Outcome, Credit::Min);
        recipe.generator.max_chain_tokens = 10;
        let group = group(vec![chain(false, &[(10, 0.0)]), chain(false, &[(2, 0.0)])]);
        let earned = Earned::of(&recipe, &group);
        assert!(!earned.informative);
        assert!(earned.advantages[0][0] < 0.0 && earned.advantages[1][0] > 0.0);
    }

    #[test]
    fn the_penalty_grows_over_the_last_fifth() {
        for (length, expected) in [
            (0, 0.0),
            (80, 0.0),
            (85, 0.25),
            (90, 0.5),
            (100, 1.0),
            (120, 1.0),
        ] {
            let got = penalty(length, 100);
            assert!((got - expected).abs() < 1e-9, "{length}: {got}");
        }
    }
}
