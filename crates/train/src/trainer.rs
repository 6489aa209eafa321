//! The training loop of every stage: batches by step number, warm-up and cosine, checkpoints.

use crate::model::Model;
use crate::optim::AdamW;
use crate::write::write_tensors;
use crate::{Error, Result};
use candle_core::{Device, Tensor, Var};
use serde::{Deserialize, Serialize};
use std::{collections::HashMap, path::Path, time::Instant};

/// One padded batch and what is learnt from it. Positions index `[batch * time]` rows.
#[derive(Default)]
pub struct Batch {
    /// Token ids, `[batch, time]`; short sequences are padded with 0.
    pub ids: Vec<u32>,
    /// Tokens of the longest sequence.
    pub time: usize,
    /// Real (unpadded) tokens.
    pub tokens: usize,
    /// Next-token prediction: row, target, weight.
    pub lm: Vec<(u32, u32, f32)>,
    /// Scores: row, label, weight.
    pub score: Vec<(u32, f32, f32)>,
}

impl Batch {
    /// Pads sequences to the longest.
    pub fn pad(sequences: &[Vec<u32>]) -> Self {
        let time = sequences.iter().map(Vec::len).max().unwrap_or(0);
        let mut ids = vec![0; sequences.len() * time];
        for (row, s) in ids.chunks_mut(time.max(1)).zip(sequences) {
            row[..s.len()].copy_from_slice(s);
        }
        Self {
            ids,
            time,
            tokens: sequences.iter().map(Vec::len).sum(),
            ..Self::default()
        }
    }
}

/// How long and how fast one stage learns.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Schedule {
    /// Updates.
    pub steps: usize,
    /// Updates of linear warm-up.
    pub warmup: usize,
    /// The peak.
    pub learning_rate: f64,
    /// Tokens per batch, about.
    pub batch_tokens: usize,
}

impl Schedule {
    /// Linear warm-up, then cosine down to 2 % of the peak.
    pub fn rate(&self, step: usize) -> f64 {
        let up = (step + 1) as f64 / self.warmup.max(1) as f64;
        let x = (step as f64 / self.steps.max(1) as f64).min(1.0);
        let cosine = 0.02 + 0.98 * 0.5 * (1.0 + (std::f64::consts::PI * x).cos());
        self.learning_rate * up.min(1.0) * cosine
    }
}

/// What a run tells while it goes.
#[derive(Clone, Debug)]
pub struct Progress<'a> {
    /// The stage's name.
    pub stage: &'a str,
    /// Updates done.
    pub step: usize,
    /// Updates in all.
    pub steps: usize,
    /// Mean loss since the last report.
    pub loss: f64,
    /// Without padding.
    pub tokens_per_second: f64,
    /// To the end of the stage, at this rate.
    pub seconds_left: f64,
}

/// Steps between two progress reports.
const REPORT: usize = 20;

/// Where and how often a run saves its state.
#[derive(Clone, Copy, Debug)]
pub struct Checkpoints<'a> {
    /// The file.
    pub path: &'a Path,
    /// Steps between two.
    pub every: usize,
}

/// Trains `model` for the schedule. The state is saved as it goes, and a run that finds one goes
/// on from it, with the same result as one never interrupted:
/// `batch(step)` must depend on nothing but the step.
pub fn run(
    stage: &str,
    model: &mut Model,
    schedule: &Schedule,
    checkpoints: Checkpoints<'_>,
    mut batch: impl FnMut(usize) -> Result<Batch>,
    report: &mut dyn FnMut(Progress),
) -> Result<()> {
    let mut optimizer = AdamW::default();
    let mut first = 0;
    let path = checkpoints.path;
    if path.exists() {
        let state = load(path, model.device())?;
        first = steps_done(path, &state)?;
        model.restore(&state)?;
        optimizer.restore(&state, first);
    }
    let (mut loss_sum, mut loss_n, mut tokens) = (0.0, 0, 0);
    let began = Instant::now();
    let mut since = Instant::now();
    for step in first..schedule.steps {
        let b = batch(step)?;
        let loss = loss(model, &b)?;
        let grads = loss.backward()?;
        let gradient = |_: &str, var: &Var| grads.get(var.as_tensor()).cloned();
        optimizer.step(model.vars(), gradient, schedule.rate(step))?;
        let value = f64::from(loss.to_scalar::<f32>()?);
        if !value.is_finite() {
            return Err(Error::Diverged {
                stage: stage.to_owned(),
                step,
            });
        }
        loss_sum += value;
        loss_n += 1;
        tokens += b.tokens;
        let done = step + 1;
        if done % REPORT == 0 || done == schedule.steps {
            let rate = tokens as f64 / since.elapsed().as_secs_f64();
            let per_step = began.elapsed().as_secs_f64() / (done - first) as f64;
            report(Progress {
                stage,
                step: done,
                steps: schedule.steps,
                loss: loss_sum / f64::from(loss_n),
                tokens_per_second: rate,
                seconds_left: per_step * (schedule.steps - done) as f64,
            });
            (loss_sum, loss_n, tokens, since) = (0.0, 0, 0, Instant::now());
        }
        if done % checkpoints.every == 0 || done == schedule.steps {
            save_state(path, model, &optimizer, done)?;
        }
    }
    Ok(())
}

fn loss(model: &Model, b: &Batch) -> Result<Tensor> {
    let hidden = model.hidden(&b.ids, b.time)?;
    let mut terms = Vec::new();
    if !b.lm.is_empty() {
        let total: f32 = b.lm.iter().map(|x| x.2).sum();
        let at: Vec<u32> = b.lm.iter().map(|x| x.0).collect();
        let targets = b.lm.iter().map(|x| x.1).collect();
        let weights = b.lm.iter().map(|x| x.2).collect();
        let weight = if b.score.is_empty() {
            1.0
        } else {
            LM_BESIDE_SCORE
        };
        terms.push(
            (model.lm_loss(&hidden, &at, targets, weights)?
                * (weight / f64::from(total.max(1e-6))))?,
        );
    }
    if !b.score.is_empty() {
        let total: f32 = b.score.iter().map(|x| x.2).sum();
        let at: Vec<u32> = b.score.iter().map(|x| x.0).collect();
        let labels: Vec<f32> = b.score.iter().map(|x| x.1).collect();
        let weights: Vec<f32> = b.score.iter().map(|x| x.2).collect();
        terms.push(
            (model.score_loss(&hidden, &at, &labels, &weights)? / f64::from(total.max(1e-6)))?,
        );
    }
    let mut it = terms.into_iter();
    let first = it
        .next()
        .ok_or_else(|| Error::Empty("a batch has nothing to learn".into()))?;
    it.try_fold(first, |a, b| Ok((a + b)?))
}

/// Weight of the language-model loss beside the score loss: keeps the base model's knowledge alive.
const LM_BESIDE_SCORE: f64 = 0.2;

/// Whether the state at `path` is that of the last step.
pub fn finished(path: &Path, schedule: &Schedule, device: &Device) -> Result<bool> {
    Ok(path.exists() && steps_done(path, &load(path, device)?)? >= schedule.steps)
}

fn load(path: &Path, device: &Device) -> Result<HashMap<String, Tensor>> {
    Ok(candle_core::safetensors::load(path, device)?)
}

fn steps_done(path: &Path, state: &HashMap<String, Tensor>) -> Result<usize> {
    let step = state
        .get("step")
        .ok_or_else(|| Error::Checkpoint(path.to_owned(), "has no step".into()))?;
    Ok(step.to_scalar::<u32>()? as usize)
}

fn save_state(path: &Path, model: &Model, optimizer: &AdamW, step: usize) -> Result<()> {
    let mut all: HashMap<String, Tensor> = optimizer.state().collect();
    for (name, var) in model.vars() {
        all.insert(name.to_owned(), var.as_tensor().clone());
    }
    all.insert("step".into(), Tensor::new(step as u32, model.device())?);
    write_tensors(path, &all)
}
