//! The trainer's side of an update: log-probabilities of sampled tokens, gradients and optimiser
//! steps.

use beamgen_engine::{ModelConfig, WeightType, Weights};
use candle_core::{Device, Tensor};

use super::objective::{Objective, Token};
use crate::optim::AdamW;
use crate::tune::features::FrozenLayers;
use crate::tune::gradients::Gradients;
use crate::tune::{Decoder, Input, batches};
use crate::{Error, Result, ops};

/// A chain as the trainer reads it.
#[derive(Clone, Debug)]
pub(super) struct Sample {
    /// The token ids of the prompt and of the chain.
    pub ids: Vec<u32>,
    /// The number of tokens of the prompt.
    pub prompt: usize,
    /// The advantage of each token of the chain.
    pub advantages: Vec<f64>,
    /// The log-probability of each token of the chain before the update's first optimiser step;
    /// `None` if the weights have not changed since sampling.
    pub old: Option<Vec<f32>>,
    /// The log-probability of each token under the reference policy, if the loss has a divergence
    /// term.
    pub reference: Option<Vec<f32>>,
}

impl Sample {
    /// The number of tokens of the chain.
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

/// The results of a forward and backward pass over samples.
#[derive(Debug, Default)]
pub(super) struct Pass {
    pub gradients: Gradients,
    /// The loss, a weighted sum over tokens.
    pub loss: f64,
    /// The log-probabilities of each sample's tokens.
    pub log_probs: Vec<Vec<f32>>,
    /// The number of tokens whose importance ratio was clipped.
    pub clipped: usize,
    /// The summed divergence from the policy that sampled the tokens, in nats (k3).
    pub kl_old: f64,
}

/// The trainer: a decoder with its optimiser.
pub(super) struct Learner<'a> {
    decoder: &'a Decoder,
    frozen: Option<FrozenLayers>,
    /// The number of tokens in the vocabulary. A head may have more rows, padding that no chain
    /// uses.
    vocab: usize,
    micro_tokens: usize,
    pub optimizer: AdamW,
}

impl<'a> Learner<'a> {
    /// Makes a trainer of `decoder`. Frozen layers, if there are some, are run by the engine.
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

    /// Computes the log-probabilities of each chain's tokens, without gradients.
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

    /// Computes the gradients of the samples' losses. `weights` has the weight of a token for each
    /// sample.
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
                // Computed again: the closure above runs on several threads and cannot count.
                let token = objective.loss(token, f64::from(log_prob));
                pass.clipped += usize::from(token.clipped);
                pass.kl_old += token.kl_old;
            }
            share(samples, &part, &found, &mut pass.log_probs);
        }
        Ok(pass)
    }

    /// Takes an optimiser step; returns the L2 norm of all gradients before clipping.
    ///
    /// # Errors
    /// [`Error::Diverged`] if the norm or the loss is not finite.
    pub(super) fn step(&mut self, pass: &Pass, rate: f64, update: usize) -> Result<f64> {
        let norm = pass
            .gradients
            .step(self.decoder, &mut self.optimizer, rate)?;
        // The update is applied already, but nothing has been saved: the run can be resumed before
        // it.
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

    /// Returns the head without padding rows, `[vocab, hidden]`.
    fn head(&self) -> Result<Tensor> {
        Ok(self.decoder.head()?.narrow(0, 0, self.vocab)?)
    }

    /// Returns the hidden states at the rows that predict the chains' tokens, and these tokens.
    fn hidden(&mut self, samples: &[&Sample], part: &[usize]) -> Result<(Tensor, Vec<u32>)> {
        let sequences: Vec<&[u32]> = part.iter().map(|&i| &samples[i].ids[..]).collect();
        let (ids, time) = batches::pad(&sequences);
        let (mut at, mut targets) = (Vec::new(), Vec::new());
        for (row, &i) in part.iter().enumerate() {
            let Sample { ids, prompt, .. } = samples[i];
            // The row before a token predicts the token, so the last row of the prompt is included
            // and the last row of the chain is not.
            at.extend((prompt - 1..ids.len() - 1).map(|t| (row * time + t) as u32));
            targets.extend_from_slice(&ids[*prompt..]);
        }
        let hidden = match &mut self.frozen {
            None => self.decoder.forward(Input::Tokens(&ids), time, Some(&at))?,
            Some(frozen) => {
                let width = self.decoder.config.hidden_size;
                let mut values = Vec::new();
                frozen.compute(&sequences, &mut |x| values.push(x))?;
                // The engine returns the rows of all sequences without padding; the decoder wants
                // them padded.
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

/// Distributes the log-probabilities of a micro-batch to its samples.
fn share(samples: &[&Sample], part: &[usize], found: &[f32], out: &mut [Vec<f32>]) {
    let mut found = found;
    for &i in part {
        let (own, rest) = found.split_at(samples[i].len());
        out[i] = own.to_vec();
        found = rest;
    }
}
