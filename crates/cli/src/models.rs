//! `beamgen models`: what is in the hub's cache, what is known to work, what a pair needs.

use std::io::{self, Write};

use beamgen::hub::{CachedModel, CachedRevision};
use beamgen::{Config, KNOWN_MODELS, ModelKind, PrmSpec, Solver};
use serde_json::json;

use crate::args::ModelsArgs;
use crate::download;
use crate::failure::Failure;
use crate::output;
use crate::plan::{self, size};
use crate::printable;
use crate::settings;
use crate::table::{Table, grouped};

pub fn main(args: &ModelsArgs) -> Result<(), Failure> {
    let flags = &args.models;
    if args.generator.is_some() || flags.prm.is_some() {
        return pair(args);
    }
    let hub = download::hub(flags.offline)?;
    let cached = hub.cached();
    let mut out = io::stdout().lock();
    if args.json {
        for model in &cached {
            for revision in &model.revisions {
                output::json_line(&mut out, &row(model, revision))?;
            }
        }
        for model in KNOWN_MODELS {
            output::json_line(&mut out, &json!({"known": model}))?;
        }
        return Ok(out.flush()?);
    }
    let cache = hub.cache().display().to_string();
    writeln!(out, "In the cache {}:\n", printable::line(&cache))?;
    match cached.is_empty() {
        true => writeln!(out, "  nothing yet")?,
        false => cache_table(&cached).write(&mut out)?,
    }
    writeln!(
        out,
        "\nKnown to work (each architecture and format by tiny checkpoints, SmolLM2 with its own weights):\n"
    )?;
    known_table().write(&mut out)?;
    let names: Vec<&str> = PrmSpec::names().collect();
    writeln!(
        out,
        "\nReward models are read as (--prm-format): {}.\nOthers need a TOML file, see configs/prm/README.md. \
         What a pair needs in memory: beamgen models --generator MODEL --prm MODEL",
        names.join(", ")
    )?;
    Ok(out.flush()?)
}

/// What the named models will need. Nothing of them is loaded, but what is not there is downloaded.
fn pair(args: &ModelsArgs) -> Result<(), Failure> {
    let mut config = Config::default();
    config.models.generator.clone_from(&args.generator);
    settings::set_models(&mut config, &args.models);
    let pair = args.generator.is_some();
    if pair && config.models.prm.is_none() {
        config.models.scorer = beamgen::ScorerKind::None;
        config.search.strategy = beamgen::StrategyKind::GREEDY;
    }
    let builder = download::attach(Solver::builder().config(config))?;
    let prepared = match pair {
        true => builder.prepare()?,
        false => builder.prepare_reward_model()?,
    };
    let mut out = io::stdout().lock();
    if args.json {
        for model in &prepared.plan().models {
            output::json_line(
                &mut out,
                &json!({
                    "role": model.role, "name": model.name, "weights": model.weights,
                    "buffers": model.buffers, "kv": model.kv, "kv_per_token": model.kv_per_token,
                    "context": model.context,
                }),
            )?;
        }
        return Ok(out.flush()?);
    }
    plan::write(&mut out, prepared.plan())?;
    for note in prepared.notes() {
        writeln!(out, "  note: {}", printable::line(note))?;
    }
    Ok(out.flush()?)
}

fn row(model: &CachedModel, revision: &CachedRevision) -> serde_json::Value {
    json!({
        "repo": model.repo,
        "commit": revision.commit,
        "refs": revision.refs,
        "bytes": revision.bytes,
        "complete": revision.is_complete,
        "gguf": revision.gguf,
        "path": revision.path,
        "use": usable(revision),
    })
}

/// What a cached model can be used as.
fn usable(revision: &CachedRevision) -> String {
    if !revision.is_complete {
        return match revision.gguf.is_empty() {
            true => "incomplete".to_owned(),
            false => format!("GGUF: {}", revision.gguf.join(", ")),
        };
    }
    match beamgen::recognise(&revision.path) {
        Err(error) => format!("not usable: {error}"),
        Ok(found) => match (found.prm_format, found.is_causal_lm) {
            (Some(format), _) => format!("prm, {format}"),
            (None, true) => format!("generator, {}", found.model_type),
            (None, false) => format!("{}, needs --prm-format", found.model_type),
        },
    }
}

fn cache_table(cached: &[CachedModel]) -> Table {
    let mut table = Table::new(&["model", "revision", "size", "use"]);
    for model in cached {
        for revision in &model.revisions {
            let commit = revision.commit.get(..8).unwrap_or(&revision.commit);
            let name = match revision.refs.is_empty() {
                true => commit.to_owned(),
                false => revision.refs.join(", "),
            };
            let size = size(revision.bytes);
            table.row(vec![model.repo.clone(), name, size, usable(revision)]);
        }
    }
    table
}

fn known_table() -> Table {
    let mut table = Table::new(&["model", "use", "read as", "context"]);
    for model in KNOWN_MODELS {
        let kind = match model.kind {
            ModelKind::Generator => "generator",
            ModelKind::Prm => "prm",
        };
        table.row(vec![
            model.name.to_owned(),
            kind.to_owned(),
            model.read_as.to_owned(),
            grouped(model.context as u64),
        ]);
    }
    table
}
