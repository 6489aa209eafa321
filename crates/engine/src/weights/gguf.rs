//! Tensors of a GGUF file.

use super::{Data, Entry, Numbers, RowOrder, Weights};
use crate::Error;
use crate::gguf::Gguf;

/// Adds the tensors of `file` under their Hugging Face names.
pub(super) fn add(weights: &mut Weights, file: &Gguf) -> Result<(), Error> {
    for tensor in file.tensors()? {
        let (numbers, range) = match &tensor.info.data {
            Ok((encoding, range)) => (Numbers::Encoded(*encoding), range.clone()),
            Err(other) => (Numbers::Other(other.0.clone()), 0..0),
        };
        let rows = match tensor.interleaved {
            Some(head_dim) => RowOrder::Interleaved { head_dim },
            None => RowOrder::AsIs,
        };
        let data = Data::Mapped {
            file: file.bytes().clone(),
            range,
            numbers,
            rows,
        };
        let shape = tensor.info.shape.clone();
        weights.tensors.insert(tensor.name, Entry { shape, data });
    }
    Ok(())
}
