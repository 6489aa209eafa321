//! Progress of a run. The same figures are written to its log.

use serde::Serialize;

/// An event of a run.
#[derive(Clone, Debug)]
pub enum Event {
    /// A message for the user, in one line.
    Note(String),
    /// An update is done; its figures.
    Update(Box<Update>),
    /// The held-out problems were measured.
    HeldOut(HeldOut),
}

/// The figures of an update. Figures of chains cover all sampled chains, groups without signal
/// included.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Update {
    /// The number of the update, from 1.
    pub update: usize,
    /// The mean reward of a chain.
    pub reward: f64,
    /// The fraction of the chains whose answer is right.
    pub right: f64,
    /// The fraction of the right chains in which a checker proves a step wrong; `None` if no chain
    /// is right. Training does not use this figure.
    pub unsound: Option<f64>,
    /// The fraction of the groups whose chains earned different rewards.
    pub informative: f64,
    /// The mean over the chains of their lowest step score; `None` without a reward model.
    pub worst_score: Option<f64>,
    /// The divergence from the starting policy, in nats per token: the mean of
    /// `log pi - log pi_ref`.
    pub kl_reference: f64,
    /// The divergence of the update's last optimiser steps from the policy that sampled, in nats
    /// per token (k3); 0 with a single optimiser step per update.
    pub kl_old: f64,
    /// The mean of `-log pi` of sampled tokens, an estimate of the entropy in nats per token.
    pub entropy: f64,
    /// The mean number of tokens of a chain.
    pub length: f64,
    /// The mean number of steps of a chain.
    pub steps: f64,
    /// The fraction of the steps that repeat an earlier step of their chain.
    pub repetition: f64,
    /// The fraction of the chains that were cut at a limit.
    pub truncated: f64,
    /// The fraction of the chains whose answer could not be compared with the reference; they count
    /// as wrong.
    pub cannot_tell: f64,
    /// The fraction of the tokens whose importance ratio was clipped.
    pub clipped: f64,
    /// The mean loss of the optimiser steps.
    pub loss: f64,
    /// The L2 norm of all gradients in the last optimiser step, before clipping.
    pub gradient_norm: f64,
    /// The learning rate of the update.
    pub rate: f64,
    /// The mean absolute difference between the engine's and the trainer's log-probability of a
    /// step, in nats.
    pub mismatch_mean: f64,
    /// The largest absolute difference between the engine's and the trainer's log-probability of a
    /// step, in nats.
    pub mismatch_max: f64,
    /// The number of sampled groups, more than the recipe's problems if some were dropped.
    pub groups: usize,
    /// The number of chains that the optimiser steps used.
    pub learnt: usize,
    /// The number of optimiser steps since the start of the run.
    pub optimizer_steps: usize,
    /// The number of sampled tokens.
    pub rollout_tokens: u64,
    /// The time of sampling in seconds, scoring included.
    pub rollout_seconds: f64,
    /// The time of the reward model in seconds, a part of `rollout_seconds`.
    pub scoring_seconds: f64,
    /// The time in seconds in which the starting policy read the chains.
    pub reference_seconds: f64,
    /// The number of tokens that the trainer read, prompts included, counted once for each pass.
    pub training_tokens: u64,
    /// The time of the trainer's passes and optimiser steps in seconds.
    pub training_seconds: f64,
    /// The time in seconds in which the engine took over the new weights.
    pub follow_seconds: f64,
}

impl Update {
    /// The number of sampled tokens per second.
    #[must_use]
    pub fn rollout_speed(&self) -> f64 {
        self.rollout_tokens as f64 / self.rollout_seconds.max(1e-9)
    }

    /// The number of trained tokens per second.
    #[must_use]
    pub fn training_speed(&self) -> f64 {
        self.training_tokens as f64 / self.training_seconds.max(1e-9)
    }
}

/// A measurement of the held-out problems. Answers are compared exactly.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct HeldOut {
    /// The number of updates before the measurement.
    pub update: usize,
    /// The number of held-out problems.
    pub problems: usize,
    /// The accuracy of greedy decoding, one chain per problem.
    pub greedy: f64,
    /// The accuracy of a single sampled chain: the mean over all samples. Early stopping goes by
    /// this figure.
    pub sampled: f64,
    /// The fraction of the right samples in which a checker proves a step wrong; `None` if no
    /// sample is right.
    pub unsound: Option<f64>,
    /// The fraction of the samples that were cut at a limit.
    pub truncated: f64,
    /// The mean number of tokens of a sample.
    pub length: f64,
    /// Whether this is the best measurement so far, so that the weights are kept.
    pub is_best: bool,
    /// The number of measurements in a row with a higher reward and a lower accuracy, this one
    /// included.
    pub fallen: usize,
}
