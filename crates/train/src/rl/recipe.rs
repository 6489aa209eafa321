//! The hyperparameters of reinforcement learning. Together with the checkpoint, the problems and the reward model
//! they decide a run's output.

use std::str::FromStr;

use beamgen_search::{GeneratorConfig, SamplingSettings};
use serde::{Deserialize, Serialize};

use super::rollout::Plan;
use super::{Algorithm, Credit};
use crate::{Error, Result, named, tune};

/// The source of a chain's reward; `prm` and `both` need a reward model.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Reward {
    /// The reward is 1 if the chain ended by itself with the right answer, else 0.
    #[default]
    Outcome,
    /// The rewards are those of [`Credit`], from a reward model's scores of the steps. An unfinished chain has no
    /// scores, so its steps count as scored 0.
    Prm,
    /// The advantages of outcome and of step scores are combined by [`shaped`](super::advantage::shaped).
    Both,
    /// The reward is the outcome. The advantage of a step is V after it minus V before it, where V is the mean
    /// outcome of completions that are sampled from there (`VinePPO`, arXiv 2410.01679). No baseline is subtracted,
    /// and nothing is divided.
    Rollouts,
}

impl Reward {
    /// All sources with their names in settings and on the command line.
    pub const ALL: [(&'static str, Self); 4] = [
        ("outcome", Self::Outcome),
        ("prm", Self::Prm),
        ("both", Self::Both),
        ("rollouts", Self::Rollouts),
    ];

    /// Returns whether the reward needs step scores, and thus a reward model.
    #[must_use]
    pub fn scores(self) -> bool {
        matches!(self, Self::Prm | Self::Both)
    }
}

impl FromStr for Reward {
    type Err = Error;

    fn from_str(name: &str) -> Result<Self> {
        named("reward", name, Self::ALL)
    }
}

/// The hyperparameters of a run. Runs with equal recipes, problems, reward models and weights write equal bytes on
/// the same kind of machine.
///
/// An *update* samples a batch of groups and then takes the optimiser steps on this batch; `training` describes these
/// steps.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Recipe {
    /// The algorithm: its rules for advantages, averages and clipping.
    pub algorithm: Algorithm,
    /// The source of the rewards; [`Reward::Outcome`] needs no reward model.
    pub reward: Reward,
    /// The rule that turns step scores into step rewards; unused with [`Reward::Outcome`].
    pub credit: Credit,
    /// The name of the reward model, `None` without one. A run cannot be resumed with another reward model.
    pub prm: Option<String>,
    /// The name of the verifier that judges chains, `None` without one. A run cannot be resumed with another one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub verifier: Option<String>,
    /// The number of updates after which the caller trains the reward model further and gives the new one; 0 for
    /// never. It is part of the run's identity, since it changes the rewards.
    #[serde(default)]
    pub refresh: usize,
    /// The factor of the reward model's advantages with [`Reward::Both`].
    pub prm_weight: f64,
    /// K: the number of completions sampled for each step with [`Reward::Rollouts`].
    #[serde(default = "usual_rollouts")]
    pub rollouts: usize,
    /// The number of chains sampled for a problem; the group of their rewards gives the baseline.
    pub group: usize,
    /// The number of problems of an update, one group each.
    pub problems: usize,
    /// The number of updates after which the run is done.
    pub updates: usize,
    /// The coefficient of the divergence from the starting policy in the loss; 0 leaves it out.
    pub kl: f64,
    /// The choice of trained weights and the optimiser. `epochs` counts passes over an update's chains, and `batch`
    /// is the number of chains of an optimiser step. The learning rate changes with the update, not with the step.
    pub training: tune::Recipe,
    /// The settings of the generator. The seed, the sampling settings and the answer markers are ignored: a run
    /// samples from the policy's own distribution, to the end of the text.
    pub generator: GeneratorConfig,
    /// The number of steps at which a chain is cut.
    pub max_steps: usize,
    /// If true, a chain without a marked answer is judged by its last number.
    pub guesses: bool,
    /// The largest allowed difference between engine and trainer in the log-probability of a step, in nats. A larger
    /// one stops the run.
    pub mismatch: f64,
    /// The number of updates between two measurements of the held-out problems.
    pub evaluate_every: usize,
    /// The number of chains sampled for each held-out problem; a greedy chain is decoded in addition.
    pub samples: usize,
    /// The number of consecutive measurements with a higher reward and a lower held-out accuracy at which the run
    /// stops. 0 means never.
    pub patience: usize,
}

fn usual_rollouts() -> usize {
    4
}

impl Default for Recipe {
    fn default() -> Self {
        Self {
            algorithm: Algorithm::GRPO,
            reward: Reward::Outcome,
            credit: Credit::Min,
            prm: None,
            verifier: None,
            refresh: 0,
            prm_weight: 0.25,
            rollouts: usual_rollouts(),
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
    /// Checks the range of each setting.
    ///
    /// # Errors
    /// [`Error::Config`] names the first wrong setting.
    pub fn check(&self) -> Result<()> {
        let counts = [
            ("problems of an update", self.problems),
            ("updates", self.updates),
            ("max_steps", self.max_steps),
            ("samples", self.samples),
            ("evaluate_every", self.evaluate_every),
            ("epochs", self.training.epochs),
            ("batch", self.training.batch),
            ("rollouts", self.rollouts),
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

    /// Returns the learning rate of the optimiser steps of `update`, counted from 1.
    #[must_use]
    pub fn rate(&self, update: usize) -> f64 {
        self.training.rate(update, self.updates + 1)
    }

    /// Returns the plan for the group of chains of each problem of an update.
    pub(super) fn plan_of_group(&self) -> Plan {
        let rollouts = if self.reward == Reward::Rollouts {
            self.rollouts
        } else {
            0
        };
        Plan {
            rollouts,
            ..self.plan(self.group)
        }
    }

    /// Returns the plan for sampling `chains` chains of each problem.
    pub(super) fn plan(&self, chains: usize) -> Plan {
        Plan {
            writing: self.writing(),
            greedy: false,
            chains,
            rollouts: 0,
            max_steps: self.max_steps,
            guesses: self.guesses,
        }
    }

    /// Returns the generator's settings for sampling from the policy's own distribution until the end of the text.
    #[must_use]
    pub fn writing(&self) -> GeneratorConfig {
        GeneratorConfig {
            seed: self.training.seed,
            // The loss assumes the untruncated distribution at temperature 1.
            sampling: SamplingSettings {
                temperature: Some(1.0),
                top_k: Some(0),
                top_p: Some(1.0),
                min_p: Some(0.0),
                repetition_penalty: Some(1.0),
            },
            // A marker would end a chain for the policy, which has to learn to end chains itself.
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
