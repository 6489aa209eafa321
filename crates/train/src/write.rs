//! Writing of JSON and tensor files. Every file is replaced in one step, so a crash leaves either
//! the old file or the new one.

use std::collections::HashMap;
use std::io;
use std::path::Path;

use candle_core::Tensor;

use crate::{Error, Result};

/// Writes indented JSON with a final newline.
pub(crate) fn write_json(path: &Path, value: &serde_json::Value) -> Result<()> {
    beamgen_files::write_json(path, value).map_err(io_error(path))
}

pub(crate) fn write(path: &Path, bytes: impl AsRef<[u8]>) -> Result<()> {
    beamgen_files::write(path, bytes).map_err(io_error(path))
}

pub(crate) fn write_tensors(path: &Path, tensors: &HashMap<String, Tensor>) -> Result<()> {
    // candle writes to a path, not to a writer, hence a closure over the temporary file's path.
    beamgen_files::replace(path, |aside: &Path| {
        let saved = candle_core::safetensors::save(tensors, aside);
        saved.map_err(|error| io::Error::other(first_line(&error)))
    })
    .map_err(io_error(path))
}

/// Returns a function that adds `path` to an I/O error, for `map_err`.
pub(crate) fn io_error(path: &Path) -> impl FnOnce(io::Error) -> Error {
    move |error| Error::Io(path.to_owned(), error)
}

/// Returns the message of a candle error without the backtrace that may follow.
pub(crate) fn first_line(error: &candle_core::Error) -> String {
    let text = error.to_string();
    text.lines().next().unwrap_or_default().to_owned()
}

pub(crate) fn create_folder(path: &Path) -> Result<()> {
    beamgen_files::create_folder(path).map_err(io_error(path))
}
