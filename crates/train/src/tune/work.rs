//! The `work` folder of a run and the identity by which a resumed run recognises the folder.

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

/// The inputs that decide the bytes of a run's output. A folder can be resumed only with an equal
/// identity.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Identity {
    /// The kind of training: `sft`, `prm` or `orm`.
    pub kind: String,
    /// The format of a reward model, as TOML.
    pub format: Option<String>,
    pub from: PathBuf,
    pub recipe: Recipe,
    pub held_out: f64,
    pub frozen_type: WeightType,
    /// The fingerprint of all examples and of the weights' names.
    pub examples: String,
}

/// Opens the log of losses, one JSON object a line. After a crash, updates since the last saved
/// state appear twice.
pub(crate) fn log(work: &Path) -> Result<File> {
    let path = work.join("log.jsonl");
    let file = beamgen_files::append(&path);
    file.map_err(|error| Error::Io(path, error))
}

/// The largest size of a file with a run's identity, in bytes.
const MAX_BYTES: u64 = 16 << 20;

/// Writes `identity` to the file at `path`. If the file exists, checks that it describes the same
/// run and that resuming is wanted.
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
    // The folder belongs to this run only if every input that decides its bytes is equal.
    match serde_json::from_str(&text) {
        Ok(earlier) if is_same(&earlier, identity) => Ok(()),
        Ok(_) => Err(Error::Config(format!(
            "{}: the run in this folder has other settings, data or weights: use another folder",
            path.display()
        ))),
        Err(error) => Err(Error::Checkpoint(path.to_owned(), error.to_string())),
    }
}

/// Splits examples into a training set and a held-out set, with all examples of a problem on the
/// same side.
pub(crate) fn split(problems: &[String], part: f64, seed: u64) -> (Vec<usize>, Vec<usize>) {
    (0..problems.len()).partition(|&i| {
        // By the hash of the problem's text, so that adding examples moves no other problem to the
        // other side.
        let digest = Sha256::new()
            .chain_update(seed.to_le_bytes())
            .chain_update(problems[i].trim());
        let bytes = digest.finalize();
        let place = bytes[..8].iter().fold(0, |n, &b| n << 8 | u64::from(b));
        place as f64 / u64::MAX as f64 >= part
    })
}

/// Returns a fingerprint of examples and of the weights' names.
pub(crate) fn fingerprint(examples: &[Example], weights: &Weights) -> String {
    let mut digest = Sha256::new();
    for example in examples {
        // The length first, so that moving a token to the next example changes the digest.
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

/// Adds the weights' names to a digest; returns its first 16 bytes in hex.
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
