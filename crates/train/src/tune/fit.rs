//! The training loop, with measurements and saved states, and its updates for a list of examples.

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

/// Examples and their split into a training set and a held-out set.
#[derive(Clone, Debug)]
pub struct Data<'a> {
    /// All examples; `train` and `held_out` are indices into this list.
    pub examples: &'a [Example],
    /// The examples to train on.
    pub train: Vec<usize>,
    /// The examples that are only measured.
    pub held_out: Vec<usize>,
}

/// The inputs of [`fit`] apart from the decoder.
#[derive(Debug)]
pub struct Fit<'a> {
    /// The hyperparameters, which decide order and rates of the updates.
    pub recipe: &'a Recipe,
    /// The reward head that predicts the examples' labels; `None` for a generator.
    pub head: Option<&'a RewardHead>,
    /// The examples, with the split into training and held-out ones.
    pub data: Data<'a>,
    /// The cached outputs of the frozen layers; `None` if all layers are trained.
    pub features: Option<Features>,
    /// The file of the saved state; with `None` the run cannot be resumed.
    pub state: Option<&'a Path>,
    /// The batches of all updates, in order; `None` shuffles the training set as the recipe says.
    pub order: Option<Vec<Vec<usize>>>,
    /// The number of updates after which this call saves the state and returns; `None` for all.
    pub stop_after: Option<usize>,
    /// The number of updates between two measurements of the held-out examples.
    pub evaluate_every: usize,
}

/// Progress of a run, reported to the caller as it happens.
#[derive(Clone, Debug)]
pub enum Report {
    /// A message for the user, in one line.
    Note(String),
    /// Progress of the frozen layers: tokens done, tokens in total.
    Features(usize, usize),
    /// An update is done, with its loss and the speed so far.
    Step {
        /// The number of updates done, earlier calls included.
        step: usize,
        /// The number of updates of the whole run.
        steps: usize,
        /// The mean loss of the update's examples, before the update.
        loss: f64,
        /// The learning rate of the update.
        rate: f64,
        /// The mean speed of this call so far.
        tokens_per_second: f64,
        /// An estimate of the remaining time.
        seconds_left: f64,
    },
    /// The held-out examples were measured, after the given number of updates.
    HeldOut(usize, HeldOut),
}

/// Losses and figures of the held-out examples.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct HeldOut {
    /// The mean loss, weighted like the training loss.
    pub loss: f64,
    /// Figures of a reward model's judgements; `None` for a generator.
    pub judged: Option<Judged>,
}

/// The times at which a run saves its state. A run also saves at its end.
#[derive(Clone, Copy, Debug)]
pub enum Save {
    /// Saves after every N updates, counted from the start of the run.
    Every(usize),
    /// Saves when five minutes have passed since the last save.
    Sometimes,
}

/// The length of a run, its optimiser and its saved state.
#[derive(Debug)]
pub struct Plan<'a> {
    /// The run's name, for messages.
    pub stage: &'a str,
    /// The number of updates of the whole run.
    pub steps: usize,
    /// The number of first updates that train only a fresh head, with an optimiser of their own.
    pub head_steps: usize,
    /// A fresh optimiser; a resumed run restores its moments.
    pub optimizer: AdamW,
    /// The file of the saved state; with `None` the run cannot be resumed.
    pub state: Option<&'a Path>,
    /// The times at which the state is saved.
    pub save: Save,
    /// The number of updates after which this call saves the state and returns; `None` for all.
    pub stop_after: Option<usize>,
}

/// The source of a run's gradients. An update must depend only on its number and the current
/// weights, so that a resumed run equals an uninterrupted one.
pub trait Updates {
    /// Returns the learning rate of an update, counted from 0.
    fn rate(&self, step: usize) -> f64;

    /// Computes the gradients of an update, counted from 0.
    ///
    /// # Errors
    /// A file cannot be read, or a tensor operation fails.
    fn pass(&mut self, step: usize) -> Result<Pass>;

    /// Measures the held-out examples after `done` updates; `None` if no measurement is due.
    ///
    /// # Errors
    /// A file cannot be read, or a tensor operation fails.
    fn measure(&mut self, _done: usize) -> Result<Option<HeldOut>> {
        Ok(None)
    }
}

/// The gradients of an update, with its loss and its size.
#[derive(Debug, Default)]
pub struct Pass {
    /// The gradients of the mean loss.
    pub gradients: Gradients,
    /// The mean loss of the update's examples.
    pub loss: f64,
    /// The number of tokens of the update's examples, without padding.
    pub tokens: usize,
}

/// Trains `decoder` by `updates`: the loop of all training on examples. A run that finds a saved
/// state continues from that state, and its result equals an uninterrupted run's. Returns whether
/// all updates are done.
///
/// # Errors
/// [`Error::Diverged`] if the loss is not finite. A file cannot be read or written.
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
        // The optimiser starts afresh after the head's own updates, so its steps are counted from
        // there; at the border itself the saved moments are of no use.
        if first != head_steps {
            let after = first.checked_sub(head_steps);
            optimizer.restore(&saved, after.unwrap_or(first));
        }
    }
    let last = plan.stop_after.map_or(steps, |n| steps.min(first + n));
    let (began, mut saved) = (Instant::now(), Instant::now());
    let mut tokens = 0;
    // A resumed run has reported this measurement already.
    if first == 0
        && let Some(held_out) = updates.measure(0)?
    {
        report(Report::HeldOut(0, held_out))?;
    }
    for step in first..last {
        if step == head_steps {
            // The head's moments, from larger learning rates, would distort the first updates of
            // the body.
            optimizer = plan.optimizer.clone();
        }
        let rate = updates.rate(step);
        let pass = updates.pass(step)?;
        if !pass.loss.is_finite() {
            let stage = plan.stage.to_owned();
            // Nothing is saved: the last saved state is still sound.
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
    /// The number of first updates that train only the head.
    head_steps: usize,
    /// The number of the current epoch and its batches.
    epoch: Option<(usize, Vec<Vec<usize>>)>,
    /// The token ids of a restricted softmax, and the index of each token among them.
    kept: Option<(Tensor, HashMap<u32, u32>)>,
}

/// Trains `decoder` on examples by [`train`]. Returns whether all updates are done.
///
/// # Errors
/// [`Error::Diverged`] if the loss is not finite. A file cannot be read or written.
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

/// Returns the tokens that occur in the examples, if the recipe restricts the softmax to them.
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
    // Sorted, so the same examples always give the same order of rows in the head.
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
        // The mean is over the weights of the whole batch, whatever its split into parts.
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
            // Divided by the weight of the whole batch, so the split into parts does not change the
            // mean.
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
            if let Some(values) = loss.log_odds {
                log_odds.extend(values.to_vec1::<f32>()?);
            }
            // `parts` sorts the examples, so labels are collected in the order of the parts.
            labels.extend(part.iter().flat_map(|&i| &examples[i].labels));
        }
        Ok(Some(HeldOut {
            loss: sum / weight.max(1e-9),
            judged: Judged::of(&log_odds, &labels),
        }))
    }
}

impl Run<'_, '_> {
    /// Returns the examples of an update.
    fn batch(&mut self, step: usize) -> Vec<usize> {
        let (recipe, data) = (self.fit.recipe, &self.fit.data);
        if let Some(order) = &self.fit.order {
            return order[step].clone();
        }
        let epoch_steps = data.train.len().div_ceil(recipe.batch);
        let number = step / epoch_steps;
        // A resumed run may begin in the middle of an epoch, hence computed from the number.
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

    /// Computes the summed, weighted loss of a micro-batch.
    fn loss(&mut self, part: &[usize], gradient: Gradient) -> Result<Loss> {
        let examples = self.fit.data.examples;
        let mut rows = Rows::of(part.iter().map(|&i| &examples[i]));
        if let Some((_, places)) = &self.kept {
            for target in &mut rows.targets {
                *target = places[target];
            }
        }
        // One forward pass for both kinds of targets: first the rows that predict a token, then the
        // rows from which scores are read.
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
                // The body gets no gradients, so its backward pass is skipped.
                hidden = hidden.detach();
            }
            let values = head.log_odds(self.decoder, &hidden)?;
            sum = (sum + head::cross_entropy(&values, &rows.labels)?)?;
            log_odds = Some(values);
        }
        Ok(Loss { sum, log_odds })
    }

    /// Returns the hidden states at the rows `at`, `[at, hidden]`.
    fn hidden(&mut self, part: &[usize], rows: &Rows, at: &[u32]) -> Result<Tensor> {
        let time = rows.time;
        let Some(features) = &mut self.fit.features else {
            let input = Input::Tokens(&rows.ids);
            return self.decoder.forward(input, time, Some(at));
        };
        let width = self.decoder.config.hidden_size;
        let mut values = vec![0f32; part.len() * time * width];
        // Rows after the end of a short example stay zero; causal attention keeps them from real
        // rows.
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

/// The weights for which a loss needs gradients.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Gradient {
    /// None: the loss is only reported.
    None,
    /// Only the reward head: the hidden states are detached.
    Head,
    /// All trained weights, the head included.
    All,
}

struct Loss {
    sum: Tensor,
    /// The log-odds of the labels, in the order of the rows; `None` without labels.
    log_odds: Option<Tensor>,
}
