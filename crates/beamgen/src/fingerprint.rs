//! Names for checkpoints that change when their files do.

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

use beamgen_eval::Fingerprint;

/// The size in bytes up to which a file is hashed completely. Of a larger file only the beginning,
/// with names and places of the tensors, and the end are hashed: hashing gigabytes would double the
/// start time.
const WHOLE: u64 = 16 << 20;
const PART: u64 = 64 << 10;

/// The name of the calibration file in a model's folder. The file describes the model, but is not
/// part of it.
pub(crate) const CALIBRATION: &str = "calibration.json";

/// Returns the fingerprint of files in memory. The order of the files does not matter.
pub(crate) fn of_files<'a>(files: impl IntoIterator<Item = (&'a str, &'a [u8])>) -> String {
    let mut files: Vec<_> = files.into_iter().collect();
    files.sort_unstable();
    let mut hash = Fingerprint::default();
    for (name, bytes) in files {
        hash.field(name.as_bytes());
        hash.field(bytes);
    }
    hash.finish()
}

/// Returns the fingerprint of a model that has files of another one: its base or its tokenizer.
pub(crate) fn of_both(model: &str, other: &str) -> String {
    let mut hash = Fingerprint::default();
    hash.field(model.as_bytes());
    hash.field(other.as_bytes());
    hash.finish()
}

/// Returns the fingerprint of a checkpoint: of one file, or of all files in a folder.
pub(crate) fn of_path(path: &Path) -> io::Result<String> {
    if !path.is_dir() {
        // The folder is left out, so that a moved file is still the same model.
        let name = path.file_name().unwrap_or_default().to_owned();
        return of_paths([(name, path.to_owned())]);
    }
    let mut paths = Vec::new();
    for entry in std::fs::read_dir(path)? {
        let entry = entry?;
        // A calibration is made after the model, and must not change the model's fingerprint.
        if entry.path().is_file() && entry.file_name() != CALIBRATION {
            paths.push((entry.file_name(), entry.path()));
        }
    }
    // The operating system may list a folder in any order.
    paths.sort();
    of_paths(paths)
}

fn of_paths(paths: impl IntoIterator<Item = (OsString, PathBuf)>) -> io::Result<String> {
    let mut hash = Fingerprint::default();
    for (name, path) in paths {
        let mut file = File::open(path)?;
        let length = file.metadata()?.len();
        let mut bytes = Vec::new();
        if length <= WHOLE {
            file.read_to_end(&mut bytes)?;
        } else {
            file.by_ref().take(PART).read_to_end(&mut bytes)?;
            file.seek(SeekFrom::End(-(PART as i64)))?;
            file.read_to_end(&mut bytes)?;
            // The middle is not read, so the length stands for it.
            bytes.extend(length.to_le_bytes());
        }
        hash.field(name.as_encoded_bytes());
        hash.field(&bytes);
    }
    Ok(hash.finish())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_and_its_bytes_have_one_name() {
        let dir = tempfile::tempdir().unwrap();
        let files: [(&str, &[u8]); 2] = [("model.safetensors", b"weights"), ("config.json", b"{}")];
        for (name, bytes) in files {
            std::fs::write(dir.path().join(name), bytes).unwrap();
        }
        let name = of_files(files);
        assert_eq!(of_path(dir.path()).unwrap(), name);
        std::fs::write(dir.path().join(CALIBRATION), "{}").unwrap();
        assert_eq!(of_path(dir.path()).unwrap(), name);
        std::fs::write(dir.path().join("config.json"), b"{ }").unwrap();
        assert_ne!(of_path(dir.path()).unwrap(), name);
    }
}
