//! JSON files.

use std::path::Path;

use crate::{Error, Result};

/// Pretty JSON with a final newline.
pub fn write_json(path: &Path, value: &serde_json::Value) -> Result<()> {
    let text = serde_json::to_string_pretty(value).map_err(|e| Error::Empty(e.to_string()))?;
    std::fs::write(path, text + "\n").map_err(|e| Error::Io(path.to_owned(), e))
}
