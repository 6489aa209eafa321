//! A run of reinforcement learning, from a checkpoint and problems to a folder with the trained checkpoint.

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use beamgen_engine::{Checkpoint, Engine, ModelConfig, Tokenizer, Weights};
use beamgen_search::Problem;
use candle_core::DType;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::batch::{Batch, Stream};
use super::learner::Learner;
use super::lesson::Lesson;
use super::log::Log;
use super::policy::Policy;
use super::report::{Event, Update};
use super::rollout::RewardSources;
use super::state::{Files, State};
use super::tally::tally;
use super::watch::Found;
use super::{Recipe, held_out, reference};
use crate::tune::state::SAVE;
use crate::tune::{Decoder, export, work};
use crate::write::create_folder;
use crate::{Error, Result};

/// The inputs of a run, and how far to go.
#[derive(Clone, Debug)]
pub struct Job {
    /// The checkpoint to start from.
    pub from: Checkpoint,
    /// The problems to train on; each needs an answer, unless a verifier judges it.
    pub problems: Vec<Problem>,
    /// The problems to measure the accuracy on, which need the same.
    pub held_out: Vec<Problem>,
    /// The output folder of the trained checkpoint. Its subfolder `work` holds the state and the log.
    pub out: PathBuf,
    /// The hyperparameters. A resumed run must have the same.
    pub recipe: Recipe,
    /// True for a checkpoint in float32, false for bfloat16.
    pub float32: bool,
    /// True to resume the run in `out`, which then must have equal settings. If false, an existing run is an error.
    pub resume: bool,
    /// The number of updates of this call, after which the state is saved; `None` means all remaining.
    pub stop_after: Option<usize>,
    /// The update, counted from the start of the run, after which the call pauses; `None` means the last.
    pub pause_at: Option<usize>,
}

/// The reason why a call of [`run`] returned.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Ended {
    /// All updates are done. The written checkpoint is the policy with the best measurement, which was made after
    /// this update.
    Done(usize),
    /// The held-out accuracy fell while the reward rose. The written checkpoint is the policy with the best
    /// measurement, which was made after this update.
    Fallen(usize),
    /// `stop_after` updates are done. Only the state is written, no checkpoint.
    Paused,
}

/// All inputs that decide a run's output. A folder can only be resumed with an equal identity.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
struct Identity {
    kind: String,
    from: PathBuf,
    recipe: Recipe,
    problems: String,
}

impl Identity {
    fn of(job: &Job, weights: &Weights) -> Self {
        let mut digest = Sha256::new();
        for problem in job.problems.iter().chain(&job.held_out) {
            for text in [
                problem.id.as_str(),
                &problem.with_context(),
                problem.answer.as_deref().unwrap_or_default(),
            ] {
                digest.update((text.len() as u64).to_le_bytes());
                digest.update(text);
            }
        }
        digest.update((job.held_out.len() as u64).to_le_bytes());
        Self {
            kind: "rl".into(),
            from: job.from.path().to_owned(),
            recipe: job.recipe.clone(),
            problems: work::with_names(digest, weights),
        }
    }
}

/// Trains a generator by the rewards of its own chains.
///
/// # Errors
/// The checkpoint, the problems or the recipe are unusable, `out` holds another run, or training fails.
pub fn run(
    job: &Job,
    mut rewards: RewardSources<'_>,
    report: &mut dyn FnMut(Event),
) -> Result<Ended> {
    let recipe = &job.recipe;
    recipe.check()?;
    if recipe.reward.scores() != rewards.scorer.is_some() {
        return Err(Error::Config(match rewards.scorer {
            Some(_) => "a reward of outcomes ignores a reward model: leave the model out".into(),
            None => "this reward needs scores of steps: give a reward model".into(),
        }));
    }
    let opened = Opened::new(job)?;
    let (decoder, weights) = (&opened.decoder, &opened.weights);
    let tokenizer = Arc::clone(&opened.tokenizer);
    let mut policy = Policy::new(decoder, weights, tokenizer, recipe.writing())?;
    let held_out = fitting(
        &mut policy,
        &job.held_out,
        "held-out problems",
        &rewards,
        report,
    )?;
    // A problem in both sets would be memorised, and the accuracy would measure memory.
    let problems = apart(&job.problems, &held_out, report);
    let problems = fitting(&mut policy, &problems, "problems", &rewards, report)?;

    let folder = job.out.join("work");
    create_folder(&folder)?;
    let identity = Identity::of(job, weights);
    work::claim(
        &folder.join("run.json"),
        &identity,
        job.resume,
        Identity::eq,
    )?;
    report(Event::Note(format!(
        "{} problems, {} held out; {} weights are trained",
        problems.len(),
        held_out.len(),
        decoder.parameters()
    )));

    // The reference is the checkpoint's policy, so the engine is made before `restore` changes the weights.
    let reference = policy.engine()?;
    let mut learner = opened.learner(job)?;
    let files = Files::in_folder(&folder);
    let state = files.restore(decoder, &mut learner.optimizer)?;
    // The engine still has the weights of the checkpoint.
    if state.is_some() {
        policy.follow(decoder)?;
    }
    let log = Log::open(&folder, state.as_ref().map(|state| state.updates))?;
    let state = state.unwrap_or_default();
    let mut run = Run {
        recipe,
        decoder,
        learner,
        policy,
        reference,
        rewards: rewards.again(),
        problems,
        held_out,
        files,
        state,
        log,
        report,
    };
    let ended = run.updates(job)?;
    if ended == Ended::Paused {
        return Ok(ended);
    }
    run.files.take_best(decoder)?;
    let dtype = if job.float32 { DType::F32 } else { DType::BF16 };
    let kind = export::Kind::generator(dtype);
    export::save(decoder, &job.from, weights, &kind, &job.out)?;
    Ok(ended)
}

/// Writes the policy after the last saved update as a checkpoint into `out`.
///
/// # Errors
/// The job has no saved state, or a file cannot be read or written.
pub fn write_policy(job: &Job, out: &Path) -> Result<()> {
    let opened = Opened::new(job)?;
    let mut learner = opened.learner(job)?;
    let files = Files::in_folder(&job.out.join("work"));
    let state = files.restore(&opened.decoder, &mut learner.optimizer)?;
    if state.is_none() {
        let what = format!("{}: has no saved state", job.out.display());
        return Err(Error::Config(what));
    }
    let kind = export::Kind::generator(DType::F32);
    export::save(&opened.decoder, &job.from, &opened.weights, &kind, out)
}

/// The checkpoint that a job starts from.
struct Opened {
    config: ModelConfig,
    weights: Weights,
    tokenizer: Arc<Tokenizer>,
    decoder: Decoder,
}

impl Opened {
    fn new(job: &Job) -> Result<Self> {
        let (config, weights) = ModelConfig::load_with_weights(job.from.clone())?;
        let tokenizer = Arc::new(Tokenizer::load(job.from.clone())?);
        tokenizer.check(&config)?;
        let training = &job.recipe.training;
        let context = config.max_position_embeddings;
        let mut decoder = Decoder::load(config.clone(), &weights, training.train, true, context)?;
        if let Some(lora) = training.train.lora {
            decoder.adapt(lora, training.seed)?;
        }
        Ok(Self {
            config,
            weights,
            tokenizer,
            decoder,
        })
    }

    fn learner(&self, job: &Job) -> Result<Learner<'_>> {
        let (_, for_frozen) = ModelConfig::load_with_weights(job.from.clone())?;
        // The head may have more rows than the tokenizer has tokens. The extra rows cannot be sampled.
        let vocab = self.tokenizer.len().min(self.config.vocab_size);
        let training = &job.recipe.training;
        Learner::new(&self.decoder, &self.config, for_frozen, vocab, training)
    }
}

/// Returns the problems whose text is not among the held-out ones, and reports the number left out.
fn apart(
    problems: &[Problem],
    held_out: &[Problem],
    report: &mut dyn FnMut(Event),
) -> Vec<Problem> {
    let measured: HashSet<&str> = held_out.iter().map(|p| p.text.trim()).collect();
    let free: Vec<Problem> = problems
        .iter()
        .filter(|problem| !measured.contains(problem.text.trim()))
        .cloned()
        .collect();
    let both = problems.len() - free.len();
    if both > 0 {
        report(Event::Note(format!(
            "{both} problems are in both sets: they are only measured"
        )));
    }
    free
}

/// Returns the problems whose prompts fit into the model's context, and checks that each of these has an answer.
fn fitting(
    policy: &mut Policy,
    problems: &[Problem],
    what: &str,
    rewards: &RewardSources<'_>,
    report: &mut dyn FnMut(Event),
) -> Result<Vec<Problem>> {
    let verifier = rewards.verifier.as_deref();
    let is_verified =
        |problem: &Problem| verifier.is_some_and(|verifier| verifier.name_for(problem).is_some());
    let kept: Vec<Problem> = problems
        .iter()
        .filter(|problem| policy.generator().prompt(*problem).is_ok())
        .cloned()
        .collect();
    let left_out = problems.len() - kept.len();
    if left_out > 0 {
        report(Event::Note(format!(
            "{left_out} {what} do not fit the model's context and are left out"
        )));
    }
    if kept.is_empty() {
        return Err(Error::Config(format!(
            "no {what} left: give more problems, or shorter ones"
        )));
    }
    let mut open = kept.iter().filter(|problem| problem.answer.is_none());
    if let Some(open) = open.find(|problem| !is_verified(problem)) {
        return Err(Error::Config(format!(
            "problem {} has no answer to compare with: give answers for all problems, or a verifier",
            open.id
        )));
    }
    Ok(kept)
}

struct Run<'a> {
    recipe: &'a Recipe,
    decoder: &'a Decoder,
    learner: Learner<'a>,
    policy: Policy,
    /// The engine with the starting policy, from which the divergence is measured.
    reference: Engine,
    rewards: RewardSources<'a>,
    problems: Vec<Problem>,
    held_out: Vec<Problem>,
    files: Files,
    state: State,
    log: Log,
    report: &'a mut dyn FnMut(Event),
}

impl Run<'_> {
    fn updates(&mut self, job: &Job) -> Result<Ended> {
        let first = self.state.updates;
        let total = self.recipe.updates;
        let last = job.stop_after.map_or(total, |n| total.min(first + n));
        let last = job.pause_at.map_or(last, |update| last.min(update));
        let mut saved = Instant::now();
        // The policy before training is measured too, since no update may improve it.
        if first == 0 {
            self.measure()?;
        }
        while self.state.updates < last && !self.state.stopped {
            self.update()?;
            let done = self.state.updates;
            let measured = done.is_multiple_of(self.recipe.evaluate_every) || done == total;
            if measured {
                self.measure()?;
            }
            // A measurement changes the best policy and the memory of early stopping, so the state is saved right
            // after it.
            if saved.elapsed() > SAVE || measured || done == last {
                let optimizer = &self.learner.optimizer;
                self.files.save(self.decoder, optimizer, &self.state)?;
                saved = Instant::now();
            }
        }
        let best = self.state.watch.best_update;
        Ok(match (self.state.stopped, last == total) {
            (true, _) => Ended::Fallen(best),
            (false, true) => Ended::Done(best),
            (false, false) => Ended::Paused,
        })
    }

    fn measure(&mut self) -> Result<()> {
        let plan = self.recipe.plan(self.recipe.samples);
        let update = self.state.updates;
        let rewards = self.rewards.again();
        let policy = &mut self.policy;
        let mut found = held_out::measure(policy, rewards, &self.held_out, &plan, update)?;
        let watch = &mut self.state.watch;
        let verdict = watch.measured(found.sampled, found.problems, update);
        found.is_best = verdict == Found::Best;
        found.fallen = watch.fallen;
        self.state.stopped = self.recipe.patience > 0 && watch.fallen >= self.recipe.patience;
        if found.is_best {
            self.files.keep(self.decoder)?;
        }
        self.log.line("held-out", &found)?;
        (self.report)(Event::HeldOut(found));
        Ok(())
    }

    fn update(&mut self) -> Result<()> {
        let seed = self.recipe.training.seed;
        let mut stream = Stream {
            problems: &self.problems,
            seed,
            taken: &mut self.state.taken,
        };
        let rewards = self.rewards.again();
        let batch = Batch::sample(self.recipe, &mut self.policy, rewards, &mut stream)?;
        let number = self.state.updates + 1;
        let (references, reference_seconds) = timed(|| self.references(&batch))?;
        let (lesson, training_seconds) = timed(|| {
            let before = &references.log_probs;
            Lesson::learn(&mut self.learner, self.recipe, &batch, before, number)
        })?;
        let ((), follow_seconds) = timed(|| self.policy.follow(self.decoder))?;
        self.state.updates = number;
        let update = Update {
            update: number,
            kl_reference: references.kl / references.tokens.max(1.0),
            rate: self.recipe.rate(number),
            optimizer_steps: self.learner.optimizer.steps(),
            reference_seconds,
            training_seconds,
            follow_seconds,
            ..tally(self.recipe, &batch, &lesson)
        };
        self.state.watch.reward(update.reward);
        self.log.line("update", &update)?;
        (self.report)(Event::Update(Box::new(update)));
        Ok(())
    }

    /// Returns the starting policy's log-probabilities of all chains to train on.
    fn references(&mut self, batch: &Batch) -> Result<References> {
        let mut references = References::default();
        for (group, _) in &batch.groups {
            let found = reference::log_probs(&mut self.reference, group)?;
            for (chain, found) in group.chains.iter().zip(&found) {
                let sampled: f64 = chain.steps.iter().map(|step| step.log_prob).sum();
                let then: f64 = found.iter().map(|&x| f64::from(x)).sum();
                references.kl += sampled - then;
                references.tokens += chain.tokens.len() as f64;
            }
            references.log_probs.extend(found);
        }
        Ok(references)
    }
}

/// The starting policy's log-probabilities of the chains of an update.
#[derive(Default)]
struct References {
    /// The log-probability of each token, for each chain in the order of groups.
    log_probs: Vec<Vec<f32>>,
    /// The sum of `log pi - log pi_ref` over all tokens, in nats.
    kl: f64,
    tokens: f64,
}

fn timed<T>(work: impl FnOnce() -> Result<T>) -> Result<(T, f64)> {
    let began = Instant::now();
    let done = work()?;
    Ok((done, began.elapsed().as_secs_f64()))
}
