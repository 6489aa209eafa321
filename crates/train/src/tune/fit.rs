//! The training loop with measurements and saved states, and its use for a list of examples.

use std::collections::HashMap;
use std::path::Path;
use std::time::Instant;

use candle_core::{DType, Device, Tensor};

use super::batches::Rows;
use super::gradients::Gradients;
use super::head::{self, RewardHead};
use super::judged::Judged;
use super::ratio::{LogRatio, Texts};
use super::{Decoder, Example, Features, Input, Recipe, batches, state};
use crate::optim::AdamW;
use crate::{Error, Result, ops};

/// Examples, with the indices of the training set and of the held-out set.
#[derive(Clone, Debug)]
pub struct Data<'a> {
    /// All examples of the data file, in its order.
    pub examples: &'a [Example],
    /// The indices in `examples` to train on.
    pub train: Vec<usize>,
    /// The indices in `examples` to measure only.
    pub held_out: Vec<usize>,
}

/// The inputs of [`fit`]: all that a run depends on, except the decoder.
#[derive(Debug)]
pub struct Fit<'a> {
    /// The hyperparameters, which decide order, size and learning rate of the updates.
    pub recipe: &'a Recipe,
    /// The head that predicts the labels of a reward model; `None` for a generator.
    pub head: Option<&'a RewardHead>,
    /// The log-ratio that predicts the labels in place of a head; `None` for other models.
    pub ratio: Option<&'a LogRatio>,
    /// The examples, with the split that decides which of them are trained on.
    pub data: Data<'a>,
    /// The cached outputs of the frozen layers; `None` if no layer is frozen.
    pub features: Option<Features>,
    /// The file of the saved state; `None` saves nothing, and the run cannot be resumed.
    pub state: Option<&'a Path>,
    /// The batch of each update; `None` shuffles the training set in each epoch.
    pub order: Option<Vec<Vec<usize>>>,
    /// The number of updates of this call, after which the state is saved; `None` means all remaining.
    pub stop_after: Option<usize>,
    /// The number of updates between two measurements on the held-out examples.
    pub evaluate_every: usize,
}

/// Progress of [`train`], sent to its caller while it runs.
#[derive(Clone, Debug)]
pub enum Report {
    /// A message for the user, one line of text.
    Note(String),
    /// The frozen layers have processed this many tokens (first) of a total (second).
    Features(usize, usize),
    /// An update is done; its figures follow.
    Step {
        /// The number of finished updates, including those before a resume.
        step: usize,
        /// The number of updates of the whole run, including those before a resume.
        steps: usize,
        /// The mean loss of the update's batch, computed before its step.
        loss: f64,
        /// The learning rate of the update, after warm-up and decay.
        rate: f64,
        /// The mean speed since the start of this call, without padding.
        tokens_per_second: f64,
        /// The estimated time to the end of the whole run, in seconds.
        seconds_left: f64,
    },
    /// The held-out examples were measured after this number of updates.
    HeldOut(usize, HeldOut),
}

/// A measurement on the held-out examples, without an update of the weights.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct HeldOut {
    /// The mean loss over the weights of all targets, as in training.
    pub loss: f64,
    /// The quality of a reward model's judgements; `None` without hard labels.
    pub judged: Option<Judged>,
}

/// The times of saving during a run. The state is also saved at the end of each call.
#[derive(Clone, Copy, Debug)]
pub enum Save {
    /// Saves after updates whose number is a multiple of this.
    Every(usize),
    /// Saves if five minutes have passed since the last save.
    Sometimes,
}

/// The inputs of [`train`], except the decoder and the source of gradients.
#[derive(Debug)]
pub struct Plan<'a> {
    /// The run's name, for messages.
    pub stage: &'a str,
    /// The number of updates of the whole run, including those before a resume.
    pub steps: usize,
    /// The number of first updates that train only a new reward head. The optimiser starts again after them.
    pub head_steps: usize,
    /// The optimiser with its settings, whose moments are zero. A resumed run restores the moments from the state.
    pub optimizer: AdamW,
    /// The file of the saved state; `None` saves nothing, and the run cannot be resumed.
    pub state: Option<&'a Path>,
    /// The times at which the state is saved during the run.
    pub save: Save,
    /// The number of updates of this call, after which the state is saved; `None` means all remaining.
    pub stop_after: Option<usize>,
}

/// The source of learning rates and gradients. An update must depend only on its number and on the current weights,
/// otherwise a resumed run would differ from an uninterrupted one.
pub trait Updates {
    /// Returns the learning rate of update `step`, counted from 0.
    fn rate(&self, step: usize) -> f64;

    /// Computes loss and gradients of update `step`, counted from 0, with the current weights.
    ///
    /// # Errors
    /// The data of the update cannot be read, or a tensor operation fails.
    fn pass(&mut self, step: usize) -> Result<Pass>;

    /// Measures the held-out examples after `done` updates; returns `None` if no measurement is due then.
    ///
    /// # Errors
    /// The held-out data cannot be read, or a tensor operation fails.
    fn measure(&mut self, _done: usize) -> Result<Option<HeldOut>> {
        Ok(None)
    }
}

/// The result of a forward and backward pass over the batch of one update.
#[derive(Debug, Default)]
pub struct Pass {
    /// The gradients of the mean loss, for all trained tensors that it depends on.
    pub gradients: Gradients,
    /// The mean loss over the weights of the batch's targets.
    pub loss: f64,
    /// The number of tokens in the batch, without padding.
    pub tokens: usize,
}

/// Trains `decoder` with the gradients of `updates`. If the file of `plan.state` exists, the run resumes from it and
/// gives the result of an uninterrupted run. Returns whether all updates are done.
///
/// # Errors
/// [`Error::Diverged`] if the loss is not finite; or a file cannot be read or written.
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
        // The optimiser starts again after the updates of the head, and its steps are counted from there. Exactly at
        // that point the saved moments are unused.
        if first != head_steps {
            let after = first.checked_sub(head_steps);
            optimizer.restore(&saved, after.unwrap_or(first));
        }
    }
    let last = plan.stop_after.map_or(steps, |n| steps.min(first + n));
    let (began, mut saved) = (Instant::now(), Instant::now());
    let mut tokens = 0;
    // A resumed run reported this measurement before it was interrupted.
    if first == 0
        && let Some(held_out) = updates.measure(0)?
    {
        report(Report::HeldOut(0, held_out))?;
    }
    for step in first..last {
        if step == head_steps {
            // The moments of the head's updates come from a higher learning rate and would distort the next updates.
            optimizer = plan.optimizer.clone();
        }
        let rate = updates.rate(step);
        let pass = updates.pass(step)?;
        if !pass.loss.is_finite() {
            let stage = plan.stage.to_owned();
            // The last saved state has finite weights, so this one is not saved.
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
    /// The number of first updates, which train only the head.
    head_steps: usize,
    /// The number of the current epoch, with its batches.
    epoch: Option<(usize, Vec<Vec<usize>>)>,
    /// The token ids of the restricted softmax, and the index of each id among them. `None` if the softmax covers the
    /// whole vocabulary.
    kept: Option<(Tensor, HashMap<u32, u32>)>,
}

/// Trains `decoder` on the examples of `fit`. Returns whether all updates are done.
///
/// # Errors
/// [`Error::Diverged`] if the loss is not finite; or a file cannot be read or written.
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

/// Returns the tokens of the restricted softmax: all that occur in the examples. `None` without this restriction.
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
    // Sorting makes the order of the head's rows independent of the order of examples.
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
        // The mean is over the weights of the whole batch, so the split into micro-batches does not change it.
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
            if let Some(values) = loss.log_odds {
                log_odds.extend(values.to_vec1::<f32>()?);
            }
            // The log-odds come in the order of `part`, so the labels must too.
            labels.extend(part.iter().flat_map(|&i| &examples[i].labels));
        }
        Ok(Some(HeldOut {
            loss: sum / weight.max(1e-9),
            judged: Judged::of(&log_odds, &labels),
        }))
    }
}

impl Run<'_, '_> {
    fn batch(&mut self, step: usize) -> Vec<usize> {
        let (recipe, data) = (self.fit.recipe, &self.fit.data);
        if let Some(order) = &self.fit.order {
            return order[step].clone();
        }
        let epoch_steps = data.train.len().div_ceil(recipe.batch);
        let number = step / epoch_steps;
        // The epoch follows from the number of the update, because a resumed run may start in the middle of an epoch.
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

    /// Returns the sum of the weighted losses of a micro-batch.
    fn loss(&mut self, part: &[usize], gradient: Gradient) -> Result<Loss> {
        let examples = self.fit.data.examples;
        let mut rows = Rows::of(part.iter().map(|&i| &examples[i]));
        if let Some(ratio) = self.fit.ratio {
            let texts = Texts::of(&rows);
            let hidden = self.hidden(part, &rows, &texts.at)?;
            let model = (self.decoder, &hidden);
            let is_trained = gradient == Gradient::All;
            let (sum, values) = ratio.loss(part, &texts, model, &rows.labels, is_trained)?;
            let log_odds = Some(values);
            return Ok(Loss { sum, log_odds });
        }
        if let Some((_, places)) = &self.kept {
            for target in &mut rows.targets {
                *target = places[target];
            }
        }
        // One forward pass serves both kinds of targets: the first rows predict tokens, the remaining rows have
        // labels.
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
                // Detached hidden states stop the backward pass, so the decoder gets no gradients.
                hidden = hidden.detach();
            }
            let values = head.log_odds(self.decoder, &hidden)?;
            sum = (sum + head::cross_entropy(&values, &rows.labels)?)?;
            log_odds = Some(values);
        }
        Ok(Loss { sum, log_odds })
    }

    /// Returns the hidden states `[at, hidden]` of the rows `at`.
    fn hidden(&mut self, part: &[usize], rows: &Rows, at: &[u32]) -> Result<Tensor> {
        let time = rows.time;
        let Some(features) = &mut self.fit.features else {
            let input = Input::Tokens(&rows.ids);
            return self.decoder.forward(input, time, Some(at));
        };
        let width = self.decoder.config.hidden_size;
        let mut values = vec![0f32; part.len() * time * width];
        // The rows after a short example stay zero. Causal attention hides them from the example's rows.
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

/// The weights that need gradients of a loss.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Gradient {
    /// No weights, because the loss is only measured.
    None,
    /// The weights of the reward head, because the decoder is not trained yet.
    Head,
    All,
}

struct Loss {
    sum: Tensor,
    /// The log-odds of the labels, in the order of the labels; `None` without labels.
    log_odds: Option<Tensor>,
}
