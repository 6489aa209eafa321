//! A whole run: from a checkpoint and a file to a folder.

use std::io::Write;
use std::path::PathBuf;
use std::sync::Arc;

use beamgen_engine::{ChatTemplate, Checkpoint, ModelConfig, Tokenizer, WeightType};
use beamgen_prm::{ChainWriter, HeadSpec, PrmSpec};
use candle_core::DType;
use serde_json::json;

use super::labelled::Labels;
use super::work::{self, Identity};
use super::{Data, Decoder, Features, Fit, Read, Recipe, Report, RewardHead, export, fit, sft};
use crate::write::create_folder;
use crate::{Error, Result};

/// What is trained from what.
#[derive(Clone, Debug)]
pub struct Job {
    /// What the checkpoint becomes.
    pub task: Task,
    /// The checkpoint to start from.
    pub from: Checkpoint,
    /// The examples.
    pub data: PathBuf,
    /// Where the trained checkpoint is written; the state of the run is in `work` below it.
    pub out: PathBuf,
    /// How.
    pub recipe: Recipe,
    /// The part of the problems that is only measured.
    pub held_out: f64,
    /// Read so many examples at most.
    pub limit: Option<usize>,
    /// Longer examples are left out.
    pub longest: usize,
    /// How the engine keeps the weights of frozen layers.
    pub frozen_type: WeightType,
    /// Write float32, not bfloat16.
    pub float32: bool,
    /// Go on with the run in `out`.
    pub resume: bool,
    /// Leave after so many updates.
    pub stop_after: Option<usize>,
    /// Updates between two measurements of the held-out examples; an eighth of the run by default.
    pub evaluate_every: Option<usize>,
}

/// What a checkpoint becomes.
#[derive(Clone, Debug)]
pub enum Task {
    /// A generator, from problems with solutions.
    Sft {
        /// The system's turn of the chat.
        system: Option<String>,
        /// A chat template in place of the checkpoint's; written with the model.
        chat_template: Option<String>,
    },
    /// A process or outcome reward model, from labelled chains.
    Reward {
        /// How it is read: its head, how chains are written, where scores are read.
        spec: Box<PrmSpec>,
        /// How chains become labels.
        labels: Labels,
        /// The part of all updates in which a fresh head is trained alone. A head that the
        /// checkpoint has needs no such warm-up.
        head_warmup: f64,
    },
}

impl Task {
    /// Its name in run files.
    fn name(&self) -> &'static str {
        match self {
            Self::Sft { .. } => "sft",
            Self::Reward { labels, .. } => labels.target.name(),
        }
    }
}

/// Trains a checkpoint on a file. Returns whether the run came to its end; a run that was told to
/// stop earlier has written its state only.
///
/// # Errors
/// What is wrong with the checkpoint, a line of the data, or the files of an earlier run.
pub fn run(job: &Job, report: &mut dyn FnMut(Report)) -> Result<bool> {
    let checkpoint = job.from.clone();
    let (config, weights) = ModelConfig::load_with_weights(checkpoint.clone())?;
    let tokenizer = Arc::new(Tokenizer::load(checkpoint.clone())?);
    tokenizer.check(&config)?;
    let longest = job.longest.min(config.max_position_embeddings);
    let mut read = read(job, &tokenizer, longest)?;
    if let Some(limit) = job.limit {
        read.examples.truncate(limit);
        read.problems.truncate(limit);
    }
    let examples = &read.examples;
    let (train, held_out) = work::split(&read.problems, job.held_out, job.recipe.seed);
    if train.is_empty() {
        return Err(Error::Config(format!(
            "{}: nothing is left to train on",
            job.data.display()
        )));
    }

    let has_lm_head = match &job.task {
        Task::Sft { .. } => true,
        Task::Reward { spec, .. } => matches!(spec.head, HeadSpec::Tokens(_)),
    };
    let trained = job.recipe.train;
    let mut decoder = Decoder::load(config.clone(), &weights, trained, has_lm_head, longest)?;
    if let Some(lora) = trained.lora {
        decoder.adapt(lora, job.recipe.seed)?;
    }
    let mut recipe = job.recipe.clone();
    let mut format = None;
    let head = match &job.task {
        Task::Sft { .. } => None,
        Task::Reward {
            spec, head_warmup, ..
        } => {
            format = Some(spec.to_toml()?);
            let head = RewardHead::new(&mut decoder, spec, &tokenizer, &weights, recipe.seed)?;
            recipe.head_warmup = if head.is_fresh() { *head_warmup } else { 0.0 };
            Some(head)
        }
    };
    let folder = job.out.join("work");
    create_folder(&folder)?;
    let identity = Identity {
        kind: job.task.name().into(),
        format: format.clone(),
        from: job.from.path().to_owned(),
        recipe: recipe.clone(),
        held_out: job.held_out,
        frozen_type: job.frozen_type,
        examples: work::fingerprint(examples, &weights),
    };
    work::claim(
        &folder.join("run.json"),
        &identity,
        job.resume,
        Identity::eq,
    )?;
    let mut note = |text: String| report(Report::Note(text));
    let too_long = format!("examples of more than {longest} tokens");
    for (count, what) in [
        (read.rejected, "records that are no labelled chains"),
        (read.unlabelled, "chains without a label"),
        (read.too_long, too_long.as_str()),
    ] {
        if count > 0 {
            note(format!("{count} {what} are left out"));
        }
    }
    let tokens = |of: &[usize]| of.iter().map(|&i| examples[i].ids.len()).sum::<usize>();
    note(format!(
        "{} examples, {} tokens; held out {}, {} tokens",
        train.len(),
        tokens(&train),
        held_out.len(),
        tokens(&held_out)
    ));
    note(format!("{} weights are trained", decoder.parameters()));

    let features = match recipe.train.top {
        None => None,
        Some(_) => Some(Features::open(
            &folder.join("features.bf16"),
            &config,
            ModelConfig::load_with_weights(checkpoint.clone())?.1,
            job.frozen_type,
            decoder.frozen(),
            examples,
            &mut |done, total| report(Report::Features(done, total)),
        )?),
    };
    let steps = train.len().div_ceil(recipe.batch) * recipe.epochs;
    let state = folder.join("state.safetensors");
    let mut log = work::log(&folder)?;
    let finished = fit(
        &decoder,
        Fit {
            recipe: &recipe,
            head: head.as_ref(),
            data: Data {
                examples,
                train,
                held_out,
            },
            features,
            state: Some(&state),
            order: None,
            stop_after: job.stop_after,
            evaluate_every: job.evaluate_every.unwrap_or(steps.div_ceil(8)),
        },
        &mut |event| {
            let line = match &event {
                Report::Step {
                    step, loss, rate, ..
                } => Some(json!({"step": step, "loss": loss, "rate": rate})),
                Report::HeldOut(step, held) => {
                    let mut line = json!({"step": step, "held_out_loss": held.loss});
                    if let Some(judged) = held.judged {
                        line["auc"] = judged.auc.into();
                        line["balanced_accuracy"] = judged.balanced_accuracy.into();
                        line["right"] = judged.right.into();
                        line["labels"] = judged.labels.into();
                    }
                    Some(line)
                }
                _ => None,
            };
            if let Some(line) = line {
                writeln!(log, "{line}").map_err(|error| Error::Io(folder.clone(), error))?;
            }
            report(event);
            Ok(())
        },
    )?;
    if finished {
        let dtype = if job.float32 { DType::F32 } else { DType::BF16 };
        let kind = match &job.task {
            Task::Sft { chat_template, .. } => export::Kind {
                chat_template: chat_template.as_deref(),
                ..export::Kind::generator(dtype)
            },
            Task::Reward { spec, .. } => export::Kind {
                format: format.as_deref().map(|text| ("prm.toml", text)),
                ..export::Kind::reward(spec, dtype)
            },
        };
        export::save(&decoder, &checkpoint, &weights, &kind, &job.out)?;
    }
    Ok(finished)
}

/// The examples of the job's file.
fn read(job: &Job, tokenizer: &Arc<Tokenizer>, longest: usize) -> Result<Read> {
    match &job.task {
        Task::Sft {
            system,
            chat_template,
        } => {
            let special = tokenizer.special_tokens();
            let template = match chat_template {
                Some(own) => ChatTemplate::new(
                    Some(own),
                    special.map(|(name, token)| (name.to_owned(), token.to_owned())),
                )?,
                None => ChatTemplate::of(tokenizer)?,
            };
            let format = sft::Format {
                tokenizer,
                template: &template,
                system: system.as_deref(),
                longest,
            };
            format.read(&job.data)
        }
        Task::Reward { spec, labels, .. } => {
            let writer = ChainWriter::new(spec, Arc::clone(tokenizer), job.from.path())?;
            labels.read(&job.data, &writer, longest)
        }
    }
}
