//! The trainer's side: what it thinks of sampled tokens, and optimiser steps on them.

use beamgen_engine::{ModelConfig, WeightType, Weights};
use candle_core::{Device, Tensor};

use super::objective::{Objective, Token};
use crate::optim::AdamW;
use crate::tune::features::FrozenLayers;
use crate::tune::gradients::Gradients;
use crate::tune::{Decoder, Input, batches};
use crate::{Error, Result, ops};

/// A chain to learn from.
#[derive(Clone, Debug)]
pub(super) struct Sample {
    /// The prompt's and the chain's tokens.
    pub ids: Vec<u32>,
    /// How many of them are the prompt's.
    pub prompt: usize,
    /// Of each token of the chain.
    pub advantages: Vec<f64>,
    /// The trainer's log-probabilities before the update's first step; `None` if they are those of
    /// now.
    pub old: Option<Vec<f32>>,
    /// Under the reference, if the loss has a term of it.
    pub reference: Option<Vec<f32>>,
}

impl Sample {
    /// Tokens of the chain.
    pub(super) fn len(&self) -> usize {
        self.ids.len() - self.prompt
    }

    fn token(&self, at: usize, weight: f64) -> Token {
        let of = |log_probs: &Option<Vec<f32>>| log_probs.as_ref().map(|of| f64::from(of[at]));
        Token {
            weight,
            advantage: self.advantages[at],
            old: of(&self.old),
            reference: of(&self.reference),
        }
    }
}

/// What a pass over samples found.
#[derive(Debug, Default)]
pub(super) struct Pass {
    /// The gradients of the loss.
    pub gradients: Gradients,
    /// The loss.
    pub loss: f64,
    /// Of each sample, the log-probabilities of its chain.
    pub log_probs: Vec<Vec<f32>>,
    /// Tokens whose ratio was clipped.
    pub clipped: usize,
    /// Sum over the tokens of the divergence from when they were sampled.
    pub kl_old: f64,
}

/// What takes optimiser steps.
pub(super) struct Learner<'a> {
    decoder: &'a Decoder,
    frozen: Option<FrozenLayers>,
    /// Tokens of the vocabulary. A head may have more rows, which no chain has.
    vocab: usize,
    micro_tokens: usize,
    /// Its moments.
    pub optimizer: AdamW,
}

impl<'a> Learner<'a> {
    /// A learner of `decoder`, whose frozen layers, if it has some, are the engine's.
    ///
    /// # Errors
    /// The error of the engine.
    pub(super) fn new(
        decoder: &'a Decoder,
        config: &ModelConfig,
        weights: Weights,
        vocab: usize,
        recipe: &crate::tune::Recipe,
    ) -> Result<Self> {
        let below = |_| FrozenLayers::new(config, weights, WeightType::F32, decoder.frozen());
        let frozen = recipe.train.top.map(below).transpose()?;
        Ok(Self {
            decoder,
            frozen,
            vocab,
            micro_tokens: recipe.micro_tokens,
            optimizer: recipe.optimizer(),
        })
    }

    /// The log-probabilities of the chains' tokens.
    ///
    /// # Errors
    /// What candle or the engine says.
    pub(super) fn log_probs(&mut self, samples: &[&Sample]) -> Result<Vec<Vec<f32>>> {
        let mut out = vec![Vec::new(); samples.len()];
        for part in self.parts(samples) {
            let (hidden, targets) = self.hidden(samples, &part)?;
            let found = ops::linear_log_probs(&hidden, &self.head()?, &targets)?;
            share(samples, &part, &found, &mut out);
        }
        Ok(out)
    }

    /// The gradients of the samples' losses, the tokens of each weighed as `weights` says.
    ///
    /// # Errors
    /// What candle or the engine says.
    pub(super) fn pass(
        &mut self,
        samples: &[&Sample],
        weights: &[f64],
        objective: &Objective,
    ) -> Result<Pass> {
        let mut pass = Pass {
            log_probs: vec![Vec::new(); samples.len()],
            ..Pass::default()
        };
        for part in self.parts(samples) {
            let (hidden, targets) = self.hidden(samples, &part)?;
            let tokens: Vec<Token> = part
                .iter()
                .flat_map(|&i| {
                    (0..samples[i].len()).map(move |at| samples[i].token(at, weights[i]))
                })
                .collect();
            let cost = |row: usize, log_prob: f32| {
                let of = objective.loss(&tokens[row], f64::from(log_prob));
                ops::Cost {
                    loss: of.loss as f32,
                    slope: of.slope as f32,
                }
            };
            let (head, trained) = (self.head()?, self.decoder.trains_head());
            let (loss, found) = ops::linear_objective(&hidden, &head, &targets, trained, cost)?;
            pass.loss += f64::from(loss.to_scalar::<f32>()?);
            pass.gradients.add(self.decoder, &loss)?;
            for (token, &log_prob) in tokens.iter().zip(&found) {
                let of = objective.loss(token, f64::from(log_prob));
                pass.clipped += usize::from(of.clipped);
                pass.kl_old += of.kl_old;
            }
            share(samples, &part, &found, &mut pass.log_probs);
        }
        Ok(pass)
    }

    /// Takes an optimiser step; returns the gradients' norm.
    ///
    /// # Errors
    /// [`Error::Diverged`] if that is no number.
    pub(super) fn step(&mut self, pass: &Pass, rate: f64, update: usize) -> Result<f64> {
        let norm = pass
            .gradients
            .step(self.decoder, &mut self.optimizer, rate)?;
        if norm.is_finite() && pass.loss.is_finite() {
            Ok(norm)
        } else {
            Err(Error::Diverged {
                stage: "rl".into(),
                step: update,
            })
        }
    }

    fn parts(&self, samples: &[&Sample]) -> Vec<Vec<usize>> {
        let lengths: Vec<usize> = samples.iter().map(|sample| sample.ids.len()).collect();
        batches::parts((0..samples.len()).collect(), &lengths, self.micro_tokens)
    }

    /// The rows of the head that are tokens.
    fn head(&self) -> Result<Tensor> {
        Ok(self.decoder.head()?.narrow(0, 0, self.vocab)?)
    }

    /// Hidden states of the rows that predict the chains' tokens, and these tokens.
    fn hidden(&mut self, samples: &[&Sample], part: &[usize]) -> Result<(Tensor, Vec<u32>)> {
        let sequences: Vec<&[u32]> = part.iter().map(|&i| &samples[i].ids[..]).collect();
        let (ids, time) = batches::pad(&sequences);
        let (mut at, mut targets) = (Vec::new(), Vec::new());
        for (row, &i) in part.iter().enumerate() {
            let Sample { ids, prompt, .. } = samples[i];
            at.extend((prompt - 1..ids.len() - 1).map(|t| (row * time + t) as u32));
            targets.extend_from_slice(&ids[*prompt..]);
        }
        let hidden = match &mut self.frozen {
            None => self.decoder.forward(Input::Tokens(&ids), time, Some(&at))?,
            Some(frozen) => {
                let width = self.decoder.config.hidden_size;
                let mut values = Vec::new();
                frozen.compute(&sequences, &mut |x| values.push(x))?;
                let mut rows = vec![0f32; part.len() * time * width];
                let mut from = values.as_slice();
                for (row, sequence) in rows.chunks_mut(time * width).zip(sequences) {
                    let (own, rest) = from.split_at(sequence.len() * width);
                    row[..own.len()].copy_from_slice(own);
                    from = rest;
                }
                let rows = Tensor::from_vec(rows, (part.len() * time, width), &Device::Cpu)?;
                self.decoder
                    .forward(Input::Hidden(&rows), time, Some(&at))?
            }
        };
        Ok((hidden, targets))
    }
}

/// Gives the log-probabilities of a part's rows to the samples that they are of.
fn share(samples: &[&Sample], part: &[usize], found: &[f32], out: &mut [Vec<f32>]) {
    let mut found = found;
    for &i in part {
        let (own, rest) = found.split_at(samples[i].len());
        out[i] = own.to_vec();
        found = rest;
    }
}
