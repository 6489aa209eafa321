//! Writing the files of a results folder.

use std::fs;
use std::path::Path;

use crate::failure::Failure;

/// Writes a file aside and renames it, so that a kill leaves the old or the new one.
pub fn write_file(path: &Path, bytes: &[u8]) -> Result<(), Failure> {
    let aside = path.with_extension("part");
    fs::write(&aside, bytes)
        .and_then(|()| fs::rename(&aside, path))
        .map_err(|error| {
            Failure::Run(anyhow::Error::new(error).context(path.display().to_string()))
        })
}

/// A name as part of a file's name.
pub fn slug(name: &str) -> String {
    let plain = |c: char| {
        if c.is_ascii_alphanumeric() {
            c.to_ascii_lowercase()
        } else {
            '-'
        }
    };
    name.chars()
        .map(plain)
        .collect::<String>()
        .trim_matches('-')
        .to_owned()
}
