//! The folder of a run's state, and what tells one run from another.

use std::fs::File;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use beamgen_engine::{WeightType, Weights};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::{Example, Recipe};
use crate::write::write_json;
use crate::{Error, Result};

/// What decides the bytes that a run writes: an interrupted one goes on only with the same.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Identity {
    /// What is trained: sft, prm or orm.
    pub kind: String,
    /// How a reward model is read, as TOML.
    pub format: Option<String>,
    pub from: PathBuf,
    pub recipe: Recipe,
    pub held_out: f64,
    pub frozen_type: WeightType,
    /// Of all examples and of the weights' names.
    pub examples: String,
}

/// The losses of all updates, one JSON object a line; an interrupted run's last may be there twice.
pub(crate) fn log(work: &Path) -> Result<File> {
    let path = work.join("log.jsonl");
    let file = beamgen_files::append(&path);
    file.map_err(|error| Error::Io(path, error))
}

/// The most bytes of a file that says which run a folder has.
const MAX_BYTES: u64 = 16 << 20;

/// The run that the file at `path` describes must be this one, and going on with it must be wanted.
/// Without the file it is written.
pub(crate) fn claim<I>(
    path: &Path,
    identity: &I,
    resume: bool,
    is_same: fn(&I, &I) -> bool,
) -> Result<()>
where
    I: Serialize + DeserializeOwned,
{
    let text = match beamgen_files::read_text_file(path, MAX_BYTES) {
        Ok(text) => text,
        Err(error) if error.kind() == ErrorKind::NotFound => {
            let value = serde_json::to_value(identity);
            let value = value.map_err(|error| Error::Empty(error.to_string()))?;
            return write_json(path, &value);
        }
        Err(error) => return Err(Error::Io(path.to_owned(), error)),
    };
    if !resume {
        let folder = path.parent().unwrap_or(path);
        return Err(Error::EarlierRun(folder.to_owned()));
    }
    match serde_json::from_str(&text) {
        Ok(earlier) if is_same(&earlier, identity) => Ok(()),
        Ok(_) => Err(Error::Config(format!(
            "{}: the run in this folder has other settings, data or weights",
            path.display()
        ))),
        Err(error) => Err(Error::Checkpoint(path.to_owned(), error.to_string())),
    }
}

/// Which examples are trained on, and which are held out: all of a problem on one side.
pub(crate) fn split(problems: &[String], part: f64, seed: u64) -> (Vec<usize>, Vec<usize>) {
    (0..problems.len()).partition(|&i| {
        let digest = Sha256::new()
            .chain_update(seed.to_le_bytes())
            .chain_update(problems[i].trim());
        let bytes = digest.finalize();
        let place = bytes[..8].iter().fold(0, |n, &b| n << 8 | u64::from(b));
        place as f64 / u64::MAX as f64 >= part
    })
}

/// Of examples and of the weights' names.
pub(crate) fn fingerprint(examples: &[Example], weights: &Weights) -> String {
    let mut digest = Sha256::new();
    for example in examples {
        digest.update((example.ids.len() as u64).to_le_bytes());
        for id in &example.ids {
            digest.update(id.to_le_bytes());
        }
        let next = example.next.iter();
        let next = next.flat_map(|&(row, target, weight)| [row, target, weight.to_bits()]);
        let labels = example.labels.iter();
        let labels = labels.flat_map(|x| [x.row, x.right.to_bits(), x.weight.to_bits()]);
        for word in next.chain(labels) {
            digest.update(word.to_le_bytes());
        }
    }
    with_names(digest, weights)
}

/// The first 16 bytes of a digest and of the weights' names.
pub(crate) fn with_names(mut digest: Sha256, weights: &Weights) -> String {
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
