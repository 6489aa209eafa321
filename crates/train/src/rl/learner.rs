//! The trainer's part of an update: log-probabilities, gradients and optimiser steps.

use beamgen_engine::{ModelConfig, WeightType, Weights};
use candle_core::{Device, Tensor};

use super::objective::{Objective, Token};
use crate::optim::AdamW;
use crate::tune::features::FrozenLayers;
use crate::tune::gradients::Gradients;
use crate::tune::{Decoder, Input, batches};
use crate::{Error, Result, ops};

#[derive(Clone, Debug)]
pub(super) struct Sample {
    /// The tokens of the prompt, followed by those of the chain.
    pub ids: Vec<u32>,
    /// The number of tokens of the prompt, at least 1.
    pub prompt: usize,
    /// The advantage of each token of the chain; tokens of a step share it.
    pub advantages: Vec<f64>,
    /// The log-probability of each token of the chain under the sampling policy. `None` means that the weights have
    /// not changed since sampling, so the current log-probabilities serve.
    pub old: Option<Vec<f32>>,
    /// The log-probability of each token of the chain under the reference policy; `None` if the loss has no
    /// divergence term.
    pub reference: Option<Vec<f32>>,
}

impl Sample {
    /// Returns the number of tokens of the chain, without the prompt.
    pub(super) fn len(&self) -> usize {
        self.ids.len() - self.prompt
    }

    fn token(&self, at: usize, weight: f64) -> Token {
        let [old, reference] = [&self.old, &self.reference]
            .map(|log_probs| log_probs.as_ref().map(|x| f64::from(x[at])));
        Token {
            weight,
            advantage: self.advantages[at],
            old,
            reference,
        }
    }
}

#[derive(Debug, Default)]
pub(super) struct Pass {
    pub gradients: Gradients,
    pub loss: f64,
    /// The log-probability of each token of the chain, for each sample.
    pub log_probs: Vec<Vec<f32>>,
    /// The number of tokens whose importance ratio was clipped, so that they have no gradient.
    pub clipped: usize,
    /// The divergence from the sampling policy, in nats by the k3 estimator, summed over tokens.
    pub kl_old: f64,
}

pub(super) struct Learner<'a> {
    decoder: &'a Decoder,
    frozen: Option<FrozenLayers>,
    /// The number of tokens in the vocabulary. The head may have more rows; these are padding and take no part in the
    /// softmax.
    vocab: usize,
    micro_tokens: usize,
    pub optimizer: AdamW,
}

impl<'a> Learner<'a> {
    /// Makes a trainer of `decoder`. If only the top layers are trained, the engine runs the frozen layers below
    /// them.
    ///
    /// # Errors
    /// The engine refuses the weights of the frozen layers.
    pub(super) fn new(
        decoder: &'a Decoder,
        config: &ModelConfig,
        weights: Weights,
        vocab: usize,
        recipe: &crate::tune::Recipe,
    ) -> Result<Self> {
        let frozen = match recipe.train.top {
            None => None,
            Some(_) => Some(FrozenLayers::new(
                config,
                weights,
                WeightType::F32,
                decoder.frozen(),
            )?),
        };
        Ok(Self {
            decoder,
            frozen,
            vocab,
            micro_tokens: recipe.micro_tokens,
            optimizer: recipe.optimizer(),
        })
    }

    /// Returns the log-probability of each token of the samples' chains. No gradients are computed.
    ///
    /// # Errors
    /// A tensor operation fails, or the engine cannot run the frozen layers.
    pub(super) fn log_probs(&mut self, samples: &[&Sample]) -> Result<Vec<Vec<f32>>> {
        let mut out = vec![Vec::new(); samples.len()];
        for part in self.parts(samples) {
            let (hidden, targets) = self.hidden(samples, &part)?;
            let found = ops::linear_log_probs(&hidden, &self.head()?, &targets)?;
            share(samples, &part, &found, &mut out);
        }
        Ok(out)
    }

    /// Computes the gradients of the samples' losses. All tokens of a sample have the weight at its place in
    /// `weights`.
    ///
    /// # Errors
    /// A tensor operation fails, or the engine cannot run the frozen layers.
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
            let (head, trained) = (self.head()?, self.decoder.trains_head());
            let (loss, found) =
                ops::linear_objective(&hidden, &head, &targets, trained, |row, log_prob| {
                    let token = objective.loss(&tokens[row], f64::from(log_prob));
                    ops::Cost {
                        loss: token.loss as f32,
                        slope: token.slope as f32,
                    }
                })?;
            pass.loss += f64::from(loss.to_scalar::<f32>()?);
            pass.gradients.add(self.decoder, &loss)?;
            for (token, &log_prob) in tokens.iter().zip(&found) {
                // The closure above runs on several threads and cannot count, so the loss is computed a second time.
                let token = objective.loss(token, f64::from(log_prob));
                pass.clipped += usize::from(token.clipped);
                pass.kl_old += token.kl_old;
            }
            share(samples, &part, &found, &mut pass.log_probs);
        }
        Ok(pass)
    }

    /// Takes one optimiser step with learning rate `rate`. Returns the L2 norm of all gradients before clipping.
    ///
    /// # Errors
    /// [`Error::Diverged`] if the norm or the loss is not finite.
    pub(super) fn step(&mut self, pass: &Pass, rate: f64, update: usize) -> Result<f64> {
        let norm = pass
            .gradients
            .step(self.decoder, &mut self.optimizer, rate)?;
        // The weights are changed already, but this update is not saved yet: a resumed run starts before it.
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

    /// Returns the rows of the head that belong to tokens, `[vocab, hidden]`.
    fn head(&self) -> Result<Tensor> {
        Ok(self.decoder.head()?.narrow(0, 0, self.vocab)?)
    }

    /// Returns the hidden states of the rows that predict tokens of the chains, and these tokens.
    fn hidden(&mut self, samples: &[&Sample], part: &[usize]) -> Result<(Tensor, Vec<u32>)> {
        let sequences: Vec<&[u32]> = part.iter().map(|&i| &samples[i].ids[..]).collect();
        let (ids, time) = batches::pad(&sequences);
        let (mut at, mut targets) = (Vec::new(), Vec::new());
        for (row, &i) in part.iter().enumerate() {
            let Sample { ids, prompt, .. } = samples[i];
            // The row before a token predicts it: rows start at the last row of the prompt and end before the last
            // row of the chain.
            at.extend((prompt - 1..ids.len() - 1).map(|t| (row * time + t) as u32));
            targets.extend_from_slice(&ids[*prompt..]);
        }
        let hidden = match &mut self.frozen {
            None => self.decoder.forward(Input::Tokens(&ids), time, Some(&at))?,
            Some(frozen) => {
                let width = self.decoder.config.hidden_size;
                let mut values = Vec::new();
                frozen.compute(&sequences, &mut |x| values.push(x))?;
                // The engine returns all rows without padding, but the decoder needs sequences padded to equal
                // length.
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

/// Splits the log-probabilities `found` of the micro-batch `part` and stores them at their samples in `out`.
fn share(samples: &[&Sample], part: &[usize], found: &[f32], out: &mut [Vec<f32>]) {
    let mut found = found;
    for &i in part {
        let (own, rest) = found.split_at(samples[i].len());
        out[i] = own.to_vec();
        found = rest;
    }
}
