//! Reads files of `torch.save`: zip archives with a pickle of the state dict, and one file per
//! storage.

mod opcode;
mod pickle;

use std::io::Cursor;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use zip::{CompressionMethod, ZipArchive};

use self::pickle::StoredTensor;
use super::{Entry, Weights};
use crate::Error;
use crate::bytes::Bytes;
use crate::error::Malformed;

pub(super) const SINGLE: &str = "pytorch_model.bin";
pub(super) const INDEX: &str = "pytorch_model.bin.index.json";

/// Adds the tensors of `file`; `path` is for messages.
pub(super) fn add(weights: &mut Weights, file: Bytes, path: &Path) -> Result<(), Error> {
    let file = Arc::new(file);
    read(weights, &file).map_err(|malformed| Error::checkpoint(path, malformed.0))
}

fn read(weights: &mut Weights, file: &Arc<Bytes>) -> Result<(), Malformed> {
    let mut archive = Archive::open(file)?;
    let pickle = archive.entry("data.pkl")?;
    if archive.contains("byteorder") {
        // Older files lack this entry and are assumed to be little endian.
        let order = archive.entry("byteorder")?;
        if &file[order] != b"little" {
            return Err("the storages are not little endian".into());
        }
    }
    for (name, tensor) in pickle::state_dict(&file[pickle])? {
        // Several tensors may be views of one storage.
        let storage = archive.entry(&format!("data/{}", tensor.storage.key))?;
        let range = place(&tensor, storage).map_err(|reason| {
            format!(
                "truncated or corrupt file: tensor `{name}` of shape {:?} {reason}",
                tensor.shape
            )
        })?;
        let encoding = tensor.storage.encoding.map_err(str::to_owned);
        let entry = Entry::new(tensor.shape, file, range, encoding);
        weights.tensors.insert(name, entry);
    }
    Ok(())
}

/// Returns the range of a tensor's bytes in the file. `storage` is the range of the tensor's
/// storage. The range is empty for an unsupported number type.
fn place(tensor: &StoredTensor<'_>, storage: Range<usize>) -> Result<Range<usize>, Malformed> {
    let Ok(encoding) = tensor.storage.encoding else {
        return Ok(0..0);
    };
    let (_, width) = encoding.block();
    let values = tensor
        .shape
        .iter()
        .try_fold(1usize, |n, size| n.checked_mul(*size))
        .ok_or("is beyond all sizes")?;
    let end = tensor
        .offset
        .checked_add(values)
        .and_then(|end| end.checked_mul(width))
        .filter(|end| *end <= storage.len())
        .ok_or_else(|| {
            let (offset, bytes) = (tensor.offset, storage.len());
            format!("at {offset} does not fit into its storage of {bytes} bytes")
        })?;
    if values > 0 && !contiguous(&tensor.shape, &tensor.strides) {
        return Err(Malformed(format!(
            "has strides {:?}; only contiguous tensors are read",
            tensor.strides
        )));
    }
    let end = storage.start + end;
    Ok(end - values * width..end)
}

/// Whether the values are adjacent, in row-major order. No size may be 0, and the product of the
/// sizes must fit in a `usize`.
fn contiguous(shape: &[usize], strides: &[usize]) -> bool {
    let mut expected = 1;
    let each = shape.iter().zip(strides).rev().all(|(size, stride)| {
        // The stride of a dimension of size 1 has no effect, and torch may write any number there.
        let fits = *size == 1 || *stride == expected;
        expected *= size;
        fits
    });
    shape.len() == strides.len() && each
}

/// The zip archive. All its files are in one folder with an arbitrary name.
struct Archive<'a> {
    zip: ZipArchive<Cursor<&'a [u8]>>,
    folder: String,
    len: usize,
}

impl<'a> Archive<'a> {
    fn open(bytes: &'a [u8]) -> Result<Self, Malformed> {
        let zip = ZipArchive::new(Cursor::new(bytes)).map_err(|source| {
            format!(
                "truncated or corrupt file, or written by torch before 1.6: not a zip archive \
                 ({source})"
            )
        })?;
        let folder = zip
            .file_names()
            .filter_map(Result::ok)
            .find_map(|name| Some(name.strip_suffix("/data.pkl")?.to_owned()))
            .filter(|folder| !folder.contains('/'))
            .ok_or("not a file of torch.save: the archive has no data.pkl")?;
        Ok(Self {
            zip,
            folder,
            len: bytes.len(),
        })
    }

    fn path(&self, name: &str) -> String {
        format!("{}/{name}", self.folder)
    }

    fn contains(&self, name: &str) -> bool {
        self.zip.index_for_name(&self.path(name)).is_some()
    }

    /// Returns the range of bytes of the archive's file `name`, which must be stored uncompressed.
    fn entry(&mut self, name: &str) -> Result<Range<usize>, Malformed> {
        let path = self.path(name);
        let broken =
            |why: &str| format!("truncated or corrupt file: {why} `{path}` in the archive");
        let index = self.zip.index_for_name(&path);
        let index = index.ok_or_else(|| broken("no"))?;
        let entry = self
            .zip
            .by_index_raw(index)
            .map_err(|source| broken(&source.to_string()))?;
        // Tensors are views of the mapped file, so compressed bytes cannot be used.
        if entry.compression() != CompressionMethod::Stored || entry.encrypted() {
            return Err(Malformed(format!(
                "`{path}` in the archive is compressed or encrypted"
            )));
        }
        let start = entry
            .data_start()
            .and_then(|start| usize::try_from(start).ok());
        let size = usize::try_from(entry.compressed_size()).ok();
        let range = start.zip(size).and_then(|(start, size)| {
            let end = start.checked_add(size)?;
            (end <= self.len).then_some(start..end)
        });
        range.ok_or_else(|| broken("no bytes of").into())
    }
}
