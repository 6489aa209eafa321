//! The hyperparameters of reinforcement learning: all that decides the bytes of a run's output,
//! except checkpoint and problems.

use std::str::FromStr;

use beamgen_search::{GeneratorConfig, SamplingSettings};
use serde::{Deserialize, Serialize};

use super::rollout::Plan;
use super::{Algorithm, Credit};
use crate::{Error, Result, named, tune};

/// The source of a chain's reward.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Reward {
    /// 1 if the chain's answer is right, otherwise 0. A chain that was cut at a limit is unfinished
    /// and earns 0.
    #[default]
    Outcome,
    /// The scores of the chain's steps by a reward model, as [`Credit`] turns them into rewards.
    /// The steps of an unfinished chain count as scored 0.
    Prm,
    /// Outcome and step scores, combined by [`shaped`](super::advantage::shaped).
    Both,
}

impl Reward {
    /// All sources with their names in settings.
    pub const ALL: [(&'static str, Self); 3] = [
        ("outcome", Self::Outcome),
        ("prm", Self::Prm),
        ("both", Self::Both),
    ];

    /// Whether the reward needs a reward model.
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

/// The hyperparameters of a run. Two runs with the same recipe, problems, reward model and weights
/// write the same bytes on the same kind of machine.
///
/// An *update* samples a batch of groups and takes the optimiser steps on this batch that
/// `training` describes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Recipe {
    /// The algorithm, a row of [`Algorithm::ALL`].
    pub algorithm: Algorithm,
    /// The source of a chain's reward.
    pub reward: Reward,
    /// The rule that turns step scores into step rewards.
    pub credit: Credit,
    /// The name of the reward model, so that a run is not resumed with another; `None` without a
    /// reward model.
    pub prm: Option<String>,
    /// The weight of the reward model's advantages, where outcomes count too.
    pub prm_weight: f64,
    /// The number of chains of a problem. These chains share the prefill of its prompt.
    pub group: usize,
    /// The number of problems of an update.
    pub problems: usize,
    /// The number of updates of the run.
    pub updates: usize,
    /// The coefficient of the divergence from the starting policy in the loss; 0 leaves it out.
    pub kl: f64,
    /// The trained weights and the optimiser. `epochs` is the number of passes over an update's
    /// chains, `batch` the number of chains of an optimiser step. The learning rate is a function
    /// of the update.
    pub training: tune::Recipe,
    /// The settings of the generator. Seed, sampling settings and answer markers are ignored: a run
    /// samples from the policy's own distribution, to the end of the text.
    pub generator: GeneratorConfig,
    /// The number of steps after which a chain is cut.
    pub max_steps: usize,
    /// Whether a chain's last number counts as its answer if no answer is marked.
    pub guesses: bool,
    /// The largest allowed difference between the engine's and the trainer's log-probability of a
    /// step, in nats.
    pub mismatch: f64,
    /// The number of updates between two measurements of the held-out problems.
    pub evaluate_every: usize,
    /// The number of chains sampled for each held-out problem.
    pub samples: usize,
    /// The number of measurements in a row with a higher reward and a lower held-out accuracy after
    /// which the run stops; 0 never stops it.
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
    /// Checks that all settings are in their ranges.
    ///
    /// # Errors
    /// [`Error::Config`] with the name of the first wrong setting.
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
                "group of {}: chains are compared with each other: use 2 or more",
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

    /// Returns the learning rate of an update, counted from 1.
    #[must_use]
    pub fn rate(&self, update: usize) -> f64 {
        self.training.rate(update, self.updates + 1)
    }

    /// Makes a plan that samples `chains` chains of each problem.
    pub(super) fn plan(&self, chains: usize) -> Plan {
        Plan {
            writing: self.writing(),
            greedy: false,
            chains,
            max_steps: self.max_steps,
            guesses: self.guesses,
        }
    }

    /// Returns the settings of the generator for sampling: from the policy's own distribution, to
    /// the end of the text.
    #[must_use]
    pub fn writing(&self) -> GeneratorConfig {
        GeneratorConfig {
            seed: self.training.seed,
            // Any truncation of the distribution would sample other tokens than the
            // log-probabilities of the loss assume.
            sampling: SamplingSettings {
                temperature: Some(1.0),
                top_k: Some(0),
                top_p: Some(1.0),
                min_p: Some(0.0),
                repetition_penalty: Some(1.0),
            },
            // A chain has to learn to end by itself, so no marker may end it.
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
