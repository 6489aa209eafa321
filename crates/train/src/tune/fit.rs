//! The loop: batches, gradients, updates, measurements, saved states.

use std::collections::HashMap;
use std::path::Path;
use std::time::{Duration, Instant};

use candle_core::{DType, Device, Tensor};

use super::gradients::Gradients;
use super::head::{self, RewardHead};
use super::judged::Judged;
use super::{Decoder, Example, Features, Input, Recipe, batches, state};
use crate::optim::AdamW;
use crate::{Error, Result, ops};

/// Time between two saved states.
const SAVE: Duration = Duration::from_secs(300);

/// The examples, and which of them are for what.
#[derive(Clone, Debug)]
pub struct Data<'a> {
    /// All of them.
    pub examples: &'a [Example],
    /// Trained on.
    pub train: Vec<usize>,
    /// Only measured.
    pub held_out: Vec<usize>,
}

/// What a run needs beside its decoder.
#[derive(Debug)]
pub struct Fit<'a> {
    /// How to train.
    pub recipe: &'a Recipe,
    /// What reads the examples' labels, if they have any.
    pub head: Option<&'a RewardHead>,
    /// On what.
    pub data: Data<'a>,
    /// What the first trained layer reads, for a decoder whose lower layers are frozen.
    pub features: Option<Features>,
    /// Where the state is kept; without it nothing is.
    pub state: Option<&'a Path>,
    /// Batches in this order, and no more than these, in place of the recipe's.
    pub order: Option<Vec<Vec<usize>>>,
    /// Leave after so many updates of this call, the state saved.
    pub stop_after: Option<usize>,
    /// Updates between two measurements of the held-out examples.
    pub evaluate_every: usize,
}

/// What a run tells while it goes.
#[derive(Clone, Debug)]
pub enum Report {
    /// A sentence for the user.
    Note(String),
    /// Tokens of the frozen layers, computed and in all.
    Features(usize, usize),
    /// An update.
    Step {
        /// Updates done.
        step: usize,
        /// Updates in all.
        steps: usize,
        /// Its mean loss.
        loss: f64,
        /// Its learning rate.
        rate: f64,
        /// Of this call so far.
        tokens_per_second: f64,
        /// At that speed.
        seconds_left: f64,
    },
    /// A measurement of the held-out examples, after so many updates.
    HeldOut(usize, HeldOut),
}

/// How well the held-out examples are predicted.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct HeldOut {
    /// Mean loss.
    pub loss: f64,
    /// Of a reward model, how well it tells right steps from wrong ones.
    pub judged: Option<Judged>,
}

struct Run<'a, 'd> {
    fit: &'a mut Fit<'d>,
    decoder: &'a Decoder,
    /// The tokens of the softmax, and where each stands among them.
    kept: Option<(Tensor, HashMap<u32, u32>)>,
    /// Updates of the head alone.
    head_steps: usize,
}

/// Trains `decoder`. A run that finds a saved state goes on from it, and ends as if it had never
/// been interrupted. Returns whether all updates are done.
///
/// # Errors
/// [`Error::Diverged`], or what a file or candle says.
pub fn fit(
    decoder: &Decoder,
    mut fit: Fit<'_>,
    report: &mut dyn FnMut(Report) -> Result<()>,
) -> Result<bool> {
    let recipe = fit.recipe;
    let lengths: Vec<usize> = fit.data.examples.iter().map(|e| e.ids.len()).collect();
    let train_lengths: Vec<usize> = fit.data.train.iter().map(|&i| lengths[i]).collect();
    let epoch_steps = train_lengths.len().div_ceil(recipe.batch);
    let steps = match &fit.order {
        Some(order) => order.len(),
        None => epoch_steps * recipe.epochs,
    };
    let head_steps = match fit.head {
        Some(_) => (recipe.head_warmup * steps as f64).ceil() as usize,
        None => 0,
    };
    let mut optimizer = recipe.optimizer();
    let mut first = 0;
    if let Some(path) = fit.state.filter(|path| path.exists()) {
        let saved = state::load(path)?;
        first = state::step(path, &saved)?;
        decoder.restore(&saved)?;
        // The head's own updates have an optimiser of their own, as if they were another run.
        if first != head_steps {
            let behind = first.checked_sub(head_steps);
            optimizer.restore(&saved, behind.unwrap_or(first));
        }
    }
    let last = fit.stop_after.map_or(steps, |n| steps.min(first + n));
    let kept = kept(&fit)?;
    let mut run = Run {
        decoder,
        kept,
        head_steps,
        fit: &mut fit,
    };
    let mut epoch: Option<(usize, Vec<Vec<usize>>)> = None;
    let (began, mut saved) = (Instant::now(), Instant::now());
    let mut tokens = 0;
    if first == 0 && !run.fit.data.held_out.is_empty() {
        report(Report::HeldOut(0, run.held_out(&lengths)?))?;
    }
    for step in first..last {
        let batch: Vec<usize> = match &run.fit.order {
            Some(order) => order[step].clone(),
            None => {
                let number = step / epoch_steps;
                if epoch.as_ref().is_none_or(|(is, _)| *is != number) {
                    let all = batches::epoch(&train_lengths, recipe.batch, recipe.seed, number);
                    epoch = Some((number, all));
                }
                let Some((_, batches)) = &epoch else {
                    return Err(Error::Empty("no batches".into()));
                };
                let batch = &batches[step % epoch_steps];
                batch.iter().map(|&i| run.fit.data.train[i]).collect()
            }
        };
        tokens += batch.iter().map(|&i| lengths[i]).sum::<usize>();
        let rate = match step.checked_sub(head_steps) {
            Some(behind) => recipe.rate(behind, steps - head_steps),
            None => recipe.head_rate,
        };
        if step == head_steps {
            optimizer = recipe.optimizer();
        }
        let loss = run.step(batch, &lengths, step, &mut optimizer, rate)?;
        let done = step + 1;
        let elapsed = began.elapsed().as_secs_f64();
        report(Report::Step {
            step: done,
            steps,
            loss,
            rate,
            tokens_per_second: tokens as f64 / elapsed,
            seconds_left: elapsed / (done - first) as f64 * (steps - done) as f64,
        })?;
        if let Some(path) = run.fit.state
            && (saved.elapsed() > SAVE || done == last)
        {
            state::save(path, decoder, &optimizer, done, &[])?;
            saved = Instant::now();
        }
        let measured = done % run.fit.evaluate_every.max(1) == 0 || done == steps;
        if measured && !run.fit.data.held_out.is_empty() {
            report(Report::HeldOut(done, run.held_out(&lengths)?))?;
        }
    }
    Ok(last == steps)
}

/// The tokens that occur in the examples, where the softmax is restricted to them.
fn kept(fit: &Fit<'_>) -> Result<Option<(Tensor, HashMap<u32, u32>)>> {
    if !fit.recipe.restrict_vocabulary {
        return Ok(None);
    }
    let mut ids: Vec<u32> = fit
        .data
        .examples
        .iter()
        .flat_map(|e| e.ids.clone())
        .collect();
    ids.sort_unstable();
    ids.dedup();
    let places = ids
        .iter()
        .zip(0..)
        .map(|(&id, place)| (id, place))
        .collect();
    Ok(Some((Tensor::new(ids, &Device::Cpu)?, places)))
}

impl Run<'_, '_> {
    /// One update; returns the batch's mean loss.
    fn step(
        &mut self,
        batch: Vec<usize>,
        lengths: &[usize],
        step: usize,
        optimizer: &mut AdamW,
        rate: f64,
    ) -> Result<f64> {
        let examples = self.fit.data.examples;
        let weight: f64 = batch.iter().map(|&i| examples[i].weight()).sum();
        let mut gradients = Gradients::default();
        let mut total = 0.0;
        for part in batches::parts(batch, lengths, self.fit.recipe.micro_tokens) {
            let gradient = match step < self.head_steps {
                true => Gradient::Head,
                false => Gradient::All,
            };
            let loss = self.loss(&part, gradient)?;
            let loss = (loss.sum * (1.0 / weight.max(1e-9)))?;
            total += f64::from(loss.to_scalar::<f32>()?);
            gradients.add(self.decoder, &loss)?;
        }
        if !total.is_finite() {
            return Err(Error::Diverged {
                stage: "train".into(),
                step,
            });
        }
        gradients.step(self.decoder, optimizer, rate)?;
        Ok(total)
    }

    /// How well the held-out examples are predicted.
    fn held_out(&mut self, lengths: &[usize]) -> Result<HeldOut> {
        let examples = self.fit.data.examples;
        let all = self.fit.data.held_out.clone();
        let weight: f64 = all.iter().map(|&i| examples[i].weight()).sum();
        let mut sum = 0.0;
        let (mut log_odds, mut labels) = (Vec::new(), Vec::new());
        for part in batches::parts(all, lengths, self.fit.recipe.micro_tokens) {
            let loss = self.loss(&part, Gradient::None)?;
            sum += f64::from(loss.sum.to_scalar::<f32>()?);
            if let Some(of) = loss.log_odds {
                log_odds.extend(of.to_vec1::<f32>()?);
            }
            labels.extend(part.iter().flat_map(|&i| &examples[i].labels));
        }
        Ok(HeldOut {
            loss: sum / weight.max(1e-9),
            judged: Judged::of(&log_odds, &labels),
        })
    }

    /// The weighted losses of examples that are computed together.
    fn loss(&mut self, part: &[usize], gradient: Gradient) -> Result<Loss> {
        let examples = self.fit.data.examples;
        let lengths = part.iter().map(|&i| examples[i].ids.len());
        let time = lengths.max().unwrap_or(0);
        let (mut at, mut targets, mut weights) = (Vec::new(), Vec::new(), Vec::new());
        let (mut read_at, mut labels) = (Vec::new(), Vec::new());
        for (row, &i) in part.iter().enumerate() {
            let place = |position: u32| (row * time) as u32 + position;
            for &(position, target, weight) in &examples[i].next {
                at.push(place(position));
                targets.push(match &self.kept {
                    Some((_, places)) => places[&target],
                    None => target,
                });
                weights.push(weight);
            }
            read_at.extend(examples[i].labels.iter().map(|label| place(label.row)));
            labels.extend_from_slice(&examples[i].labels);
        }
        let predicted = at.len();
        at.extend(read_at);
        let hidden = self.hidden(part, time, &at)?;
        let mut sum = Tensor::zeros((), DType::F32, &Device::Cpu)?;
        if predicted > 0 {
            let hidden = hidden.narrow(0, 0, predicted)?;
            sum = (sum + self.next_token(&hidden, &targets, &weights, gradient)?)?;
        }
        let mut log_odds = None;
        if let (Some(head), false) = (self.fit.head, labels.is_empty()) {
            let mut hidden = hidden.narrow(0, predicted, labels.len())?;
            if gradient == Gradient::Head {
                hidden = hidden.detach();
            }
            let of = head.log_odds(self.decoder, &hidden)?;
            sum = (sum + head::cross_entropy(&of, &labels)?)?;
            log_odds = Some(of);
        }
        Ok(Loss { sum, log_odds })
    }

    /// Hidden states of the rows `at` of padded examples, `[at, hidden]`.
    fn hidden(&mut self, part: &[usize], time: usize, at: &[u32]) -> Result<Tensor> {
        let examples = self.fit.data.examples;
        let Some(features) = &mut self.fit.features else {
            let mut ids = vec![0; part.len() * time];
            for (row, &i) in ids.chunks_mut(time).zip(part) {
                row[..examples[i].ids.len()].copy_from_slice(&examples[i].ids);
            }
            return self.decoder.forward(Input::Tokens(&ids), time, at);
        };
        let width = self.decoder.config.hidden_size;
        let mut rows = vec![0f32; part.len() * time * width];
        for (row, &i) in rows.chunks_mut(time * width).zip(part) {
            features.read(i, row)?;
        }
        let rows = Tensor::from_vec(rows, (part.len() * time, width), &Device::Cpu)?;
        self.decoder.forward(Input::Hidden(&rows), time, at)
    }

    fn next_token(
        &self,
        hidden: &Tensor,
        targets: &[u32],
        weights: &[f32],
        gradient: Gradient,
    ) -> Result<Tensor> {
        let head = self.decoder.head()?;
        let trained = gradient == Gradient::All && self.decoder.trains_head();
        let head = match &self.kept {
            Some((ids, _)) => head.index_select(ids, 0)?,
            None => head.clone(),
        };
        Ok(ops::linear_cross_entropy(
            hidden, &head, targets, weights, trained,
        )?)
    }
}

/// What a loss is computed for.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Gradient {
    /// To be shown.
    None,
    /// An update of the reward head alone.
    Head,
    /// An update of all trained weights.
    All,
}

struct Loss {
    sum: Tensor,
    /// Of the labels.
    log_odds: Option<Tensor>,
}
