//! The progress of a run: figures that are reported to the caller and written to the run's log.

use serde::Serialize;

/// An event that a run reports while it is in progress.
#[derive(Clone, Debug)]
pub enum Event {
    /// A message for the user, one line of text.
    Note(String),
    /// An update is done.
    Update(Box<Update>),
    /// The held-out problems were measured.
    HeldOut(HeldOut),
}

/// The figures of an update. Figures of chains include the chains of dropped groups.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Update {
    /// The number of the update, from 1 up to the recipe's `updates`.
    pub update: usize,
    /// The mean reward of a chain, without length penalties.
    pub reward: f64,
    /// The fraction of chains with the right answer, whatever the rewards are.
    pub right: f64,
    /// The fraction of right chains in which a checker proves a step wrong; `None` without right chains. Training
    /// ignores this figure.
    pub unsound: Option<f64>,
    /// The fraction of groups with different rewards, from which the policy can learn.
    pub informative: f64,
    /// The mean over chains of the lowest step score; `None` without a reward model.
    pub worst_score: Option<f64>,
    /// The divergence from the starting policy in nats per token: the mean of `log pi - log pi_ref` over sampled
    /// tokens.
    pub kl_reference: f64,
    /// The mean divergence from the sampling policy in nats per token, by the k3 estimator, over the optimiser steps.
    /// It is 0 if an update has only one step.
    pub kl_old: f64,
    /// The mean of `-log pi` of sampled tokens, an estimate of the entropy in nats per token.
    pub entropy: f64,
    /// The mean number of tokens of a chain, the end-of-text token included.
    pub length: f64,
    /// The mean number of steps of a chain; a rise without accuracy suggests padding.
    pub steps: f64,
    /// The fraction of steps whose text is that of an earlier step in the chain.
    pub repetition: f64,
    /// The fraction of chains cut at the limit of tokens or of steps.
    pub truncated: f64,
    /// The fraction of chains whose answer could not be compared with the reference; these count as wrong.
    pub cannot_tell: f64,
    /// The fraction of trained tokens whose importance ratio was clipped.
    pub clipped: f64,
    /// The mean loss over the optimiser steps, weighted as [`Average`](super::Average) says.
    pub loss: f64,
    /// The L2 norm of all gradients in the last optimiser step before clipping.
    pub gradient_norm: f64,
    /// The learning rate of all optimiser steps of the update.
    pub rate: f64,
    /// The mean absolute difference between engine and trainer in the log-probability of a step, in nats.
    pub mismatch_mean: f64,
    /// The largest absolute difference between engine and trainer in the log-probability of a step, in nats.
    pub mismatch_max: f64,
    /// The number of sampled groups; it exceeds the recipe's `problems` if groups were dropped.
    pub groups: usize,
    /// The number of chains with a gradient, which optimiser steps used.
    pub learnt: usize,
    /// The number of optimiser steps since the start of the run.
    pub optimizer_steps: usize,
    /// The number of sampled tokens, those of dropped groups included.
    pub rollout_tokens: u64,
    /// The time of sampling in seconds, with the scoring that runs in between.
    pub rollout_seconds: f64,
    /// The part of `rollout_seconds` in which the reward model ran.
    pub scoring_seconds: f64,
    /// The time in seconds for the starting policy's log-probabilities of the chains.
    pub reference_seconds: f64,
    /// The number of tokens that the trainer read, prompts included, counted again in each pass.
    pub training_tokens: u64,
    /// The time of forward passes, backward passes and optimiser steps, in seconds.
    pub training_seconds: f64,
    /// The time in seconds to copy the new weights into the engine.
    pub follow_seconds: f64,
}

impl Update {
    /// Returns the sampled tokens per second of sampling and scoring.
    #[must_use]
    pub fn rollout_speed(&self) -> f64 {
        self.rollout_tokens as f64 / self.rollout_seconds.max(1e-9)
    }

    /// Returns the tokens that the trainer read per second of training.
    #[must_use]
    pub fn training_speed(&self) -> f64 {
        self.training_tokens as f64 / self.training_seconds.max(1e-9)
    }
}

/// A measurement on the held-out problems, with answers compared exactly.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct HeldOut {
    /// The number of updates that preceded the measurement; 0 for the starting policy.
    pub update: usize,
    /// The number of held-out problems whose prompts fit into the model's context.
    pub problems: usize,
    /// The accuracy of greedy decoding, one chain per problem.
    pub greedy: f64,
    /// The mean accuracy of the sampled chains. Early stopping compares this figure.
    pub sampled: f64,
    /// The fraction of right samples in which a checker proves a step wrong; `None` without right samples.
    pub unsound: Option<f64>,
    /// The fraction of samples cut at the limit of tokens or of steps.
    pub truncated: f64,
    /// The mean number of tokens of a sample, the end-of-text token included.
    pub length: f64,
    /// True if this is the highest accuracy so far; the run then keeps the weights.
    pub is_best: bool,
    /// The number of consecutive measurements, up to this one, with a higher reward and a lower accuracy.
    pub fallen: usize,
}
