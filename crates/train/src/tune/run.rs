//! A whole run: from a checkpoint and a file to a folder.

use std::fs::{File, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};

use beamgen_engine::{ChatTemplate, Checkpoint, ModelConfig, Tokenizer, WeightType, Weights};
use candle_core::DType;
use serde::{Deserialize, Serialize};
use serde_json::json;
use sha2::{Digest, Sha256};

use super::{Data, Decoder, Example, Features, Fit, Recipe, Report, Trained, export, fit, sft};
use crate::export::write_json;
use crate::{Error, Result};

/// What is trained from what.
#[derive(Clone, Debug)]
pub struct Job {
    /// The checkpoint: a folder or a GGUF file.
    pub from: PathBuf,
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
    /// The system's turn of the chat.
    pub system: Option<String>,
    /// A chat template in place of the checkpoint's; written with the model.
    pub chat_template: Option<String>,
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

/// What decides the bytes that a run writes: an interrupted one goes on only with the same.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
struct Identity {
    kind: String,
    from: PathBuf,
    recipe: Recipe,
    held_out: f64,
    frozen_type: WeightType,
    /// Of all examples and of the weights' names and shapes.
    examples: String,
}

/// Trains a generator on problems with solutions (SFT). Returns whether the run came to its end; a run
/// that was told to stop earlier has written its state only.
///
/// # Errors
/// What is wrong with the checkpoint, a line of the data, or the files of an earlier run.
pub fn run(job: &Job, report: &mut dyn FnMut(Report)) -> Result<bool> {
    let checkpoint = Checkpoint::from(&job.from);
    let config = ModelConfig::load(checkpoint.clone())?;
    let weights = Weights::load(checkpoint.clone())?;
    let tokenizer = Tokenizer::load(checkpoint.clone())?;
    tokenizer.check(&config)?;
    let special = tokenizer.special_tokens();
    let template = match &job.chat_template {
        Some(own) => ChatTemplate::new(
            Some(own),
            special.map(|(name, token)| (name.to_owned(), token.to_owned())),
        )?,
        None => ChatTemplate::of(&tokenizer)?,
    };
    let longest = job.longest.min(config.max_position_embeddings);
    let format = sft::Format {
        tokenizer: &tokenizer,
        template: &template,
        system: job.system.as_deref(),
        longest,
    };
    let mut read = format.read(&job.data)?;
    if let Some(limit) = job.limit {
        read.examples.truncate(limit);
        read.problems.truncate(limit);
    }
    let (train, held_out) = split(&read.problems, job.held_out, job.recipe.seed);
    let tokens = |of: &[usize]| {
        of.iter()
            .map(|&i| read.examples[i].ids.len())
            .sum::<usize>()
    };
    if train.is_empty() {
        return Err(Error::Config(format!(
            "{}: nothing is left to train on",
            job.data.display()
        )));
    }

    let work = job.out.join("work");
    std::fs::create_dir_all(&work).map_err(|error| Error::Io(work.clone(), error))?;
    let identity = Identity {
        kind: "sft".into(),
        from: job.from.clone(),
        recipe: job.recipe.clone(),
        held_out: job.held_out,
        frozen_type: job.frozen_type,
        examples: fingerprint(&read.examples, &weights),
    };
    claim(&work, &identity, job.resume)?;
    if read.too_long > 0 {
        report(Report::Note(format!(
            "{} examples of more than {longest} tokens are left out",
            read.too_long
        )));
    }
    report(Report::Note(format!(
        "{} examples, {} tokens; held out {}, {} tokens",
        train.len(),
        tokens(&train),
        held_out.len(),
        tokens(&held_out)
    )));

    let decoder = Decoder::load(config.clone(), &weights, job.recipe.train, true, longest)?;
    report(Report::Note(format!(
        "{} weights are trained",
        decoder.parameters()
    )));
    let features = match job.recipe.train {
        Trained::All => None,
        Trained::Top(_) => Some(Features::open(
            &work.join("features.bf16"),
            &config,
            Weights::load(checkpoint.clone())?,
            job.frozen_type,
            decoder.frozen(),
            &read.examples,
            &mut |done, total| report(Report::Features(done, total)),
        )?),
    };
    let steps = train.len().div_ceil(job.recipe.batch) * job.recipe.epochs;
    let state = work.join("state.safetensors");
    let mut log = log(&work)?;
    let finished = fit(
        &decoder,
        Fit {
            recipe: &job.recipe,
            data: Data {
                examples: &read.examples,
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
                    Some(json!({"step": step, "held_out_loss": held.loss}))
                }
                _ => None,
            };
            if let Some(line) = line {
                writeln!(log, "{line}").map_err(|error| Error::Io(work.clone(), error))?;
            }
            report(event);
            Ok(())
        },
    )?;
    if finished {
        let kind = export::Kind {
            class: "ForCausalLM",
            head: true,
            fields: Vec::new(),
            chat_template: job.chat_template.as_deref(),
            dtype: if job.float32 { DType::F32 } else { DType::BF16 },
        };
        export::save(&decoder, &checkpoint, &weights, &kind, &job.out)?;
    }
    Ok(finished)
}

/// The losses of all updates, one JSON object a line; an interrupted run's last may be there twice.
fn log(work: &Path) -> Result<File> {
    let path = work.join("log.jsonl");
    let file = OpenOptions::new().create(true).append(true).open(&path);
    file.map_err(|error| Error::Io(path, error))
}

/// The folder's run must be this one, and going on with it must be wanted.
fn claim(work: &Path, identity: &Identity, resume: bool) -> Result<()> {
    let path = work.join("run.json");
    match std::fs::read_to_string(&path) {
        Ok(_) if !resume => Err(Error::EarlierRun(work.to_owned())),
        Ok(text) => match serde_json::from_str::<Identity>(&text) {
            Ok(earlier) if earlier == *identity => Ok(()),
            Ok(_) => Err(Error::Config(format!(
                "{}: the run in this folder has other settings, data or weights",
                path.display()
            ))),
            Err(error) => Err(Error::Checkpoint(path, error.to_string())),
        },
        Err(_) => {
            let value = serde_json::to_value(identity);
            write_json(
                &path,
                &value.map_err(|error| Error::Empty(error.to_string()))?,
            )
        }
    }
}

/// Which examples are trained on, and which are held out: all of a problem on one side.
fn split(problems: &[String], part: f64, seed: u64) -> (Vec<usize>, Vec<usize>) {
    (0..problems.len()).partition(|&i| {
        let digest = Sha256::new()
            .chain_update(seed.to_le_bytes())
            .chain_update(problems[i].trim());
        let bytes = digest.finalize();
        let place = bytes[..8].iter().fold(0, |n, &b| n << 8 | u64::from(b));
        place as f64 / u64::MAX as f64 >= part
    })
}

fn fingerprint(examples: &[Example], weights: &Weights) -> String {
    let mut digest = Sha256::new();
    for example in examples {
        digest.update((example.ids.len() as u64).to_le_bytes());
        for id in &example.ids {
            digest.update(id.to_le_bytes());
        }
        for &(row, target, weight) in &example.next {
            for word in [row, target, weight.to_bits()] {
                digest.update(word.to_le_bytes());
            }
        }
    }
    for name in weights.names() {
        digest.update(name);
        digest.update([0]);
    }
    let bytes = digest.finalize();
    bytes[..16]
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect()
}
