//! The `work` folder of a run, with the identity that a resumed run compares.

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

/// All inputs that decide a run's output. A folder can only be resumed with an equal identity.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Identity {
    /// The name of the task: `sft`, `prm` or `orm`.
    pub kind: String,
    /// The format description of a reward model, as TOML; `None` for a generator.
    pub format: Option<String>,
    pub from: PathBuf,
    /// The reference model of a log-ratio; `None` if it is `from`, or for other models.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reference: Option<PathBuf>,
    pub recipe: Recipe,
    pub held_out: f64,
    pub frozen_type: WeightType,
    /// The fingerprint of the examples and of the names of the weights.
    pub examples: String,
}

/// Opens the log of losses for appending; a line is a JSON object. If a run crashed, the updates after its last saved
/// state appear twice.
pub(crate) fn log(work: &Path) -> Result<File> {
    let path = work.join("log.jsonl");
    let file = beamgen_files::append(&path);
    file.map_err(|error| Error::Io(path, error))
}

/// The largest accepted size of an identity file, in bytes.
const MAX_BYTES: u64 = 16 << 20;

/// Writes `identity` to the file at `path`. An existing file must have the same identity by `is_same`, and `resume`
/// must be true.
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
            "{}: the run in this folder has other settings, data or weights: use another folder",
            path.display()
        ))),
        Err(error) => Err(Error::Checkpoint(path.to_owned(), error.to_string())),
    }
}

/// Splits examples into a training set and a held-out set of about the fraction `part`. All examples of a problem are
/// on the same side.
pub(crate) fn split(problems: &[String], part: f64, seed: u64) -> (Vec<usize>, Vec<usize>) {
    (0..problems.len()).partition(|&i| {
        // A hash of the problem's text decides, so that new examples do not move others to the other side.
        let digest = Sha256::new()
            .chain_update(seed.to_le_bytes())
            .chain_update(problems[i].trim());
        let bytes = digest.finalize();
        let place = bytes[..8].iter().fold(0, |n, &b| n << 8 | u64::from(b));
        place as f64 / u64::MAX as f64 >= part
    })
}

/// Returns a hash of all tokens and targets of the examples and of the names of the weights.
pub(crate) fn fingerprint(examples: &[Example], weights: &Weights) -> String {
    let mut digest = Sha256::new();
    for example in examples {
        // The hash includes lengths, so that a token moved to the next example changes it.
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

/// Adds the names of the weights to a hash, and returns its first 16 bytes in hexadecimal.
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
