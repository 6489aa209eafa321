//! A fine-tuning run, from a checkpoint and a data file to a folder with the trained checkpoint.

use std::io::Write;
use std::path::PathBuf;
use std::sync::Arc;

use beamgen_engine::{ChatTemplate, Checkpoint, ModelConfig, Tokenizer, WeightType, Weights};
use beamgen_prm::{ChainWriter, HeadSpec, Normaliser, PrmSpec};
use beamgen_records::DataSource;
use candle_core::DType;
use serde_json::json;

use super::labelled::Labels;
use super::ratio::Reference;
use super::work::{self, Identity};
use super::{
    Data, Decoder, Example, Features, Fit, LogRatio, Read, Recipe, Report, RewardHead, Trained,
    export, fit, sft,
};
use crate::write::create_folder;
use crate::{Error, Result};

/// The inputs of a fine-tuning run, and how far to go.
#[derive(Clone, Debug)]
pub struct Job {
    /// The kind of model to train, with its own settings.
    pub task: Task,
    /// The checkpoint to start from.
    pub from: Checkpoint,
    /// The file of examples: problems with solutions for `Sft`, labelled chains for `Reward`.
    pub data: DataSource,
    /// The output folder of the trained checkpoint. Its subfolder `work` holds the state and the log.
    pub out: PathBuf,
    /// The hyperparameters. A resumed run must have the same.
    pub recipe: Recipe,
    /// The fraction of problems to hold out for measurements, 0 to 1.
    pub held_out: f64,
    /// The number of examples to use, from the start of the file; `None` means all.
    pub limit: Option<usize>,
    /// The largest number of tokens of an example, at most the model's context; longer examples are left out.
    pub longest: usize,
    /// The type of the frozen layers' weights in the engine.
    pub frozen_type: WeightType,
    /// True for a checkpoint in float32, false for bfloat16.
    pub float32: bool,
    /// True to resume the run in `out`, which then must have equal settings. If false, an existing run is an error.
    pub resume: bool,
    /// The number of updates of this call, after which the state is saved; `None` means all remaining.
    pub stop_after: Option<usize>,
    /// The number of updates between two measurements on the held-out examples; `None` means an eighth of the run.
    pub evaluate_every: Option<usize>,
}

/// The kind of model to train, which decides the format of the data.
#[derive(Clone, Debug)]
pub enum Task {
    /// A generator, from problems with solutions.
    Sft {
        /// The system prompt of examples without one; `None` adds no system turn.
        system: Option<String>,
        /// A chat template for the examples and the written checkpoint, in place of the original one.
        chat_template: Option<String>,
    },
    /// A process or outcome reward model, from labelled chains.
    Reward {
        /// The format of the reward model: the head, the text of a chain, and where scores are read.
        spec: Box<PrmSpec>,
        /// The settings that turn the chains of the data into labels.
        labels: Labels,
        /// The fraction of all updates, at the start, that train only the head; ignored if the checkpoint contains
        /// the head.
        head_warmup: f64,
        /// The reference model of a log-ratio, which stays as it is; `None` takes the checkpoint to start from.
        reference: Option<Checkpoint>,
    },
}

impl Task {
    fn reference(&self) -> Option<&Checkpoint> {
        match self {
            Self::Sft { .. } => None,
            Self::Reward { reference, .. } => reference.as_ref(),
        }
    }

    fn name(&self) -> &'static str {
        match self {
            Self::Sft { .. } => "sft",
            Self::Reward { labels, .. } => labels.target.name(),
        }
    }
}

/// Trains a checkpoint on a data file and writes the result. Returns whether all updates are done; if not, only the
/// state is written.
///
/// # Errors
/// The checkpoint cannot be trained, the data has an invalid line, or `out` holds another run.
pub fn run(job: &Job, report: &mut dyn FnMut(Report)) -> Result<bool> {
    let checkpoint = job.from.clone();
    let (config, weights) = ModelConfig::load_with_weights(checkpoint.clone())?;
    let tokenizer = Arc::new(Tokenizer::load(checkpoint.clone())?);
    tokenizer.check(&config)?;
    // The model was not trained on positions beyond its context.
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
            "{}: all examples are held out: hold out a smaller fraction",
            job.data.name
        )));
    }

    let has_lm_head = match &job.task {
        Task::Sft { .. } => true,
        Task::Reward { spec, .. } => !matches!(spec.head, HeadSpec::Linear(_)),
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
            spec,
            head_warmup,
            reference,
            ..
        } => {
            format = Some(spec.to_toml()?);
            let is_ratio = matches!(spec.head, HeadSpec::LogRatio(_));
            let reason = if is_ratio && spec.normaliser != Normaliser::Sigmoid {
                Some("a log-ratio is trained with the normaliser sigmoid")
            } else if !is_ratio && reference.is_some() {
                Some("reads no reference model: leave the reference out")
            } else {
                None
            };
            if let Some(reason) = reason {
                return Err(Error::Config(format!("PRM format {}: {reason}", spec.name)));
            }
            if is_ratio {
                None
            } else {
                let head = RewardHead::new(&mut decoder, spec, &tokenizer, &weights, recipe.seed)?;
                // Only new weights would disturb the body in the first updates.
                recipe.head_warmup = if head.is_fresh() { *head_warmup } else { 0.0 };
                Some(head)
            }
        }
    };
    let folder = job.out.join("work");
    create_folder(&folder)?;
    let identity = Identity {
        kind: job.task.name().into(),
        format: format.clone(),
        from: job.from.path().to_owned(),
        reference: job
            .task
            .reference()
            .map(|reference| reference.path().to_owned()),
        recipe: recipe.clone(),
        held_out: job.held_out,
        frozen_type: job.frozen_type,
        examples: work::fingerprint(examples, &weights),
    };
    // The folder is claimed before anything is written, so that another run's folder stays unchanged.
    work::claim(
        &folder.join("run.json"),
        &identity,
        job.resume,
        Identity::eq,
    )?;
    let too_long = format!("examples of more than {longest} tokens");
    for (count, what) in [
        (read.rejected, "records that are not labelled chains"),
        (read.unlabelled, "chains without a label"),
        (read.too_long, too_long.as_str()),
    ] {
        if count > 0 {
            report(Report::Note(format!("{count} {what} are left out")));
        }
    }
    let [train_tokens, held_out_tokens] =
        [&train, &held_out].map(|set| set.iter().map(|&i| examples[i].ids.len()).sum::<usize>());
    for note in [
        format!(
            "{} examples, {train_tokens} tokens; held out {}, {held_out_tokens} tokens",
            train.len(),
            held_out.len(),
        ),
        format!("{} weights are trained", decoder.parameters()),
    ] {
        report(Report::Note(note));
    }

    let features = match recipe.train.top {
        None => None,
        Some(_) => Some(Features::open(
            &folder.join("features.bf16"),
            &config,
            // The weights are loaded a second time because `Features` removes the trained layers from them.
            ModelConfig::load_with_weights(checkpoint.clone())?.1,
            job.frozen_type,
            decoder.frozen(),
            examples,
            &mut |done, total| report(Report::Features(done, total)),
        )?),
    };
    let ratio = ratio(job, (&config, &weights), examples, longest, report)?;
    let steps = train.len().div_ceil(recipe.batch) * recipe.epochs;
    let state = folder.join("state.safetensors");
    let mut log = work::log(&folder)?;
    let finished = fit(
        &decoder,
        Fit {
            recipe: &recipe,
            head: head.as_ref(),
            ratio: ratio.as_ref(),
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

/// Reads the examples with the reference model, if a log-ratio is trained.
fn ratio(
    job: &Job,
    (config, weights): (&ModelConfig, &Weights),
    examples: &[Example],
    longest: usize,
    report: &mut dyn FnMut(Report),
) -> Result<Option<LogRatio>> {
    let Task::Reward {
        spec, reference, ..
    } = &job.task
    else {
        return Ok(None);
    };
    let beta = match &spec.head {
        HeadSpec::LogRatio(ratio) => ratio.beta,
        _ => return Ok(None),
    };
    let tokens: usize = examples.iter().map(|example| example.ids.len()).sum();
    report(Report::Note(format!(
        "the reference model reads {tokens} tokens"
    )));
    let decoder = |config: &ModelConfig, weights: &Weights| {
        Decoder::load(config.clone(), weights, Trained::ALL, true, longest)
    };
    let decoder = match reference {
        None => decoder(config, weights),
        Some(other) => {
            let (config, weights) = ModelConfig::load_with_weights(other.clone())?;
            decoder(&config, &weights)
        }
    }?;
    let reference = Reference::of(&decoder, examples, job.recipe.micro_tokens)?;
    Ok(Some(LogRatio { beta, reference }))
}

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
            if !writer.question().is_empty() {
                let reason = "a question that is removed after each step cannot be trained";
                return Err(Error::Config(format!("PRM format {}: {reason}", spec.name)));
            }
            labels.read(&job.data, &writer, longest)
        }
    }
}
