//! `beamgen models`: lists the models in the hub's cache, the pairs, and the models known to work,
//! or shows the memory that models need.

use std::io::{self, Write};
use std::path::{Path, PathBuf};

use beamgen::Pair;
use beamgen::bundled;
use beamgen::hub::{CachedModel, CachedRevision, HubError};
use beamgen::models::{Prepared, PrmSpec};
use beamgen::program::{Fits, KNOWN_MODELS, ModelKind};
use serde_json::json;

use crate::args::ModelsArgs;
use crate::download;
use crate::failure::{Failure, refuse};
use crate::output;
use crate::plan::{self, size};
use crate::printable;
use crate::servers;
use crate::settings;
use crate::table::{Table, grouped};
use crate::write::failed;

pub(crate) fn main(args: &ModelsArgs) -> Result<(), Failure> {
    let given = &args.models.given;
    if let [model, folder] = &args.write[..] {
        return write_bundled(model, folder);
    }
    if !args.generator_url.is_empty() || given.has("prm_url") {
        let prm = given.texts("prm_url");
        let roles = [("generator", &args.generator_url), ("prm", &prm)];
        return servers::show(roles, args.json);
    }
    if args.generator.is_some() || given.has("prm") || given.has("pair") {
        return needs(args);
    }
    let hub = download::hub(given.has("offline"))?;
    let cached = hub.cached();
    let mut out = io::stdout().lock();
    if args.json {
        for model in &cached {
            for revision in &model.revisions {
                output::json_line(&mut out, &row(model, revision))?;
            }
        }
        for pair in pairs() {
            output::json_line(&mut out, &pair_row(&pair))?;
        }
        for model in KNOWN_MODELS {
            let mut known = json!(model);
            known["gated"] = model.is_gated().into();
            known["thinks"] = model.thinks().into();
            output::json_line(&mut out, &json!({"known": known}))?;
        }
        return Ok(out.flush()?);
    }
    let cache = hub.cache().display().to_string();
    writeln!(out, "In the cache {}:\n", printable::line(&cache))?;
    if cached.is_empty() {
        writeln!(out, "  nothing yet")?;
    } else {
        cache_table(&cached).write(&mut out)?;
    }
    writeln!(
        out,
        "\nPairs (--pair NAME uses a pair with the settings that suit it):\n"
    )?;
    pair_table().write(&mut out)?;
    writeln!(out, "\n{PAIRS}")?;
    writeln!(
        out,
        "\nKnown to work (each architecture and format by tiny checkpoints, SmolLM2 with its own weights):\n"
    )?;
    known_table().write(&mut out)?;
    let names: Vec<&str> = PrmSpec::names().collect();
    writeln!(
        out,
        "\nFormats of reward models (--prm-format): {}.\nOther formats need a TOML file, see configs/prm/README.md. \
         Memory of other models: beamgen models --generator MODEL --prm MODEL",
        names.join(", ")
    )?;
    Ok(out.flush()?)
}

/// Writes the bundled models to subfolders of `folder`. A subfolder that exists already is an
/// error.
fn write_bundled(model: &Path, folder: &Path) -> Result<(), Failure> {
    if model != "bundled" {
        return refuse(format!(
            "--write {}: only the bundled models can be written: use --write bundled DIR",
            model.display()
        ));
    }
    let mut models: Vec<PathBuf> = bundled::files().map(|file| folder.join(file.0)).collect();
    // `files` lists all files of a model together, so equal folders are adjacent.
    models.dedup();
    // All folders are checked before the first file is written, so that an error leaves nothing
    // behind.
    if let Some(there) = models.iter().find(|model| model.exists()) {
        let there = there.display();
        return refuse(format!(
            "{there}: exists already: remove it, or name another folder"
        ));
    }
    for (model, name, bytes) in bundled::files() {
        let model = folder.join(model);
        let path = model.join(name);
        beamgen_files::create_folder(&model)
            .and_then(|()| beamgen_files::write(&path, bytes))
            .map_err(|error| failed(&path, error))?;
    }
    let mut out = io::stdout().lock();
    for model in models {
        let model = model.display().to_string();
        writeln!(out, "Written: {}", printable::line(&model))?;
    }
    Ok(out.flush()?)
}

/// Shows the memory that models will need, without loading them. A single model is downloaded if it
/// is missing. A missing pair is not; then the figures in the pair's file are shown.
fn needs(args: &ModelsArgs) -> Result<(), Failure> {
    let given = &args.models.given;
    let pair = given.text("pair").map(Pair::find).transpose()?;
    let mut config = settings::config(&args.models)?;
    if args.generator.is_some() {
        config.models.generator.clone_from(&args.generator);
    }
    let whole_pair = pair.is_some() && args.generator.is_none() && !given.has("prm");
    // Showing a pair must not download gigabytes, so only local files are read.
    config.models.offline |= whole_pair;
    let has_generator = config.models.generator.is_some();
    let no_prm = beamgen::program::is_word(given.path("prm"), "none");
    if no_prm && !has_generator {
        let message = "--prm none leaves no model to show: add --generator, or leave --prm out";
        return refuse(message);
    }
    // A generator named without a reward model is shown by itself, not with the bundled reward
    // model.
    let alone = has_generator && (no_prm || (config.models.prm.is_none() && !given.has("prm")));
    // `has_generator` was read before this call, which replaces the name `bundled` by an absent
    // model.
    config.resolve_words();
    if alone {
        config.models.scorer = beamgen::scorer::ScorerKind::None;
        // The configured strategy may need the scorer that was just removed; greedy decoding never
        // does.
        config.search.strategy = beamgen::StrategyKind::GREEDY;
    }
    let builder = download::attach(settings::builder(config)?)?;
    let prepared = if has_generator {
        builder.prepare()
    } else {
        builder.prepare_reward_model()
    };
    let prepared = match prepared {
        Err(beamgen::Error::Hub(HubError::Offline { .. })) if whole_pair => None,
        prepared => Some(prepared?),
    };
    let mut out = io::stdout().lock();
    if args.json {
        if let Some(pair) = &pair {
            output::json_line(&mut out, &pair_row(pair))?;
        }
        for model in prepared.iter().flat_map(|p| &p.plan().models) {
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
    if let Some(pair) = &pair {
        write_pair(&mut out, pair, prepared.as_ref())?;
    }
    if let Some(prepared) = &prepared {
        plan::write(&mut out, prepared.plan(), prepared.thought_budget())?;
        for note in prepared.notes() {
            writeln!(out, "  note: {}", printable::line(&note))?;
        }
    }
    Ok(out.flush()?)
}

fn pair_row(pair: &Pair) -> serde_json::Value {
    let mut row = json!(pair);
    row["gated"] = pair.gated().collect();
    json!({ "pair": row })
}

/// Prints the facts in a pair's file. `here` is `None` if files of the pair are missing on this
/// machine.
fn write_pair(out: &mut dyn Write, pair: &Pair, here: Option<&Prepared>) -> io::Result<()> {
    let mut line = |name: &str, text: &str| writeln!(out, "  {name:<10} {}", printable::line(text));
    line("pair", &format!("{}: {}", pair.name, pair.summary))?;
    line("generator", &pair.generator.display().to_string())?;
    line("prm", &pair.prm.display().to_string())?;
    for model in pair.gated() {
        line(
            "licence",
            &format!("accept it on the page of {model} before the download"),
        )?;
    }
    if let Some(fits) = pair.fits {
        line("fits", fits.name())?;
    }
    if let Some(memory) = pair.memory {
        let (bf16, int8) = (size(memory.bf16), size(memory.int8));
        let text = format!("{bf16} with --dtype bf16, {int8} with --dtype int8: {NEEDED}");
        line("memory", &text)?;
    }
    if here.is_none() {
        let bytes = pair.download.map(size).unwrap_or_default();
        let text = "is not complete on this machine: the first `beamgen solve --pair` downloads it";
        line("download", &format!("{bytes} {text}"))?;
    }
    Ok(())
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

/// Returns the use of a cached model: generator, reward model, or the reason why it cannot be used.
fn usable(revision: &CachedRevision) -> String {
    if !revision.is_complete {
        return if revision.gguf.is_empty() {
            "incomplete".to_owned()
        } else {
            format!("GGUF: {}", revision.gguf.join(", "))
        };
    }
    if let Some(base) = beamgen::program::base_of(&revision.path) {
        return format!("adapter of {}", printable::line(&base));
    }
    match beamgen::program::recognise(&revision.path) {
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
            let name = if revision.refs.is_empty() {
                commit.to_owned()
            } else {
                revision.refs.join(", ")
            };
            let size = size(revision.bytes);
            table.row(vec![model.repo.clone(), name, size, usable(revision)]);
        }
    }
    table
}

/// The parts of memory that the printed figures include.
const NEEDED: &str = "weights, buffers and one chain in each model";

const PAIRS: &str = "\
* has a licence to accept on the model's page before the download, and HF_TOKEN to set.
Memory is weights, buffers and one chain in each model; caches for more chains come on top (--kv-memory).
laptop: 16 GB of memory; one card: 24 GB; two cards: 48 GB together. beamgen computes on one card or on the CPU.
`beamgen solve FILE --pair NAME` downloads what is missing; one more pair is one more TOML file (--pair FILE.toml).";

/// Returns the bundled pairs, sorted by the machine and the memory that they need.
fn pairs() -> Vec<Pair> {
    let mut pairs: Vec<Pair> = Pair::all().collect();
    pairs.sort_by_key(|pair| (pair.fits, pair.memory.map(|memory| memory.bf16)));
    pairs
}

fn pair_table() -> Table {
    let mut table = Table::new(&[
        "pair",
        "fits",
        "download",
        "bf16",
        "int8",
        "generator + prm",
    ]);
    let bytes = |bytes: Option<u64>| bytes.map(size).unwrap_or_default();
    // Names are shortened to keep the table narrow: without the organisation, and without the file
    // in `REPO:FILE.gguf`.
    let short = |model: &Path| {
        let name = model.to_string_lossy();
        let name = name.split_once('/').map_or(&*name, |(_, name)| name);
        name.split(':').next().unwrap_or(name).to_owned()
    };
    for pair in pairs() {
        let star = if pair.gated().next().is_some() {
            " *"
        } else {
            ""
        };
        table.row(vec![
            pair.name,
            pair.fits.map(Fits::name).unwrap_or_default().to_owned(),
            bytes(pair.download),
            bytes(pair.memory.map(|memory| memory.bf16)),
            bytes(pair.memory.map(|memory| memory.int8)),
            format!("{} + {}{}", short(&pair.generator), short(&pair.prm), star),
        ]);
    }
    table
}

fn known_table() -> Table {
    let mut table = Table::new(&["model", "use", "read as", "context", "bf16", "note"]);
    for model in KNOWN_MODELS {
        let kind = match model.kind {
            ModelKind::Generator => "generator",
            ModelKind::Prm => "prm",
        };
        let notes = [
            (model.is_gated(), "licence to accept"),
            (model.thinks(), "thinks first: long chains"),
        ];
        let notes: Vec<&str> = notes
            .into_iter()
            .filter_map(|(is_so, note)| is_so.then_some(note))
            .collect();
        table.row(vec![
            model.name.to_owned(),
            kind.to_owned(),
            model.read_as.to_owned(),
            grouped(model.context as u64),
            size(2 * model.shape.parameters()),
            notes.join("; "),
        ]);
    }
    table
}
