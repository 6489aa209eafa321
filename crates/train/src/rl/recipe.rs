//! How a generator is trained by reinforcement: all that decides the bytes of a run, but for its
//! checkpoint and its problems.

use std::str::FromStr;

use beamgen_search::{GeneratorConfig, SamplingSettings};
use serde::{Deserialize, Serialize};

use super::rollout::Plan;
use super::{Algorithm, Credit};
use crate::{Error, Result, named, tune};

/// What a chain is rewarded for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Reward {
    /// 1 if its answer is right. A chain that a limit cut is not finished and earns 0.
    #[default]
    Outcome,
    /// The scores of its steps by a reward model, as [`Credit`] says. The steps of a chain that a
    /// limit cut count as scored 0.
    Prm,
    /// Both ([`shaped`](super::advantage::shaped)).
    Both,
}

impl Reward {
    /// Names in settings.
    pub const ALL: [(&'static str, Self); 3] = [
        ("outcome", Self::Outcome),
        ("prm", Self::Prm),
        ("both", Self::Both),
    ];

    /// Whether a reward model is needed.
    #[must_use]
    pub fn scores(self) -> bool {
        self != Self::Outcome
    }
}

impl FromStr for Reward {
    type Err = Error;

    fn from_str(name: &str) -> Result<Self> {
        named("reward", name, Self::ALL)
    }
}

/// How a run goes. Two runs with the same recipe, problems, reward model and weights write the same
/// bytes on the same kind of machine.
///
/// An *update* samples a batch of groups, and takes as many optimiser steps on it as `training`
/// says.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Recipe {
    /// A row of the table.
    pub algorithm: Algorithm,
    /// What chains are rewarded for.
    pub reward: Reward,
    /// How step scores become rewards.
    pub credit: Credit,
    /// What names the reward model, if there is one.
    pub prm: Option<String>,
    /// Times the reward model's advantages, beside those of outcomes.
    pub prm_weight: f64,
    /// Chains of a problem, which share the pass over its prompt.
    pub group: usize,
    /// Problems of an update.
    pub problems: usize,
    /// Updates.
    pub updates: usize,
    /// Times the divergence from the starting policy, in the loss.
    pub kl: f64,
    /// Which weights, and how they learn. `epochs` are the times that an update's chains are gone
    /// through, `batch` the chains of an optimiser step. The learning rate goes by updates.
    pub training: tune::Recipe,
    /// How chains are written. Seed, sampling and what ends a chain are not looked at: a run
    /// samples from the policy's own distribution, to the end of the text.
    pub generator: GeneratorConfig,
    /// Steps after which a chain is cut.
    pub max_steps: usize,
    /// Whether a chain's last number counts as its answer where nothing is marked as one.
    pub guesses: bool,
    /// How far the engine's log-probability of a step may be from the trainer's.
    pub mismatch: f64,
    /// Updates between two measurements of the held-out problems.
    pub evaluate_every: usize,
    /// Chains sampled for each held-out problem.
    pub samples: usize,
    /// Measurements in a row that may find the reward risen and the held-out accuracy fallen before
    /// the run stops; 0 never stops it.
    pub patience: usize,
}

impl Default for Recipe {
    fn default() -> Self {
        Self {
            algorithm: Algorithm::GRPO,
            reward: Reward::Outcome,
            credit: Credit::Min,
            prm: None,
            prm_weight: 0.25,
            group: 8,
            problems: 32,
            updates: 100,
            kl: 0.0,
            training: tune::Recipe {
                learning_rate: 1e-5,
                warmup: 0.0,
                decay: tune::Decay::Constant,
                batch: 256,
                ..tune::Recipe::default()
            },
            generator: GeneratorConfig {
                max_chain_tokens: 512,
                ..GeneratorConfig::default()
            },
            max_steps: 64,
            guesses: false,
            mismatch: 0.05,
            evaluate_every: 10,
            samples: 4,
            patience: 3,
        }
    }
}

impl Recipe {
    /// Refuses settings that cannot be followed.
    ///
    /// # Errors
    /// [`Error::Config`] with the setting.
    pub fn check(&self) -> Result<()> {
        let counts = [
            ("problems of an update", self.problems),
            ("updates", self.updates),
            ("max_steps", self.max_steps),
            ("samples", self.samples),
            ("evaluate_every", self.evaluate_every),
            ("epochs", self.training.epochs),
            ("batch", self.training.batch),
        ];
        if let Some((name, _)) = counts.into_iter().find(|&(_, count)| count == 0) {
            return Err(Error::Config(format!("{name}: must be positive")));
        }
        if self.group < 2 {
            return Err(Error::Config(format!(
                "a group of {}: chains are compared within their group, so it needs 2 or more",
                self.group
            )));
        }
        let numbers = [
            ("kl", self.kl),
            ("the weight of the reward model", self.prm_weight),
            ("the bound on the mismatch", self.mismatch),
        ];
        for (name, value) in numbers {
            if !(value.is_finite() && value >= 0.0) {
                return Err(Error::Config(format!("{name} {value}: must be 0 or more")));
            }
        }
        let generator = self.generator.validate();
        generator.map_err(|error| Error::Config(error.to_string()))
    }

    /// The learning rate of an update, counted from 1.
    #[must_use]
    pub fn rate(&self, update: usize) -> f64 {
        self.training.rate(update, self.updates + 1)
    }

    /// How `chains` of a problem are rolled out.
    pub(super) fn plan(&self, chains: usize) -> Plan {
        Plan {
            writing: self.writing(),
            greedy: false,
            chains,
            max_steps: self.max_steps,
            guesses: self.guesses,
        }
    }

    /// How chains are sampled: from the policy's own distribution, to the end of the text.
    #[must_use]
    pub fn writing(&self) -> GeneratorConfig {
        GeneratorConfig {
            seed: self.training.seed,
            sampling: SamplingSettings {
                temperature: Some(1.0),
                top_k: Some(0),
                top_p: Some(1.0),
                min_p: Some(0.0),
                repetition_penalty: Some(1.0),
            },
            answer_markers: Vec::new(),
            ..self.generator.clone()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cannot_be_followed_is_refused() {
        assert!(Recipe::default().check().is_ok());
        let wrong: [fn(&mut Recipe); 6] = [
            |r| r.group = 1,
            |r| r.updates = 0,
            |r| r.kl = -1.0,
            |r| r.mismatch = f64::NAN,
            |r| r.training.batch = 0,
            |r| r.generator.boundaries = Vec::new(),
        ];
        for change in wrong {
            let mut recipe = Recipe::default();
            change(&mut recipe);
            assert!(recipe.check().is_err(), "{recipe:?}");
        }
    }

    #[test]
    fn names_of_rewards_are_known() {
        for (name, reward) in Reward::ALL {
            assert_eq!(name.parse::<Reward>().unwrap(), reward);
        }
        assert!("orm".parse::<Reward>().is_err());
    }
}
