//! The value of a step by completions: its settings, and the vote that completions agree with.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::error::ConfigError;

/// The settings of values by rollouts, a table in a configuration.
///
/// A new step is completed `count` times, each time from a fork of its cache to the end of the
/// chain. The mean worth of the completions is V, the value of the step. V takes the place of the
/// chain score of the reward model, or is mixed with it. Completions are chains of the search: they
/// give answers and have votes.
///
/// With `weight` this is the leaf value of `AlphaGo` (Silver et al. 2016,
/// <https://doi.org/10.1038/nature16961>): the score of a chain is `weight` times V of its last step
/// plus `1 - weight` times the chain score of the reward model.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default, expecting = "a table of keys")]
pub struct RolloutsConfig {
    /// K: the number of completions of each new step; 0: steps are not completed.
    pub count: usize,
    /// The worth of a completion.
    pub value: RolloutValue,
    /// The weight of V in the score of a chain, above 0 and at most 1; the reward model
    /// has the rest.
    pub weight: f32,
}

impl Default for RolloutsConfig {
    fn default() -> Self {
        Self {
            count: 0,
            value: RolloutValue::Vote,
            weight: 1.0,
        }
    }
}

/// The worth of a completion of a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum RolloutValue {
    /// 1 if the completion gives the answer that most chains of the search give so far, else 0.
    /// Answers that share the most votes share the 1.
    #[default]
    Vote,
    /// The chain score that the reward model gives to the completion; 0 if it did not end.
    Prm,
    /// 1 if an [open](crate::Verifier::is_open) verifier calls the completion right, else 0.
    Verifier,
}

impl RolloutsConfig {
    /// The largest K. The rollouts of all new steps of a round grow at the same time.
    pub const MAX_COUNT: usize = 1024;

    pub(crate) fn validate(&self) -> Result<(), ConfigError> {
        ConfigError::check_most("rollouts.count", self.count, Self::MAX_COUNT)?;
        let words = "a weight above 0 and at most 1";
        ConfigError::check_range(
            "rollouts.weight",
            self.weight,
            f32::MIN_POSITIVE..=1.0,
            words,
        )
    }

    /// Whether the reward model is asked, for steps or for completions.
    pub fn uses_scores(&self) -> bool {
        self.weight < 1.0 || self.value == RolloutValue::Prm
    }
}

/// The votes of complete chains, by class of answer.
#[derive(Debug, Default)]
pub struct Poll(BTreeMap<String, usize>);

impl Poll {
    /// Adds votes for a class of answers.
    pub fn add(&mut self, class: &str, votes: usize) {
        *self.0.entry(class.to_owned()).or_default() += votes;
    }

    /// Returns the worth of an answer: 1 for the class with the most votes. Classes that share the
    /// most votes share the 1, so that the worth does not depend on the order of chains.
    pub fn worth(&self, class: Option<&str>) -> f64 {
        let most = self.0.values().copied().max().unwrap_or(0);
        let votes = class.and_then(|class| self.0.get(class)).copied();
        let leaders = self.0.values().filter(|votes| **votes == most).count();
        if votes == Some(most) && most > 0 {
            1.0 / leaders as f64
        } else {
            0.0
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_leader_is_worth_one_and_leaders_share_it() {
        let mut poll = Poll::default();
        assert_eq!(poll.worth(Some("a")), 0.0);
        for (class, votes) in [("a", 2), ("b", 1), ("c", 1)] {
            poll.add(class, votes);
        }
        assert_eq!(
            ["a", "b", "d"].map(|class| poll.worth(Some(class))),
            [1.0, 0.0, 0.0]
        );
        assert_eq!(poll.worth(None), 0.0);
        poll.add("b", 1);
        assert_eq!(
            ["a", "b", "c"].map(|class| poll.worth(Some(class))),
            [0.5, 0.5, 0.0]
        );
    }
}
