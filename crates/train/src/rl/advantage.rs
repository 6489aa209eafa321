//! Rewards of a group to advantages: each reward less a baseline, divided by a scale, and for each
//! step of a chain the sum from there on (process supervision in 2402.03300). An outcome is a chain
//! with one reward; its advantage is then the same at all tokens.

use super::{Algorithm, Baseline, Scale};

/// Keeps a deviation of 0 from dividing.
const LEAST: f64 = 1e-6;

/// The advantages of a group, one for each reward. `rewards` has the rewards of each chain in the
/// order of its steps. Chains without any have no advantages.
#[must_use]
pub fn advantages(algorithm: &Algorithm, rewards: &[Vec<f64>]) -> Vec<Vec<f64>> {
    let count = rewards.iter().map(Vec::len).sum::<usize>();
    let total: f64 = rewards.iter().flatten().sum();
    let mean = total / count.max(1) as f64;
    let scale = match algorithm.scale {
        Scale::One => 1.0,
        Scale::Deviation => {
            let squares = rewards.iter().flatten().map(|r| (r - mean).powi(2));
            let variance = squares.sum::<f64>() / count.saturating_sub(1).max(1) as f64;
            variance.sqrt() + LEAST
        }
    };
    let of_chain = |own: &Vec<f64>| {
        let others = count - own.len();
        let baseline = match algorithm.baseline {
            Baseline::Group => mean,
            Baseline::Others if others == 0 => 0.0,
            Baseline::Others => (total - own.iter().sum::<f64>()) / others as f64,
        };
        let mut sum = 0.0;
        let mut from_behind: Vec<f64> = own
            .iter()
            .rev()
            .map(|reward| {
                sum += (reward - baseline) / scale;
                sum
            })
            .collect();
        from_behind.reverse();
        from_behind
    };
    rewards.iter().map(of_chain).collect()
}

/// Whether what the chains of a group earned tells them apart. All right or all wrong does not.
#[must_use]
pub fn is_informative(earned: &[f64]) -> bool {
    let first = earned.first().copied().unwrap_or(0.0);
    earned.iter().any(|other| (other - first).abs() > LEAST)
}

/// The share of an outcome's advantage that a reward model may add to it or take from it.
const SHAPING: f64 = 0.5;

/// The advantage of a token under both rewards. Where the outcome says something, the reward model
/// shapes it and never turns it: its part is bounded by half of the outcome's, so no token of a
/// right chain is discouraged and none of a wrong chain encouraged. Where all chains of the group
/// have the same outcome, the reward model speaks alone.
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
        let flat = |all: &[Vec<f64>]| all.iter().flatten().copied().collect::<Vec<_>>();
        let (ours, expected) = (flat(ours), flat(expected));
        assert_eq!(ours.len(), expected.len());
        for (a, b) in ours.iter().zip(&expected) {
            assert!((a - b).abs() < 1e-4, "{ours:?} against {expected:?}");
        }
    }

    fn of(name: &str, rewards: &[Vec<f64>]) -> Vec<Vec<f64>> {
        advantages(&name.parse().unwrap(), rewards)
    }

    fn outcomes(of: &[f64]) -> Vec<Vec<f64>> {
        of.iter().map(|&r| vec![r]).collect()
    }

    #[test]
    fn outcomes_have_the_advantages_of_the_papers() {
        // Mean 0.25; sample variance (0.75² + 3 * 0.25²) / 3 = 0.25.
        let rewards = outcomes(&[1.0, 0.0, 0.0, 0.0]);
        close(&of("grpo", &rewards), &outcomes(&[1.5, -0.5, -0.5, -0.5]));
        close(&of("dapo", &rewards), &outcomes(&[1.5, -0.5, -0.5, -0.5]));
        close(
            &of("dr-grpo", &rewards),
            &outcomes(&[0.75, -0.25, -0.25, -0.25]),
        );
        // G / (G - 1) times that of the group's mean: 4/3 of 0.75.
        let third = -1.0 / 3.0;
        close(
            &of("rloo", &rewards),
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
            &of("dr-grpo", &rewards),
            &[vec![0.8, 0.4], vec![-0.8, -1.2, -0.6]],
        );
        let sd = 0.3f64.sqrt();
        close(
            &of("grpo", &rewards),
            &[
                vec![0.8 / sd, 0.4 / sd],
                vec![-0.8 / sd, -1.2 / sd, -0.6 / sd],
            ],
        );
        // The others' mean is 1/3 for the first chain and 1 for the second.
        close(
            &of("rloo", &rewards),
            &[vec![4.0 / 3.0, 2.0 / 3.0], vec![-2.0, -2.0, -1.0]],
        );
    }

    #[test]
    fn a_chain_without_rewards_has_no_advantages() {
        close(&of("rloo", &[vec![], vec![1.0]]), &[vec![], vec![1.0]]);
        assert!(of("grpo", &[]).is_empty());
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
