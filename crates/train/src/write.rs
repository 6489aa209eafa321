//! Files of JSON and of tensors, written whole or not at all.

use std::collections::HashMap;
use std::io;
use std::path::Path;

use candle_core::Tensor;

use crate::{Error, Result};

/// Pretty JSON with a final newline.
pub(crate) fn write_json(path: &Path, value: &serde_json::Value) -> Result<()> {
    beamgen_files::write_json(path, value).map_err(|e| Error::Io(path.to_owned(), e))
}

/// Writes a file.
pub(crate) fn write(path: &Path, bytes: impl AsRef<[u8]>) -> Result<()> {
    beamgen_files::write(path, bytes).map_err(|e| Error::Io(path.to_owned(), e))
}

/// Writes a safetensors file.
pub(crate) fn write_tensors(path: &Path, tensors: &HashMap<String, Tensor>) -> Result<()> {
    let save = |aside: &Path| {
        let saved = candle_core::safetensors::save(tensors, aside);
        saved.map_err(|error| io::Error::other(first_line(&error)))
    };
    beamgen_files::replace(path, save).map_err(|e| Error::Io(path.to_owned(), e))
}

/// The message of an error without the backtrace that may follow.
pub(crate) fn first_line(error: &candle_core::Error) -> String {
    let text = error.to_string();
    text.lines().next().unwrap_or_default().to_owned()
}

/// Makes a folder, and those above it.
pub(crate) fn create_folder(path: &Path) -> Result<()> {
    beamgen_files::create_folder(path).map_err(|e| Error::Io(path.to_owned(), e))
}
