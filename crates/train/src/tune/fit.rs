//! The loop: gradients, updates, measurements, saved states; and the updates of given examples.

use std::collections::HashMap;
use std::path::Path;
use std::time::Instant;

use candle_core::{DType, Device, Tensor};

use super::batches::Rows;
use super::gradients::Gradients;
use super::head::{self, RewardHead};
use super::judged::Judged;
use super::{Decoder, Example, Features, Input, Recipe, batches, state};
use crate::optim::AdamW;
use crate::{Error, Result, ops};

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

/// When a run saves its state, but for its end.
#[derive(Clone, Copy, Debug)]
pub enum Save {
    /// After so many updates.
    Every(usize),
    /// Five minutes after the last time.
    Sometimes,
}

/// How long a run is, and what is kept of it.
#[derive(Debug)]
pub struct Plan<'a> {
    /// The run's name, for messages.
    pub stage: &'a str,
    /// Updates in all.
    pub steps: usize,
    /// Updates at the beginning that have an optimiser of their own.
    pub head_steps: usize,
    /// An optimiser that has made no step.
    pub optimizer: AdamW,
    /// The file of the state; without one nothing is kept.
    pub state: Option<&'a Path>,
    /// When the state is saved.
    pub save: Save,
    /// Leave after so many updates of this call, the state saved.
    pub stop_after: Option<usize>,
}

/// The updates of a run. One depends on nothing but its number.
pub trait Updates {
    /// The learning rate of an update, counted from 0.
    fn rate(&self, step: usize) -> f64;

    /// The gradients of an update, counted from 0.
    ///
    /// # Errors
    /// The error of a file or of candle.
    fn pass(&mut self, step: usize) -> Result<Pass>;

    /// A measurement after so many updates, where one is due.
    ///
    /// # Errors
    /// The error of a file or of candle.
    fn measure(&mut self, _done: usize) -> Result<Option<HeldOut>> {
        Ok(None)
    }
}

/// The gradients and figures of an update.
#[derive(Debug, Default)]
pub struct Pass {
    /// The gradients of the loss.
    pub gradients: Gradients,
    /// The mean loss.
    pub loss: f64,
    /// Tokens of its examples.
    pub tokens: usize,
}

/// The loop of all training on examples: trains `decoder` by `updates`. A run that finds a saved
/// state continues from it, and ends as if it had never been interrupted. Returns whether all
/// updates are done.
///
/// # Errors
/// [`Error::Diverged`], or what a file or candle says.
pub fn train(
    decoder: &Decoder,
    plan: &Plan<'_>,
    updates: &mut dyn Updates,
    report: &mut dyn FnMut(Report) -> Result<()>,
) -> Result<bool> {
    let (steps, head_steps) = (plan.steps, plan.head_steps);
    let mut optimizer = plan.optimizer.clone();
    let mut first = 0;
    if let Some(path) = plan.state.filter(|path| path.exists()) {
        let saved = state::load(path, &decoder.device)?;
        first = state::step(path, &saved)?;
        decoder.restore(&saved)?;
        // The head's own updates have an optimiser of their own, as if they were another run.
        if first != head_steps {
            let after = first.checked_sub(head_steps);
            optimizer.restore(&saved, after.unwrap_or(first));
        }
    }
    let last = plan.stop_after.map_or(steps, |n| steps.min(first + n));
    let (began, mut saved) = (Instant::now(), Instant::now());
    let mut tokens = 0;
    if first == 0
        && let Some(held_out) = updates.measure(0)?
    {
        report(Report::HeldOut(0, held_out))?;
    }
    for step in first..last {
        if step == head_steps {
            optimizer = plan.optimizer.clone();
        }
        let rate = updates.rate(step);
        let pass = updates.pass(step)?;
        if !pass.loss.is_finite() {
            let stage = plan.stage.to_owned();
            return Err(Error::Diverged { stage, step });
        }
        pass.gradients.step(decoder, &mut optimizer, rate)?;
        tokens += pass.tokens;
        let done = step + 1;
        let elapsed = began.elapsed().as_secs_f64();
        report(Report::Step {
            step: done,
            steps,
            loss: pass.loss,
            rate,
            tokens_per_second: tokens as f64 / elapsed,
            seconds_left: elapsed / (done - first) as f64 * (steps - done) as f64,
        })?;
        let is_due = match plan.save {
            Save::Every(count) => done.is_multiple_of(count),
            Save::Sometimes => saved.elapsed() > state::SAVE,
        };
        if let Some(path) = plan.state
            && (is_due || done == last)
        {
            state::save(path, decoder, &optimizer, done, &[])?;
            saved = Instant::now();
        }
        if let Some(held_out) = updates.measure(done)? {
            report(Report::HeldOut(done, held_out))?;
        }
    }
    Ok(last == steps)
}

struct Run<'a, 'd> {
    fit: &'a mut Fit<'d>,
    decoder: &'a Decoder,
    lengths: Vec<usize>,
    steps: usize,
    /// Updates of the head alone.
    head_steps: usize,
    /// The number of the epoch whose batches are at hand, and these.
    epoch: Option<(usize, Vec<Vec<usize>>)>,
    /// The tokens of the softmax, and where each stands among them.
    kept: Option<(Tensor, HashMap<u32, u32>)>,
}

/// Trains `decoder` on examples. A run that finds a saved state continues from it, and ends as if
/// it had never been interrupted. Returns whether all updates are done.
///
/// # Errors
/// [`Error::Diverged`], or what a file or candle says.
pub fn fit(
    decoder: &Decoder,
    mut fit: Fit<'_>,
    report: &mut dyn FnMut(Report) -> Result<()>,
) -> Result<bool> {
    let recipe = fit.recipe;
    let steps = match &fit.order {
        Some(order) => order.len(),
        None => fit.data.train.len().div_ceil(recipe.batch) * recipe.epochs,
    };
    let head_steps = match fit.head {
        Some(_) => (recipe.head_warmup * steps as f64).ceil() as usize,
        None => 0,
    };
    let plan = Plan {
        stage: "train",
        steps,
        head_steps,
        optimizer: recipe.optimizer(),
        state: fit.state,
        save: Save::Sometimes,
        stop_after: fit.stop_after,
    };
    let mut run = Run {
        decoder,
        lengths: fit.data.examples.iter().map(|e| e.ids.len()).collect(),
        steps,
        head_steps,
        epoch: None,
        kept: kept(&fit)?,
        fit: &mut fit,
    };
    train(decoder, &plan, &mut run, report)
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

impl Updates for Run<'_, '_> {
    fn rate(&self, step: usize) -> f64 {
        let recipe = self.fit.recipe;
        match step.checked_sub(self.head_steps) {
            Some(after) => recipe.rate(after, self.steps - self.head_steps),
            None => recipe.head_rate,
        }
    }

    fn pass(&mut self, step: usize) -> Result<Pass> {
        let examples = self.fit.data.examples;
        let batch = self.batch(step);
        let weight: f64 = batch.iter().map(|&i| examples[i].weight()).sum();
        let mut pass = Pass {
            tokens: batch.iter().map(|&i| self.lengths[i]).sum(),
            ..Pass::default()
        };
        for part in batches::parts(batch, &self.lengths, self.fit.recipe.micro_tokens) {
            let gradient = if step < self.head_steps {
                Gradient::Head
            } else {
                Gradient::All
            };
            let loss = self.loss(&part, gradient)?;
            let loss = (loss.sum * (1.0 / weight.max(1e-9)))?;
            pass.loss += f64::from(loss.to_scalar::<f32>()?);
            pass.gradients.add(self.decoder, &loss)?;
        }
        Ok(pass)
    }

    fn measure(&mut self, done: usize) -> Result<Option<HeldOut>> {
        let every = self.fit.evaluate_every.max(1);
        let is_due = done.is_multiple_of(every) || done == self.steps;
        if !is_due || self.fit.data.held_out.is_empty() {
            return Ok(None);
        }
        let examples = self.fit.data.examples;
        let all = self.fit.data.held_out.clone();
        let weight: f64 = all.iter().map(|&i| examples[i].weight()).sum();
        let mut sum = 0.0;
        let (mut log_odds, mut labels) = (Vec::new(), Vec::new());
        for part in batches::parts(all, &self.lengths, self.fit.recipe.micro_tokens) {
            let loss = self.loss(&part, Gradient::None)?;
            sum += f64::from(loss.sum.to_scalar::<f32>()?);
            if let Some(of) = loss.log_odds {
                log_odds.extend(of.to_vec1::<f32>()?);
            }
            labels.extend(part.iter().flat_map(|&i| &examples[i].labels));
        }
        Ok(Some(HeldOut {
            loss: sum / weight.max(1e-9),
            judged: Judged::of(&log_odds, &labels),
        }))
    }
}

impl Run<'_, '_> {
    /// The examples of an update.
    fn batch(&mut self, step: usize) -> Vec<usize> {
        let (recipe, data) = (self.fit.recipe, &self.fit.data);
        if let Some(order) = &self.fit.order {
            return order[step].clone();
        }
        let epoch_steps = data.train.len().div_ceil(recipe.batch);
        let number = step / epoch_steps;
        let batches = match self.epoch.take() {
            Some((is, batches)) if is == number => batches,
            _ => {
                let lengths: Vec<usize> = data.train.iter().map(|&i| self.lengths[i]).collect();
                batches::epoch(&lengths, recipe.batch, recipe.seed, number)
            }
        };
        let batch = batches[step % epoch_steps].iter();
        let batch = batch.map(|&i| data.train[i]).collect();
        self.epoch = Some((number, batches));
        batch
    }

    /// The weighted losses of examples that are computed together.
    fn loss(&mut self, part: &[usize], gradient: Gradient) -> Result<Loss> {
        let examples = self.fit.data.examples;
        let mut rows = Rows::of(part.iter().map(|&i| &examples[i]));
        if let Some((_, places)) = &self.kept {
            for target in &mut rows.targets {
                *target = places[target];
            }
        }
        let predicted = rows.at.len();
        let at: Vec<u32> = rows.at.iter().copied().chain(rows.labelled()).collect();
        let hidden = self.hidden(part, &rows, &at)?;
        let mut sum = Tensor::zeros((), DType::F32, &Device::Cpu)?;
        if predicted > 0 {
            let hidden = hidden.narrow(0, 0, predicted)?;
            sum = (sum + self.next_token(&hidden, &rows.targets, &rows.weights, gradient)?)?;
        }
        let mut log_odds = None;
        if let (Some(head), false) = (self.fit.head, rows.labels.is_empty()) {
            let mut hidden = hidden.narrow(0, predicted, rows.labels.len())?;
            if gradient == Gradient::Head {
                hidden = hidden.detach();
            }
            let of = head.log_odds(self.decoder, &hidden)?;
            sum = (sum + head::cross_entropy(&of, &rows.labels)?)?;
            log_odds = Some(of);
        }
        Ok(Loss { sum, log_odds })
    }

    /// Hidden states of the rows `at`, `[at, hidden]`.
    fn hidden(&mut self, part: &[usize], rows: &Rows, at: &[u32]) -> Result<Tensor> {
        let time = rows.time;
        let Some(features) = &mut self.fit.features else {
            let input = Input::Tokens(&rows.ids);
            return self.decoder.forward(input, time, Some(at));
        };
        let width = self.decoder.config.hidden_size;
        let mut values = vec![0f32; part.len() * time * width];
        for (row, &i) in values.chunks_mut(time * width).zip(part) {
            features.read(i, row)?;
        }
        let values = Tensor::from_vec(values, (part.len() * time, width), &Device::Cpu)?;
        let input = Input::Hidden(&values);
        self.decoder.forward(input, time, Some(at))
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
