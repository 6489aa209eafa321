//! Reads the header of a safetensors file, which has the place and shape of each tensor.

use std::path::Path;
use std::sync::Arc;

use safetensors::{Dtype, SafeTensors};

use super::{Entry, Weights};
use crate::bytes::Bytes;
use crate::{Encoding, Error};

pub(super) const SINGLE: &str = "model.safetensors";
pub(super) const INDEX: &str = "model.safetensors.index.json";

/// Adds the tensors of `file`; `path` is for messages.
pub(super) fn add(weights: &mut Weights, file: Bytes, path: &Path) -> Result<(), Error> {
    let file = Arc::new(file);
    let (header, metadata) = SafeTensors::read_metadata(&file).map_err(|source| {
        let reason = format!("truncated or corrupt safetensors file ({source})");
        Error::checkpoint(path, reason)
    })?;
    // `read_metadata` has checked the offsets against the length of the file.
    // The offsets are relative to the end of the header and its 8-byte length.
    let start = header + 8;
    for (name, info) in metadata.tensors() {
        let (from, to) = info.data_offsets;
        let encoding = match info.dtype {
            Dtype::F32 => Ok(Encoding::F32),
            Dtype::BF16 => Ok(Encoding::Bf16),
            Dtype::F16 => Ok(Encoding::F16),
            // Checkpoints may have integers that the model does not need, so the error comes only
            // when they are read.
            other => Err(format!("{other:?}")),
        };
        let range = start + from..start + to;
        let entry = Entry::new(info.shape.clone(), &file, range, encoding);
        weights.tensors.insert(name, entry);
    }
    Ok(())
}
