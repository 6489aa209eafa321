//! The tensors of a checkpoint by name, widened to float32 when they are read.

use std::collections::{BTreeMap, HashMap};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use beamgen_kernels::WeightFormat;
use safetensors::{Dtype, SafeTensors};

use crate::checkpoint::Bytes;
use crate::{Checkpoint, Error};

const SINGLE: &str = "model.safetensors";
const INDEX: &str = "model.safetensors.index.json";

/// Named tensors: those of a checkpoint directory, or some made in memory.
#[derive(Debug, Default)]
pub struct Weights {
    tensors: BTreeMap<String, Entry>,
}

/// A tensor widened to float32, row-major.
#[derive(Clone, Debug, PartialEq)]
pub struct Tensor {
    /// Sizes of its dimensions.
    pub shape: Vec<usize>,
    /// Its values.
    pub data: Vec<f32>,
}

#[derive(Debug)]
struct Entry {
    shape: Vec<usize>,
    data: Data,
}

#[derive(Debug)]
enum Data {
    Owned(Vec<f32>),
    File {
        file: Arc<Bytes>,
        range: Range<usize>,
        dtype: Dtype,
    },
}

impl Weights {
    /// The tensors of a checkpoint: of `model.safetensors`, or the shards that
    /// `model.safetensors.index.json` names.
    ///
    /// # Errors
    /// [`Error::NoCheckpoint`]; [`Error::Checkpoint`] for truncated or corrupt files and for an
    /// index that names tensors or files which do not exist.
    pub fn load(checkpoint: impl Into<Checkpoint>) -> Result<Self, Error> {
        let checkpoint = checkpoint.into();
        if checkpoint.has(SINGLE) {
            let mut weights = Self::default();
            weights.add_file(checkpoint.bytes(SINGLE)?, &checkpoint.path_of(SINGLE))?;
            return Ok(weights);
        }
        match checkpoint.text(INDEX)? {
            Some(index) => Self::load_sharded(&checkpoint, &index),
            None => Err(Error::NoCheckpoint {
                path: checkpoint.path().to_owned(),
            }),
        }
    }

    /// The tensors of one safetensors file.
    ///
    /// # Errors
    /// [`Error::Io`], or [`Error::Checkpoint`] if it is truncated or corrupt.
    pub fn load_file(path: &Path) -> Result<Self, Error> {
        let mut weights = Self::default();
        weights.add_file(Bytes::map(path)?, path)?;
        Ok(weights)
    }

    /// Tensors made in memory.
    ///
    /// # Errors
    /// [`Error::Shape`] if a tensor's values are not as many as its shape says.
    pub fn from_tensors(
        tensors: impl IntoIterator<Item = (String, Tensor)>,
    ) -> Result<Self, Error> {
        let mut weights = Self::default();
        for (name, Tensor { shape, data }) in tensors {
            if shape.iter().product::<usize>() != data.len() {
                return Err(Error::Shape {
                    name,
                    expected: shape,
                    found: vec![data.len()],
                });
            }
            weights.tensors.insert(
                name,
                Entry {
                    shape,
                    data: Data::Owned(data),
                },
            );
        }
        Ok(weights)
    }

    /// Names of the tensors, sorted.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.tensors.keys().map(String::as_str)
    }

    /// Whether there is such a tensor.
    #[must_use]
    pub fn contains(&self, name: &str) -> bool {
        self.tensors.contains_key(name)
    }

    /// A tensor of any shape.
    ///
    /// # Errors
    /// [`Error::MissingTensor`] or [`Error::Dtype`].
    pub fn tensor(&self, name: &str) -> Result<Tensor, Error> {
        let view = self.view(name)?;
        let mut data = vec![0.0; view.shape.iter().product()];
        view.widen(0, &mut data);
        Ok(Tensor {
            shape: view.shape.to_vec(),
            data,
        })
    }

    /// The values of a tensor of that shape.
    ///
    /// # Errors
    /// [`Error::MissingTensor`], [`Error::Dtype`] or [`Error::Shape`].
    pub fn values(&self, name: &str, shape: &[usize]) -> Result<Vec<f32>, Error> {
        let view = self.shaped(name, shape)?;
        let mut data = vec![0.0; shape.iter().product()];
        view.widen(0, &mut data);
        Ok(data)
    }

    /// A tensor of that shape, not read yet.
    pub(crate) fn shaped(&self, name: &str, shape: &[usize]) -> Result<View<'_>, Error> {
        let view = self.view(name)?;
        if view.shape != shape {
            return Err(Error::Shape {
                name: name.into(),
                expected: shape.to_vec(),
                found: view.shape.to_vec(),
            });
        }
        Ok(view)
    }

    fn view(&self, name: &str) -> Result<View<'_>, Error> {
        let entry = self
            .tensors
            .get(name)
            .ok_or_else(|| Error::MissingTensor { name: name.into() })?;
        let values = match &entry.data {
            Data::Owned(data) => Values::F32(data),
            Data::File { file, range, dtype } => {
                let bytes = &file[range.clone()];
                match dtype {
                    Dtype::F32 => Values::F32Bytes(bytes),
                    Dtype::BF16 => Values::Bf16Bytes(bytes),
                    Dtype::F16 => Values::F16Bytes(bytes),
                    other => {
                        let dtype = format!("{other:?}");
                        return Err(Error::Dtype {
                            name: name.into(),
                            dtype,
                        });
                    }
                }
            }
        };
        Ok(View {
            shape: &entry.shape,
            values,
        })
    }

    fn load_sharded(checkpoint: &Checkpoint, index: &str) -> Result<Self, Error> {
        #[derive(serde::Deserialize)]
        struct Index {
            weight_map: HashMap<String, String>,
        }
        let path = checkpoint.path_of(INDEX);
        let Index { weight_map } = serde_json::from_str(index).map_err(|source| Error::Json {
            path: path.clone(),
            source,
        })?;
        let broken = |reason: String| Error::Checkpoint {
            path: path.clone(),
            reason,
        };
        let mut files: Vec<&String> = weight_map.values().collect();
        files.sort();
        files.dedup();
        let mut weights = Self::default();
        for file in files {
            // A shard lies beside its index; a path out of the directory is no shard.
            if file.contains(['/', '\\']) || file == ".." {
                return Err(broken(format!("shard `{file}` is not a plain file name")));
            }
            weights.add_file(checkpoint.bytes(file)?, &checkpoint.path_of(file))?;
        }
        match weight_map.keys().find(|name| !weights.contains(name)) {
            Some(name) => Err(broken(format!("tensor `{name}` is in no shard"))),
            None => Ok(weights),
        }
    }

    fn add_file(&mut self, file: Bytes, path: &Path) -> Result<(), Error> {
        let file = Arc::new(file);
        let (header, metadata) = SafeTensors::read_metadata(&file)
            .map_err(|source| corrupt(path.to_owned(), &source))?;
        // The offsets are relative to the end of the header and its 8-byte length.
        let start = header + 8;
        for (name, info) in metadata.tensors() {
            let (from, to) = info.data_offsets;
            let range = start + from..start + to;
            let data = Data::File {
                file: Arc::clone(&file),
                range,
                dtype: info.dtype,
            };
            self.tensors.insert(
                name,
                Entry {
                    shape: info.shape.clone(),
                    data,
                },
            );
        }
        Ok(())
    }
}

fn corrupt(path: PathBuf, source: &safetensors::SafeTensorError) -> Error {
    Error::Checkpoint {
        path,
        reason: format!("truncated or corrupt safetensors file ({source})"),
    }
}

/// A tensor, widened piece by piece.
pub(crate) struct View<'a> {
    shape: &'a [usize],
    values: Values<'a>,
}

enum Values<'a> {
    F32(&'a [f32]),
    F32Bytes(&'a [u8]),
    Bf16Bytes(&'a [u8]),
    F16Bytes(&'a [u8]),
}

impl View<'_> {
    /// The narrowest format that holds all values exactly.
    pub(crate) fn format(&self) -> WeightFormat {
        match self.values {
            Values::F32(_) | Values::F32Bytes(_) => WeightFormat::F32,
            Values::Bf16Bytes(_) => WeightFormat::Bf16,
            Values::F16Bytes(_) => WeightFormat::F16,
        }
    }

    /// Size of the first dimension.
    pub(crate) fn rows(&self) -> usize {
        self.shape.first().copied().unwrap_or(1)
    }

    /// Writes the values from `start` on.
    pub(crate) fn widen(&self, start: usize, out: &mut [f32]) {
        fn words<const N: usize>(
            bytes: &[u8],
            start: usize,
            out: &mut [f32],
            value: impl Fn([u8; N]) -> f32,
        ) {
            let bytes = &bytes[start * N..][..out.len() * N];
            for (out, word) in out.iter_mut().zip(bytes.as_chunks::<N>().0) {
                *out = value(*word);
            }
        }
        match self.values {
            Values::F32(data) => out.copy_from_slice(&data[start..][..out.len()]),
            Values::F32Bytes(bytes) => words(bytes, start, out, f32::from_le_bytes),
            Values::Bf16Bytes(bytes) => {
                words(bytes, start, out, |b| half::bf16::from_le_bytes(b).to_f32());
            }
            Values::F16Bytes(bytes) => {
                words(bytes, start, out, |b| half::f16::from_le_bytes(b).to_f32());
            }
        }
    }
}
