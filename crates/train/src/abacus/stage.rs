//! A stage of the pipeline: its schedule and its loss.

use candle_core::Tensor;
use serde::{Deserialize, Serialize};

use crate::tune::gradients::Gradients;
use crate::tune::{Decoder, Example, Input, Pass, RewardHead, Rows, Updates};
use crate::{Error, Result, ops};

/// The weight of the language-model loss next to the score loss. This loss keeps the knowledge of
/// the base model.
const LM_WITH_SCORE: f64 = 0.2;

/// The length, learning rate and batch size of a stage.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Schedule {
    /// The number of optimiser updates of the stage.
    pub steps: usize,
    /// The number of updates of linear warm-up.
    pub warmup: usize,
    /// The highest learning rate, reached at the end of the warm-up.
    pub learning_rate: f64,
    /// The approximate number of tokens of a batch.
    pub batch_tokens: usize,
}

/// A stage as the source of a training loop's updates.
pub struct Stage<'a, F> {
    /// The model to train, updated in place.
    pub decoder: &'a Decoder,
    /// The head of the scores, used by batches with labels.
    pub head: &'a RewardHead,
    /// The schedule of the stage.
    pub schedule: Schedule,
    /// Makes the batch of an update, counted from 0.
    pub batch: F,
}

impl<F: FnMut(usize) -> Result<Vec<Example>>> Updates for Stage<'_, F> {
    /// Returns the learning rate: linear warm-up, then a cosine down to 2 % of the peak.
    fn rate(&self, step: usize) -> f64 {
        let Schedule { steps, warmup, .. } = self.schedule;
        let up = (step + 1) as f64 / warmup.max(1) as f64;
        let x = (step as f64 / steps.max(1) as f64).min(1.0);
        let cosine = 0.02 + 0.98 * 0.5 * (1.0 + (std::f64::consts::PI * x).cos());
        self.schedule.learning_rate * up.min(1.0) * cosine
    }

    fn pass(&mut self, step: usize) -> Result<Pass> {
        let batch = (self.batch)(step)?;
        // Batches are small enough for a single pass, unlike those of `tune`.
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
    /// Computes the mean cross-entropy of the predicted tokens, of the labels, or of both. The
    /// order of operations must stay: it decides the bytes of the bundled models.
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
            // softplus(z) - y z, in the form that cannot overflow.
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
