//! Reading files that were named, and writing files whole or not at all.

use std::io;
use std::path::{Path, PathBuf};

use serde::Serialize;

use crate::failure::Failure;
use crate::output;

/// An output that was named, found fit to be written before the work that makes it.
pub(crate) struct Output {
    path: PathBuf,
    to: beamgen_files::Output,
}

impl Output {
    /// Refuses what cannot be written.
    pub(crate) fn open(path: &Path) -> Result<Self, Failure> {
        let to = beamgen_files::Output::open(path).map_err(|error| failed(path, error))?;
        let path = path.to_owned();
        Ok(Self { path, to })
    }

    /// Writes all of it.
    pub(crate) fn write(&mut self, bytes: &[u8]) -> Result<(), Failure> {
        let written = self.to.write(|out| out.write_all(bytes));
        written.map_err(|error| failed(&self.path, error))
    }

    /// Writes a line for each record.
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

/// The largest text file read: a template, a file of keys, of presets or of settings.
#[cfg(any(feature = "serve", feature = "train"))]
const MAX_TEXT: u64 = 1 << 20;

/// Reads a file that was named.
#[cfg(any(feature = "serve", feature = "train"))]
pub(crate) fn read_text(path: &Path) -> Result<String, Failure> {
    beamgen_files::read_text_file(path, MAX_TEXT)
        .map_err(|error| Failure::Input(format!("{}: {error}", path.display())))
}

/// Writes a file; an error or a kill leaves the old one or none.
pub(crate) fn write_file(path: &Path, bytes: &[u8]) -> Result<(), Failure> {
    beamgen_files::write(path, bytes).map_err(|error| failed(path, error))
}

/// Makes a folder for results.
pub(crate) fn create_folder(path: &Path) -> Result<(), Failure> {
    beamgen_files::create_folder(path).map_err(|error| failed(path, error))
}

/// The failure of an output: a fault of the call if another name would do, or of the run.
pub(crate) fn failed(path: &Path, error: io::Error) -> Failure {
    if beamgen_files::is_about_the_name(&error) {
        Failure::Input(format!("{}: {error}", path.display()))
    } else {
        Failure::Run(anyhow::Error::new(error).context(path.display().to_string()))
    }
}
