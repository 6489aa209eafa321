//! Writing of text, JSON and tensor files with this crate's errors. A file is replaced atomically, so a crash leaves
//! either the old or the new content.

use std::collections::HashMap;
use std::io;
use std::path::Path;

use candle_core::Tensor;

use crate::{Error, Result};

/// Writes indented JSON with a newline at the end.
pub(crate) fn write_json(path: &Path, value: &serde_json::Value) -> Result<()> {
    beamgen_files::write_json(path, value).map_err(io_error(path))
}

pub(crate) fn write(path: &Path, bytes: impl AsRef<[u8]>) -> Result<()> {
    beamgen_files::write(path, bytes).map_err(io_error(path))
}

pub(crate) fn write_tensors(path: &Path, tensors: &HashMap<String, Tensor>) -> Result<()> {
    // candle can only save to a path, so the closure gets the path of the temporary file.
    beamgen_files::replace(path, |aside: &Path| {
        let saved = candle_core::safetensors::save(tensors, aside);
        saved.map_err(|error| io::Error::other(first_line(&error)))
    })
    .map_err(io_error(path))
}

/// Returns a function for `map_err` that turns an I/O error into [`Error::Io`] with `path`.
pub(crate) fn io_error(path: &Path) -> impl FnOnce(io::Error) -> Error {
    move |error| Error::Io(path.to_owned(), error)
}

/// Returns the first line of a candle error, since a backtrace may follow.
pub(crate) fn first_line(error: &candle_core::Error) -> String {
    let text = error.to_string();
    text.lines().next().unwrap_or_default().to_owned()
}

pub(crate) fn create_folder(path: &Path) -> Result<()> {
    beamgen_files::create_folder(path).map_err(io_error(path))
}
