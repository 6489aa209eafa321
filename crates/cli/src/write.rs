//! Reads small text files, and writes output files completely or not at all.

use std::io;
use std::path::{Path, PathBuf};

use serde::Serialize;

use crate::failure::Failure;
use crate::output;

/// An output file. Opening it before the work shows early whether it can be written.
pub(crate) struct Output {
    path: PathBuf,
    to: beamgen_files::Output,
}

impl Output {
    /// Opens the output, and fails if it cannot be written. The file's content stays until
    /// [`write`](Self::write).
    pub(crate) fn open(path: &Path) -> Result<Self, Failure> {
        let to = beamgen_files::Output::open(path).map_err(|error| failed(path, error))?;
        let path = path.to_owned();
        Ok(Self { path, to })
    }

    /// Replaces the whole content of the file.
    pub(crate) fn write(&mut self, bytes: &[u8]) -> Result<(), Failure> {
        let written = self.to.write(|out| out.write_all(bytes));
        written.map_err(|error| failed(&self.path, error))
    }

    /// Replaces the whole content of the file by JSON lines, one for each record.
    pub(crate) fn lines(
        &mut self,
        mut records: impl Iterator<Item = impl Serialize>,
    ) -> Result<(), Failure> {
        let written = self
            .to
            .write(|out| records.try_for_each(|record| output::json_line(out, &record)));
        written.map_err(|error: io::Error| failed(&self.path, error))
    }
}

/// The maximum size of a text file (a template, keys, presets, settings), in bytes.
#[cfg(any(feature = "serve", feature = "train"))]
const MAX_TEXT: u64 = 1 << 20;

/// Reads a text file of at most [`MAX_TEXT`] bytes.
#[cfg(any(feature = "serve", feature = "train"))]
pub(crate) fn read_text(path: &Path) -> Result<String, Failure> {
    beamgen_files::read_text_file(path, MAX_TEXT)
        .map_err(|error| Failure::Input(format!("{}: {error}", path.display())))
}

/// Writes a file. After an error or a kill, the old file is unchanged, or there is none if none
/// existed.
pub(crate) fn write_file(path: &Path, bytes: &[u8]) -> Result<(), Failure> {
    beamgen_files::write(path, bytes).map_err(|error| failed(path, error))
}

pub(crate) fn create_folder(path: &Path) -> Result<(), Failure> {
    beamgen_files::create_folder(path).map_err(|error| failed(path, error))
}

/// Converts an error about an output. The exit code is 2 if another path would help, such as for a
/// missing folder, and 1 otherwise, such as for a full disk.
pub(crate) fn failed(path: &Path, error: io::Error) -> Failure {
    if beamgen_files::is_about_the_name(&error) {
        Failure::Input(format!("{}: {error}", path.display()))
    } else {
        Failure::Run(anyhow::Error::new(error).context(path.display().to_string()))
    }
}
