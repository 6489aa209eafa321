//! The optimiser steps of one update, and the check that engine and trainer compute the same log-probabilities.

use rand::seq::SliceRandom;
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::SeedableRng;

use super::Recipe;
use super::batch::Batch;
use super::learner::{Learner, Sample};
use super::objective::Objective;
use super::rollout::Chain;
use crate::{Error, Result};

/// The first random stream for orders of samples. Lower streams of the same seed give the orders of problems.
const ORDERS: u64 = 1 << 32;

/// The figures of an update's optimiser steps, for reports.
#[derive(Debug, Default)]
pub(super) struct Lesson {
    pub losses: Vec<f64>,
    /// The L2 norm of all gradients in the last step, before clipping.
    pub norm: f64,
    /// The number of tokens whose importance ratio was clipped, over all steps.
    pub clipped: usize,
    /// The divergence from the sampling policy, in nats by the k3 estimator, summed over all steps.
    pub kl_old: f64,
    /// The number of tokens of chains in passes with gradients, counted once for each epoch.
    pub tokens: usize,
    /// The number of tokens that the trainer read, including prompts and passes without gradients.
    pub passed: u64,
    /// The number of chains with a gradient; all others are skipped.
    pub chains: usize,
    pub mismatch: Mismatch,
}

/// Differences between the engine's and the trainer's log-probabilities of steps, in nats. The steps are those of
/// chains.
#[derive(Debug, Default)]
pub(super) struct Mismatch {
    sum: f64,
    steps: usize,
    /// The largest absolute difference; NaN once a difference was NaN.
    pub max: f64,
}

impl Mismatch {
    /// Adds the differences of the steps of `chain`, given the trainer's log-probability of each token in `found`.
    fn add(&mut self, chain: &Chain, found: &[f32]) {
        let mut found = found;
        for step in &chain.steps {
            let (own, rest) = found.split_at(step.tokens);
            let sum: f64 = own.iter().map(|&x| f64::from(x)).sum();
            let difference = (sum - step.log_prob).abs();
            self.sum += difference;
            self.steps += 1;
            // A comparison with NaN is false, so without `is_nan` a NaN would pass as agreement.
            if difference > self.max || difference.is_nan() {
                self.max = difference;
            }
            found = rest;
        }
    }

    /// Returns the mean absolute difference, or 0 if there were no steps.
    pub(super) fn mean(&self) -> f64 {
        self.sum / self.steps.max(1) as f64
    }

    /// Returns an error unless the largest difference is at most `bound`.
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
    /// Takes the optimiser steps for the groups of `batch`. Updates are counted from 1. `references` has the starting
    /// policy's log-probabilities of each chain in the order of groups; it is empty if the loss has no divergence
    /// term.
    ///
    /// # Errors
    /// [`Error::Mismatch`] before the first optimiser step, [`Error::Diverged`] if a loss or a gradient is not
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
            // The trainer computes the old log-probabilities itself. The engine's differ by rounding, and the first
            // importance ratios would not be exactly 1.
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
                // The averages count all chains of the part: a chain without a gradient still counts in the mean.
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
                // A single step needs no separate pass: its forward pass gives the log-probabilities before the
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

/// Returns the chains of all groups twice, in the same order: as samples for the trainer, and as they were sampled.
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

/// Returns whether the loss of a sample has a gradient. If all advantages are 0, only the divergence term has one.
fn has_gradient(recipe: &Recipe, sample: &Sample) -> bool {
    let has_signal = sample.advantages.iter().any(|&a| a != 0.0);
    !sample.advantages.is_empty() && (recipe.kl > 0.0 || has_signal)
}

/// Returns the indices of the samples for each optimiser step of an epoch. The order depends only on seed, update and
/// epoch.
fn parts(
    training: &crate::tune::Recipe,
    samples: usize,
    update: usize,
    epoch: usize,
) -> Vec<Vec<usize>> {
    // Shuffling spreads the chains of a group over the optimiser steps.
    let mut order: Vec<usize> = (0..samples).collect();
    let mut rng = ChaCha8Rng::seed_from_u64(training.seed);
    rng.set_stream(ORDERS + (update * training.epochs + epoch) as u64);
    order.shuffle(&mut rng);
    let parts = order.chunks(training.batch.max(1));
    parts.map(<[usize]>::to_vec).collect()
}

/// Returns the number of tokens of all samples, prompts included.
fn read(samples: &[&Sample]) -> u64 {
    samples.iter().map(|sample| sample.ids.len() as u64).sum()
}
