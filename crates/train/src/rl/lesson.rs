//! The optimiser steps of an update, and the check that engine and trainer have the same policy.

use rand::seq::SliceRandom;
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::SeedableRng;

use super::Recipe;
use super::batch::Batch;
use super::learner::{Learner, Sample};
use super::objective::Objective;
use super::rollout::Chain;
use crate::{Error, Result};

/// Streams of random numbers above those of the problems' orders.
const ORDERS: u64 = 1 << 32;

/// What the optimiser steps of an update were like.
#[derive(Debug, Default)]
pub(super) struct Lesson {
    /// Of each step.
    pub losses: Vec<f64>,
    /// The last step's norm of all gradients.
    pub norm: f64,
    /// Tokens whose ratio was clipped.
    pub clipped: usize,
    /// Sum over tokens of the divergence from when they were sampled.
    pub kl_old: f64,
    /// Tokens of chains, over all passes with gradients.
    pub tokens: usize,
    /// Tokens that went through the trainer.
    pub passed: u64,
    /// Chains learnt from.
    pub chains: usize,
    /// Between engine and trainer.
    pub mismatch: Mismatch,
}

/// How far the engine's log-probabilities of steps are from the trainer's.
#[derive(Debug, Default)]
pub(super) struct Mismatch {
    sum: f64,
    steps: usize,
    /// The largest.
    pub max: f64,
}

impl Mismatch {
    /// Compares the log-probabilities that the trainer found for a chain's tokens.
    fn add(&mut self, chain: &Chain, found: &[f32]) {
        let mut found = found;
        for step in &chain.steps {
            let (own, rest) = found.split_at(step.tokens);
            let sum: f64 = own.iter().map(|&x| f64::from(x)).sum();
            let difference = (sum - step.log_prob).abs();
            self.sum += difference;
            self.steps += 1;
            // A difference that is no number is no agreement.
            if difference > self.max || difference.is_nan() {
                self.max = difference;
            }
            found = rest;
        }
    }

    /// The mean.
    pub(super) fn mean(&self) -> f64 {
        self.sum / self.steps.max(1) as f64
    }

    /// The policies must be the same.
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
    /// Learns from the groups of `batch` for the update of this number, from 1. `references` has the
    /// starting policy's log-probabilities of each of their chains.
    ///
    /// # Errors
    /// [`Error::Mismatch`] before anything is learnt, [`Error::Diverged`], or what candle or the
    /// engine says.
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
        // What neither an advantage nor a divergence pulls at has no gradient.
        let counts = |sample: &Sample| {
            let pulled = sample.advantages.iter().any(|&a| a != 0.0);
            !sample.advantages.is_empty() && (recipe.kl > 0.0 || pulled)
        };
        let counting: Vec<usize> = (0..samples.len())
            .filter(|&i| counts(&samples[i]))
            .collect();
        let mut lesson = Self {
            chains: counting.len(),
            ..Self::default()
        };
        let several = training.epochs > 1 || samples.len() > training.batch;
        if several {
            // Ratios are between passes of the same code: 1 as long as nothing has changed.
            let which: Vec<&Sample> = counting.iter().map(|&i| &samples[i]).collect();
            let old = learner.log_probs(&which)?;
            lesson.passed += read(&which);
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
                let weights = recipe.algorithm.average.weights(&lengths, longest);
                let weighed = part.into_iter().zip(weights);
                let (which, weights): (Vec<usize>, Vec<f64>) =
                    weighed.filter(|&(i, _)| counts(&samples[i])).unzip();
                if which.is_empty() {
                    continue;
                }
                let of: Vec<&Sample> = which.iter().map(|&i| &samples[i]).collect();
                let pass = learner.pass(&of, &weights, &objective)?;
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
                lesson.tokens += of.iter().map(|sample| sample.len()).sum::<usize>();
                lesson.passed += read(&of);
            }
        }
        Ok(lesson)
    }
}

/// The chains that are learnt from, as the trainer reads them and as they were sampled.
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

/// Which samples go into each optimiser step of an epoch.
fn parts(
    training: &crate::tune::Recipe,
    samples: usize,
    update: usize,
    epoch: usize,
) -> Vec<Vec<usize>> {
    let mut order: Vec<usize> = (0..samples).collect();
    let mut rng = ChaCha8Rng::seed_from_u64(training.seed);
    rng.set_stream(ORDERS + (update * training.epochs + epoch) as u64);
    order.shuffle(&mut rng);
    let parts = order.chunks(training.batch.max(1));
    parts.map(<[usize]>::to_vec).collect()
}

/// Tokens that a pass reads.
fn read(samples: &[&Sample]) -> u64 {
    samples.iter().map(|sample| sample.ids.len() as u64).sum()
}
