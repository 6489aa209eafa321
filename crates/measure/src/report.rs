//! Parts of the reports of all measurements: the head, Markdown, figures, files.

pub(crate) mod about;
pub(crate) mod chart;
pub(crate) mod folder;
pub(crate) mod markdown;
pub(crate) mod numbers;
pub(crate) mod style;

use std::path::Path;

use crate::Error;

/// Writes a file; an error or a kill leaves the old one or none.
pub(crate) fn write_file(path: &Path, bytes: &[u8]) -> Result<(), Error> {
    beamgen_files::write(path, bytes).map_err(Error::writing(path))
}

/// Makes a folder for results.
pub(crate) fn create_folder(path: &Path) -> Result<(), Error> {
    beamgen_files::create_folder(path).map_err(Error::writing(path))
}

/// Returns a name as part of a file's name.
#[must_use]
pub fn slug(name: &str) -> String {
    let slug = name.replace(|c: char| !c.is_ascii_alphanumeric(), "-");
    slug.trim_matches('-').to_ascii_lowercase()
}
