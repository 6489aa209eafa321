//! Parts of the reports of all measurements: the head, Markdown, figures, files.

pub(crate) mod about;
pub(crate) mod chart;
pub(crate) mod folder;
pub(crate) mod markdown;
pub(crate) mod numbers;
pub(crate) mod style;

use std::path::Path;

use crate::Error;

/// Writes a file atomically: after an error or a crash, the old file is unchanged.
pub(crate) fn write_file(path: &Path, bytes: &[u8]) -> Result<(), Error> {
    beamgen_files::write(path, bytes).map_err(Error::writing(path))
}

/// Makes a folder for results.
pub(crate) fn create_folder(path: &Path) -> Result<(), Error> {
    beamgen_files::create_folder(path).map_err(Error::writing(path))
}

/// Returns `name` for use in file names: lower-case letters and digits; other characters become `-`, except at the
/// ends.
#[must_use]
pub fn slug(name: &str) -> String {
    let slug = name.replace(|c: char| !c.is_ascii_alphanumeric(), "-");
    slug.trim_matches('-').to_ascii_lowercase()
}
