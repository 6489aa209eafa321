//! What a run tells while it goes. The same is in its log.

use serde::Serialize;

/// Something happened.
#[derive(Clone, Debug)]
pub enum Event {
    /// A sentence for the user.
    Note(String),
    /// An update is done.
    Update(Box<Update>),
    /// The held-out problems were measured.
    HeldOut(HeldOut),
}

/// What an update was like. Figures of chains are over all that were sampled, those of groups
/// without signal included.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Update {
    /// Its number, from 1.
    pub update: usize,
    /// Mean reward of a chain.
    pub reward: f64,
    /// The part of the chains whose answer is right.
    pub right: f64,
    /// The part of the right chains that have a step that a checker proves wrong; `None` if no
    /// chain is right. Nothing is learnt from it.
    pub unsound: Option<f64>,
    /// The part of the groups whose chains earned different rewards.
    pub informative: f64,
    /// Mean over the chains of the lowest score of a step; `None` without a reward model.
    pub worst_score: Option<f64>,
    /// Divergence from the starting policy, in nats a token: the mean of `log pi - log pi_ref`.
    pub kl_reference: f64,
    /// Divergence of the update's last steps from the policy that sampled, in nats a token (k3);
    /// 0 if there is one step an update.
    pub kl_old: f64,
    /// Mean of `-log pi` of sampled tokens, which estimates the entropy.
    pub entropy: f64,
    /// Mean tokens of a chain.
    pub length: f64,
    /// Mean steps of a chain.
    pub steps: f64,
    /// The part of the steps that repeat an earlier one of their chain.
    pub repetition: f64,
    /// The part of the chains that a limit cut.
    pub truncated: f64,
    /// The part of the chains whose answer could not be compared; they count as wrong.
    pub cannot_tell: f64,
    /// The part of the tokens whose ratio was clipped.
    pub clipped: f64,
    /// Mean loss of the optimiser steps.
    pub loss: f64,
    /// The last step's norm of all gradients, before clipping.
    pub gradient_norm: f64,
    /// The learning rate.
    pub rate: f64,
    /// Mean and largest difference between the engine's and the trainer's log-probability of a
    /// step.
    pub mismatch_mean: f64,
    /// The largest.
    pub mismatch_max: f64,
    /// Groups sampled: more than asked for where some were dropped.
    pub groups: usize,
    /// Chains learnt from.
    pub learnt: usize,
    /// Optimiser steps so far.
    pub optimizer_steps: usize,
    /// Tokens sampled.
    pub rollout_tokens: u64,
    /// Seconds of sampling, scoring included.
    pub rollout_seconds: f64,
    /// Of these, in the reward model.
    pub scoring_seconds: f64,
    /// Seconds in which the starting policy read the chains.
    pub reference_seconds: f64,
    /// Tokens of prompts and chains that went through the trainer, once for each pass.
    pub training_tokens: u64,
    /// Seconds of passes and optimiser steps.
    pub training_seconds: f64,
    /// Seconds in which the engine took over the new weights.
    pub follow_seconds: f64,
}

impl Update {
    /// Sampled tokens a second.
    #[must_use]
    pub fn rollout_speed(&self) -> f64 {
        self.rollout_tokens as f64 / self.rollout_seconds.max(1e-9)
    }

    /// Trained tokens a second.
    #[must_use]
    pub fn training_speed(&self) -> f64 {
        self.training_tokens as f64 / self.training_seconds.max(1e-9)
    }
}

/// A measurement of the held-out problems, by exact comparison of answers.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct HeldOut {
    /// After so many updates.
    pub update: usize,
    /// Problems.
    pub problems: usize,
    /// Accuracy of one chain of the likeliest tokens.
    pub greedy: f64,
    /// Accuracy of a single sampled chain: the mean over all samples. The rule that stops a run
    /// goes by it.
    pub sampled: f64,
    /// The part of the right samples that have a step that a checker proves wrong; `None` if none
    /// is right.
    pub unsound: Option<f64>,
    /// Of the samples, the part that a limit cut.
    pub truncated: f64,
    /// Mean tokens of a sample.
    pub length: f64,
    /// Whether this is the best so far, so that its weights are kept.
    pub is_best: bool,
    /// Measurements in a row that found the reward higher and the accuracy lower.
    pub fallen: usize,
}
