//! Credit assignment: the rewards of a chain's steps, from the scores of these steps.

use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::{Error, named};

/// The rule that turns step scores into step rewards.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Credit {
    /// A step's reward is `r * softmax(-r / 0.1)` with `r = 2 score - 1` and the softmax over the chain's steps. A
    /// chain earns about the reward of its worst step, at that step (PURE, arXiv 2504.15275).
    #[default]
    Min,
    /// A step's reward is its score minus the score of the next step; the last step's reward is its score. The
    /// rewards from a step on thus sum to the step's own score. ("Delta" of arXiv 2410.15115 rewards the last step by
    /// the outcome instead.) The advantage subtracts the group's mean for every remaining step, which favours late
    /// steps and short chains.
    Differences,
    /// A step's reward is its score. Longer chains earn more, so a policy may learn to pad.
    Sum,
}

/// The temperature of the softmax in [`Credit::Min`], as in PURE.
const TEMPERATURE: f64 = 0.1;

impl Credit {
    /// All rules with their names in settings and on the command line.
    pub const ALL: [(&'static str, Self); 3] = [
        ("min", Self::Min),
        ("differences", Self::Differences),
        ("sum", Self::Sum),
    ];

    /// Returns the rewards of the steps of a chain, given their scores between 0 and 1.
    #[must_use]
    pub fn rewards(self, scores: &[f32]) -> Vec<f64> {
        let scores = scores.iter().map(|&score| f64::from(score));
        match self {
            Self::Min => {
                let rewards: Vec<f64> = scores.map(|score| 2.0 * score - 1.0).collect();
                // Subtracting the least reward keeps every exponent at or below 0, so nothing overflows.
                let least = rewards.iter().copied().fold(f64::INFINITY, f64::min);
                let odds = rewards.iter().map(|r| ((least - r) / TEMPERATURE).exp());
                let odds: Vec<f64> = odds.collect();
                let sum: f64 = odds.iter().sum();
                rewards.iter().zip(odds).map(|(r, o)| r * o / sum).collect()
            }
            Self::Differences => {
                // The last step has no next step to subtract.
                let next = scores.clone().skip(1).chain([0.0]);
                scores.zip(next).map(|(score, next)| score - next).collect()
            }
            Self::Sum => scores.collect(),
        }
    }

    /// Returns the reward of a whole chain, for reports: the sum of the step rewards. Under
    /// [`Differences`](Self::Differences) this sum would be only the first score, so the mean score is returned
    /// instead.
    #[must_use]
    pub fn earned(self, scores: &[f32]) -> f64 {
        match self {
            Self::Differences => {
                let sum: f64 = scores.iter().map(|&score| f64::from(score)).sum();
                sum / scores.len().max(1) as f64
            }
            Self::Min | Self::Sum => self.rewards(scores).iter().sum(),
        }
    }
}

impl FromStr for Credit {
    type Err = Error;

    fn from_str(name: &str) -> Result<Self, Error> {
        named("credit", name, Self::ALL)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn close(credit: Credit, scores: &[f32], expected: &[f64]) {
        let ours = credit.rewards(scores);
        assert_eq!(ours.len(), expected.len());
        for (a, b) in ours.iter().zip(expected) {
            assert!((a - b).abs() < 1e-6, "{ours:?} against {expected:?}");
        }
    }

    #[test]
    fn the_worst_step_earns_all() {
        // r = 1, -1, 1: the weights of the others are e^-20.
        close(Credit::Min, &[1.0, 0.0, 1.0], &[2e-9, -1.0, 2e-9]);
        // Equal steps share it.
        close(Credit::Min, &[1.0, 1.0], &[0.5, 0.5]);
        // r = 0.6 and 0.5: odds 1 and e of 1 + e.
        let e = std::f64::consts::E;
        close(
            Credit::Min,
            &[0.8, 0.75],
            &[0.6 / (1.0 + e), 0.5 * e / (1.0 + e)],
        );
        close(Credit::Min, &[], &[]);
    }

    #[test]
    fn differences_from_a_step_on_sum_to_its_score() {
        let scores = [0.75, 0.25, 0.5];
        close(Credit::Differences, &scores, &[0.5, -0.25, 0.5]);
        let rewards = Credit::Differences.rewards(&scores);
        for (at, score) in scores.into_iter().enumerate() {
            assert_eq!(rewards[at..].iter().sum::<f64>(), f64::from(score));
        }
        close(Credit::Differences, &[], &[]);
        assert_eq!(Credit::Differences.earned(&scores), 0.5);
        assert_eq!(Credit::Differences.earned(&[]), 0.0);
        assert_eq!(Credit::Sum.earned(&scores), 1.5);
    }

    #[test]
    fn a_sum_grows_with_every_step() {
        close(Credit::Sum, &[0.5, 0.25], &[0.5, 0.25]);
    }

    #[test]
    fn names_are_known() {
        for (name, credit) in Credit::ALL {
            assert_eq!(name.parse::<Credit>().unwrap(), credit);
        }
        assert!("mean".parse::<Credit>().is_err());
    }
}
