//! A training stage of the pipeline: its schedule, and the loss of one update.

use candle_core::Tensor;
use serde::{Deserialize, Serialize};

use crate::tune::gradients::Gradients;
use crate::tune::{Decoder, Example, Input, Pass, RewardHead, Rows, Updates};
use crate::{Error, Result, ops};

/// The weight of the language-model loss if a batch has scores too. Without this loss the model would forget the base
/// model's knowledge.
const LM_WITH_SCORE: f64 = 0.2;

/// The length, learning rate and batch size of a stage.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Schedule {
    /// The number of optimiser updates, over which the learning rate falls.
    pub steps: usize,
    /// The number of first updates, during which the learning rate grows linearly.
    pub warmup: usize,
    /// The learning rate before the factors of warm-up and cosine.
    pub learning_rate: f64,
    /// The approximate number of tokens in the batch of one update.
    pub batch_tokens: usize,
}

/// The updates of one stage, to be passed to [`tune::train`](crate::tune::train).
pub struct Stage<'a, F> {
    /// The model, whose weights training changes in place.
    pub decoder: &'a Decoder,
    /// The head that scores rows; batches without labels do not use it.
    pub head: &'a RewardHead,
    /// The schedule of the stage, from which learning rates are computed.
    pub schedule: Schedule,
    /// Returns the examples of an update, which is counted from 0.
    pub batch: F,
}

impl<F: FnMut(usize) -> Result<Vec<Example>>> Updates for Stage<'_, F> {
    /// Multiplies the linear warm-up and a cosine from 1 down to 0.02 at the last update.
    fn rate(&self, step: usize) -> f64 {
        let Schedule { steps, warmup, .. } = self.schedule;
        let up = (step + 1) as f64 / warmup.max(1) as f64;
        let x = (step as f64 / steps.max(1) as f64).min(1.0);
        let cosine = 0.02 + 0.98 * 0.5 * (1.0 + (std::f64::consts::PI * x).cos());
        self.schedule.learning_rate * up.min(1.0) * cosine
    }

    fn pass(&mut self, step: usize) -> Result<Pass> {
        let batch = (self.batch)(step)?;
        // Batches fit in memory as a single pass, so there is no accumulation over micro-batches.
        let loss = self.loss(Rows::of(batch.iter()))?;
        let mut gradients = Gradients::default();
        gradients.add(self.decoder, &loss)?;
        Ok(Pass {
            gradients,
            loss: f64::from(loss.to_scalar::<f32>()?),
            tokens: batch.iter().map(|example| example.ids.len()).sum(),
        })
    }
}

impl<F> Stage<'_, F> {
    /// Returns the mean cross-entropy of the predicted tokens plus that of the labels, each only if present. The
    /// order of operations decides the bytes of the bundled models, so it must not change.
    fn loss(&self, rows: Rows) -> Result<Tensor> {
        let decoder = self.decoder;
        let hidden = decoder.forward(Input::Tokens(&rows.ids), rows.time, None)?;
        let read = |at: Vec<u32>| hidden.index_select(&Tensor::new(at, &decoder.device)?, 0);
        let mut loss = None;
        if !rows.at.is_empty() {
            let total: f32 = rows.weights.iter().sum();
            let weight = if rows.labels.is_empty() {
                1.0
            } else {
                LM_WITH_SCORE
            };
            let logits = read(rows.at)?.matmul(&decoder.head()?.t()?)?;
            let sum = ops::cross_entropy(&logits, rows.targets, rows.weights)?;
            loss = Some((sum * (weight / f64::from(total.max(1e-6))))?);
        }
        if !rows.labels.is_empty() {
            let total: f32 = rows.labels.iter().map(|label| label.weight).sum();
            let at = rows.labels.iter().map(|label| label.row).collect();
            let z = self.head.log_odds(decoder, &read(at)?)?;
            let (right, weight): (Vec<f32>, Vec<f32>) = rows
                .labels
                .iter()
                .map(|label| (label.right, label.weight))
                .unzip();
            let right = Tensor::new(right, &decoder.device)?;
            let weight = Tensor::new(weight, &decoder.device)?;
            // softplus(z) - y z, with max(z, 0) + log(1 + exp(-|z|)) for softplus so that nothing overflows.
            let soft = ((z.abs()?.neg()?.exp()? + 1.0)?.log()? + z.relu()?)?;
            let sum = ((soft - (right * z)?)? * weight)?.sum_all()?;
            let score = (sum / f64::from(total.max(1e-6)))?;
            loss = Some(match loss {
                Some(loss) => (loss + score)?,
                None => score,
            });
        }
        loss.ok_or_else(|| Error::Empty("a batch has no targets".into()))
    }
}
