//! The advantages of a group of chains. Each reward has a baseline subtracted and is divided by a scale. The
//! advantage of a step is the sum over this step and all later ones (process supervision of `DeepSeekMath`, arXiv
//! 2402.03300). A chain with only an outcome reward has one advantage for all its tokens.

use super::{Algorithm, Baseline, Scale};

/// The number added to the deviation, and the smallest difference of two rewards that counts.
const LEAST: f64 = 1e-6;

/// Returns the advantages of a group. Like `rewards`, the result has a list for each chain with a number for each
/// reward of the chain, in the order of steps.
#[must_use]
pub fn advantages(algorithm: &Algorithm, rewards: &[Vec<f64>]) -> Vec<Vec<f64>> {
    let count = rewards.iter().map(Vec::len).sum::<usize>();
    let total: f64 = rewards.iter().flatten().sum();
    // Mean and deviation are over the rewards of all steps of all chains, as published for process supervision.
    let mean = total / count.max(1) as f64;
    let scale = match algorithm.scale {
        Scale::One => 1.0,
        Scale::Deviation => {
            let squares = rewards.iter().flatten().map(|r| (r - mean).powi(2));
            // The sample variance divides by n - 1, as `torch.std` does in published implementations.
            let variance = squares.sum::<f64>() / count.saturating_sub(1).max(1) as f64;
            variance.sqrt() + LEAST
        }
    };
    rewards
        .iter()
        .map(|own| {
            let others = count - own.len();
            let baseline = match algorithm.baseline {
                Baseline::Group => mean,
                Baseline::Others if others == 0 => 0.0,
                Baseline::Others => (total - own.iter().sum::<f64>()) / others as f64,
            };
            // The sum of a step includes all later steps, so it is built from the last step backwards.
            let mut sum = 0.0;
            let mut sums: Vec<f64> = own
                .iter()
                .rev()
                .map(|reward| {
                    sum += (reward - baseline) / scale;
                    sum
                })
                .collect();
            sums.reverse();
            sums
        })
        .collect()
}

/// Returns whether the rewards of a group's chains differ. Equal rewards have no gradient, for example if all chains
/// are right.
#[must_use]
pub fn is_informative(earned: &[f64]) -> bool {
    let first = earned.first().copied().unwrap_or(0.0);
    earned.iter().any(|other| (other - first).abs() > LEAST)
}

/// The largest change by the reward model, as a fraction of the outcome's advantage.
const SHAPING: f64 = 0.5;

/// Returns the advantage of a token from the outcome and the reward model. `process` times `weight` changes `outcome`
/// by at most half, so the sign is that of `outcome`: no token of a right chain is discouraged. If `outcome` is 0,
/// since all chains of the group have the same outcome, only the reward model counts.
#[must_use]
pub fn shaped(outcome: f64, process: f64, weight: f64) -> f64 {
    let process = weight * process;
    if outcome.abs() < LEAST {
        return process;
    }
    let most = SHAPING * outcome.abs();
    outcome + process.clamp(-most, most)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn close(ours: &[Vec<f64>], expected: &[Vec<f64>]) {
        let [ours, expected] = [ours, expected].map(<[Vec<f64>]>::concat);
        assert_eq!(ours.len(), expected.len());
        for (a, b) in ours.iter().zip(&expected) {
            assert!((a - b).abs() < 1e-4, "{ours:?} against {expected:?}");
        }
    }

    fn by_name(name: &str, rewards: &[Vec<f64>]) -> Vec<Vec<f64>> {
        advantages(&name.parse().unwrap(), rewards)
    }

    fn outcomes(rewards: &[f64]) -> Vec<Vec<f64>> {
        rewards.iter().map(|&r| vec![r]).collect()
    }

    #[test]
    fn outcomes_have_the_advantages_of_the_papers() {
        // Mean 0.25; sample variance (0.75² + 3 * 0.25²) / 3 = 0.25.
        let rewards = outcomes(&[1.0, 0.0, 0.0, 0.0]);
        close(
            &by_name("grpo", &rewards),
            &outcomes(&[1.5, -0.5, -0.5, -0.5]),
        );
        close(
            &by_name("dapo", &rewards),
            &outcomes(&[1.5, -0.5, -0.5, -0.5]),
        );
        close(
            &by_name("dr-grpo", &rewards),
            &outcomes(&[0.75, -0.25, -0.25, -0.25]),
        );
        // RLOO's advantage is G / (G - 1) = 4/3 times the one by the group's mean, 0.75.
        let third = -1.0 / 3.0;
        close(
            &by_name("rloo", &rewards),
            &outcomes(&[1.0, third, third, third]),
        );
    }

    #[test]
    fn a_group_without_signal_has_no_advantage() {
        for row in Algorithm::ALL {
            close(
                &advantages(&row, &outcomes(&[1.0, 1.0, 1.0])),
                &outcomes(&[0.0, 0.0, 0.0]),
            );
        }
        assert!(!is_informative(&[0.0, 0.0]) && !is_informative(&[]));
        assert!(is_informative(&[0.0, 1.0]));
    }

    #[test]
    fn step_rewards_are_normalised_together_and_summed_from_behind() {
        // Five rewards with mean 0.6 and sample variance 0.3.
        let rewards = [vec![1.0, 1.0], vec![1.0, 0.0, 0.0]];
        close(
            &by_name("dr-grpo", &rewards),
            &[vec![0.8, 0.4], vec![-0.8, -1.2, -0.6]],
        );
        let sd = 0.3f64.sqrt();
        close(
            &by_name("grpo", &rewards),
            &[
                vec![0.8 / sd, 0.4 / sd],
                vec![-0.8 / sd, -1.2 / sd, -0.6 / sd],
            ],
        );
        // The others' mean is 1/3 for the first chain and 1 for the second.
        close(
            &by_name("rloo", &rewards),
            &[vec![4.0 / 3.0, 2.0 / 3.0], vec![-2.0, -2.0, -1.0]],
        );
    }

    #[test]
    fn a_chain_without_rewards_has_no_advantages() {
        close(&by_name("rloo", &[vec![], vec![1.0]]), &[vec![], vec![1.0]]);
        assert!(by_name("grpo", &[]).is_empty());
    }

    #[test]
    fn a_reward_model_shapes_an_outcome_and_never_turns_it() {
        assert_eq!(shaped(1.0, 0.4, 0.5), 1.2);
        assert_eq!(shaped(1.0, -9.0, 0.5), 0.5);
        assert_eq!(shaped(-0.4, 9.0, 0.5), -0.2);
        assert_eq!(shaped(-0.4, -9.0, 0.5), -0.6000000000000001);
        assert_eq!(shaped(0.0, -3.0, 0.5), -1.5);
    }
}
