//! The optimiser steps of an update, and the check that engine and trainer compute the same policy.

use rand::seq::SliceRandom;
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::SeedableRng;

use super::Recipe;
use super::batch::Batch;
use super::learner::{Learner, Sample};
use super::objective::Objective;
use super::rollout::Chain;
use crate::{Error, Result};

/// The first stream of random numbers for orders of samples, above the streams of the problems'
/// orders.
const ORDERS: u64 = 1 << 32;

/// Figures of the optimiser steps of an update.
#[derive(Debug, Default)]
pub(super) struct Lesson {
    /// The loss of each optimiser step.
    pub losses: Vec<f64>,
    /// The L2 norm of all gradients of the last step.
    pub norm: f64,
    /// The number of tokens whose importance ratio was clipped.
    pub clipped: usize,
    /// The summed divergence from the policy that sampled the tokens, in nats (k3).
    pub kl_old: f64,
    /// The number of tokens of chains, over all passes with gradients.
    pub tokens: usize,
    /// The number of tokens that the trainer read, prompts included.
    pub passed: u64,
    /// The number of chains learnt from.
    pub chains: usize,
    /// The difference between the log-probabilities of engine and trainer.
    pub mismatch: Mismatch,
}

/// Differences between the engine's and the trainer's log-probabilities of steps, in nats.
#[derive(Debug, Default)]
pub(super) struct Mismatch {
    sum: f64,
    steps: usize,
    /// The largest absolute difference of a step; infinite or NaN values are kept.
    pub max: f64,
}

impl Mismatch {
    /// Adds the differences of a chain; `found` has the trainer's log-probability of each token.
    fn add(&mut self, chain: &Chain, found: &[f32]) {
        let mut found = found;
        for step in &chain.steps {
            let (own, rest) = found.split_at(step.tokens);
            let sum: f64 = own.iter().map(|&x| f64::from(x)).sum();
            let difference = (sum - step.log_prob).abs();
            self.sum += difference;
            self.steps += 1;
            // NaN compares as "not greater", so without this test a NaN would pass as agreement.
            if difference > self.max || difference.is_nan() {
                self.max = difference;
            }
            found = rest;
        }
    }

    /// Returns the mean absolute difference; 0 without steps.
    pub(super) fn mean(&self) -> f64 {
        self.sum / self.steps.max(1) as f64
    }

    /// Refuses to learn if a difference is above `bound`.
    fn check(&self, bound: f64, update: usize) -> Result<()> {
        if self.max <= bound {
            Ok(())
        } else {
            Err(Error::Mismatch {
                update,
                found: self.max,
                bound,
            })
        }
    }
}

impl Lesson {
    /// Learns from the groups of `batch`, for an update of this number, from 1. `references` has
    /// the starting policy's log-probabilities of each chain, in the order of the groups.
    ///
    /// # Errors
    /// [`Error::Mismatch`] before the first optimiser step; [`Error::Diverged`] if a loss is not
    /// finite.
    pub(super) fn learn(
        learner: &mut Learner<'_>,
        recipe: &Recipe,
        batch: &Batch,
        references: &[Vec<f32>],
        update: usize,
    ) -> Result<Self> {
        let training = &recipe.training;
        let rate = recipe.rate(update);
        let (mut samples, chains) = samples(recipe, batch, references);
        let counting: Vec<usize> = (0..samples.len())
            .filter(|&i| has_gradient(recipe, &samples[i]))
            .collect();
        let mut lesson = Self {
            chains: counting.len(),
            ..Self::default()
        };
        let several = training.epochs > 1 || samples.len() > training.batch;
        if several {
            // The old log-probabilities come from the trainer too, not from the engine: then an
            // importance ratio is exactly 1 until the weights change.
            let learnt: Vec<&Sample> = counting.iter().map(|&i| &samples[i]).collect();
            let old = learner.log_probs(&learnt)?;
            lesson.passed += read(&learnt);
            for (&i, old) in counting.iter().zip(old) {
                lesson.mismatch.add(chains[i], &old);
                samples[i].old = Some(old);
            }
            lesson.mismatch.check(recipe.mismatch, update)?;
        }
        let objective = Objective {
            clip: recipe.algorithm.clip,
            kl: recipe.kl,
        };
        for epoch in 0..training.epochs {
            for part in parts(training, samples.len(), update, epoch) {
                let lengths: Vec<usize> = part.iter().map(|&i| samples[i].len()).collect();
                let longest = recipe.generator.max_chain_tokens;
                // Weights are over all chains of the part, those without gradients included: a
                // chain without signal still counts in the mean.
                let weights = recipe.algorithm.average.weights(&lengths, longest);
                let weighed = part.into_iter().zip(weights);
                let (which, weights): (Vec<usize>, Vec<f64>) = weighed
                    .filter(|&(i, _)| has_gradient(recipe, &samples[i]))
                    .unzip();
                if which.is_empty() {
                    continue;
                }
                let learnt: Vec<&Sample> = which.iter().map(|&i| &samples[i]).collect();
                let pass = learner.pass(&learnt, &weights, &objective)?;
                // With a single step, its own forward pass gives the log-probabilities before the
                // update.
                if !several {
                    for (&i, found) in which.iter().zip(&pass.log_probs) {
                        lesson.mismatch.add(chains[i], found);
                    }
                    lesson.mismatch.check(recipe.mismatch, update)?;
                }
                lesson.norm = learner.step(&pass, rate, update)?;
                lesson.losses.push(pass.loss);
                lesson.clipped += pass.clipped;
                lesson.kl_old += pass.kl_old;
                lesson.tokens += learnt.iter().map(|sample| sample.len()).sum::<usize>();
                lesson.passed += read(&learnt);
            }
        }
        Ok(lesson)
    }
}

/// Returns all chains of the batch's groups, as the trainer reads them and as they were sampled.
fn samples<'b>(
    recipe: &Recipe,
    batch: &'b Batch,
    references: &[Vec<f32>],
) -> (Vec<Sample>, Vec<&'b Chain>) {
    let (mut samples, mut chains) = (Vec::new(), Vec::new());
    for (group, earned) in &batch.groups {
        for (chain, advantages) in group.chains.iter().zip(&earned.advantages) {
            let reference = references.get(samples.len());
            samples.push(Sample {
                ids: [&group.prompt[..], &chain.tokens].concat(),
                prompt: group.prompt.len(),
                advantages: advantages.clone(),
                old: None,
                reference: reference.filter(|_| recipe.kl > 0.0).cloned(),
            });
            chains.push(chain);
        }
    }
    (samples, chains)
}

/// Whether a sample has a gradient. Without advantages, only the divergence from the reference has
/// one.
fn has_gradient(recipe: &Recipe, sample: &Sample) -> bool {
    let has_signal = sample.advantages.iter().any(|&a| a != 0.0);
    !sample.advantages.is_empty() && (recipe.kl > 0.0 || has_signal)
}

/// Returns the samples of each optimiser step of an epoch, in an order that depends on seed, update
/// and epoch.
fn parts(
    training: &crate::tune::Recipe,
    samples: usize,
    update: usize,
    epoch: usize,
) -> Vec<Vec<usize>> {
    // Shuffled, so that the chains of a group are spread over the optimiser steps.
    let mut order: Vec<usize> = (0..samples).collect();
    let mut rng = ChaCha8Rng::seed_from_u64(training.seed);
    rng.set_stream(ORDERS + (update * training.epochs + epoch) as u64);
    order.shuffle(&mut rng);
    let parts = order.chunks(training.batch.max(1));
    parts.map(<[usize]>::to_vec).collect()
}

/// The number of tokens that a pass over samples reads.
fn read(samples: &[&Sample]) -> u64 {
    samples.iter().map(|sample| sample.ids.len() as u64).sum()
}
