//! The tensors of a GGUF file, whose heads may have their rows in another order.

use super::{Entry, Weights};
use crate::Error;
use crate::gguf::Gguf;

/// Adds the tensors of `file` under their Hugging Face names.
pub(super) fn add(weights: &mut Weights, file: &Gguf) -> Result<(), Error> {
    for tensor in file.tensors()? {
        let (shape, range) = (tensor.info.shape.clone(), tensor.info.range.clone());
        let entry = Entry {
            interleaved: tensor.interleaved,
            ..Entry::new(shape, file.bytes(), range, tensor.info.encoding.clone())
        };
        weights.tensors.insert(tensor.name, entry);
    }
    Ok(())
}
