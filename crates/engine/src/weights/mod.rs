//! The tensors of a checkpoint by name. Values are converted to float32 when they are read.

mod adapter;
mod gguf;
mod safetensors;
mod torch;

use std::collections::{BTreeMap, HashMap};
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use beamgen_kernels::{Q8Block, WeightFormat};

use crate::bytes::Bytes;
use crate::checkpoint::ADAPTER;
use crate::{Checkpoint, Encoding, Error};

/// Named tensors, from a checkpoint or created in memory.
#[derive(Debug, Default)]
pub struct Weights {
    tensors: BTreeMap<String, Entry>,
}

/// A tensor widened to float32, row-major.
#[derive(Clone, Debug, PartialEq)]
pub struct Tensor {
    /// The sizes of the dimensions, outermost first.
    pub shape: Vec<usize>,
    /// The values in row-major order; the last dimension varies fastest.
    pub data: Vec<f32>,
}

/// A tensor in a file, or in memory.
#[derive(Debug)]
struct Entry {
    shape: Vec<usize>,
    file: Arc<Bytes>,
    /// The tensor's bytes in `file`. The creator of an entry must check that their number agrees
    /// with shape and encoding.
    range: Range<usize>,
    /// The encoding, or the name of an unsupported number type. An unsupported tensor is an error
    /// only when it is read.
    encoding: Result<Encoding, String>,
    /// The rows of a head, if the rows of a head's two halves alternate, as llama.cpp stores them.
    /// The number is even and divides the number of rows. `None` if the rows are in order.
    interleaved: Option<usize>,
    /// The change by an adapter; `None` without one.
    delta: Option<Arc<adapter::Delta>>,
}

impl Entry {
    fn new(
        shape: Vec<usize>,
        file: &Arc<Bytes>,
        range: Range<usize>,
        encoding: Result<Encoding, String>,
    ) -> Self {
        Self {
            shape,
            file: Arc::clone(file),
            range,
            encoding,
            interleaved: None,
            delta: None,
        }
    }

    fn bytes(&self) -> &[u8] {
        &self.file[self.range.clone()]
    }

    /// Whether both have the same bytes in the same encoding and order. Decodes nothing.
    fn same_as(&self, other: &Self) -> bool {
        self.shape == other.shape
            && self.encoding.is_ok()
            && self.encoding == other.encoding
            && self.interleaved == other.interleaved
            && self.delta == other.delta
            && self.bytes() == other.bytes()
    }
}

/// Reads the tensors of a file into the collection; the path is for messages.
type AddFile = fn(&mut Weights, Bytes, &Path) -> Result<(), Error>;

impl Weights {
    /// Creates bfloat16 tensors of these shapes. All are prefixes of the same noise, with
    /// magnitudes from 1/64 to 1/32.
    pub(crate) fn noise(shapes: Vec<(String, Vec<usize>)>) -> Self {
        let values = |shape: &[usize]| shape.iter().product::<usize>();
        let most = shapes.iter().map(|(_, shape)| values(shape)).max();
        let mut state = 0x9E37_79B9_7F4A_7C15u64;
        let mut noise = Vec::with_capacity(2 * most.unwrap_or(0));
        for _ in 0..most.unwrap_or(0) {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            // The sign and the fraction are random, and the exponent is that of 1/64.
            let bits = (state >> 48) as u16 & 0x807F | 0x3C80;
            noise.extend(bits.to_le_bytes());
        }
        let file = Arc::new(Bytes::Owned(noise));
        let tensors = shapes.into_iter().map(|(name, shape)| {
            let range = 0..2 * values(&shape);
            (name, Entry::new(shape, &file, range, Ok(Encoding::Bf16)))
        });
        Self {
            tensors: tensors.collect(),
        }
    }

    /// Opens the tensors of a checkpoint. In a directory, uses the first that exists of
    /// `model.safetensors`, `model.safetensors.index.json`, `pytorch_model.bin` and
    /// `pytorch_model.bin.index.json`. An index lists further files (shards). A directory with a
    /// LoRA adapter gives the tensors of its base with the adapter's added.
    ///
    /// # Errors
    /// [`Error::NoCheckpoint`] if the directory has none of these files; [`Error::Checkpoint`] for
    /// a truncated or corrupt file, and for an index that names tensors or files which do not
    /// exist. A GGUF file may also give [`Error::Unsupported`] and [`Error::UnexpectedTensor`].
    pub fn load(checkpoint: impl Into<Checkpoint>) -> Result<Self, Error> {
        let checkpoint = checkpoint.into();
        let mut weights = Self::default();
        if let Some(file) = checkpoint.gguf()? {
            gguf::add(&mut weights, &file)?;
            return Ok(weights);
        }
        // A folder may have weights and an adapter. `transformers` would apply the adapter to its
        // base, whatever other weights the folder has.
        if checkpoint.is_adapter() {
            let mut weights = Self::load(checkpoint.base()?.clone())?;
            if weights.has_blocks() {
                let reason = "an adapter needs a base in Hugging Face layout, not a GGUF file";
                return Err(Error::checkpoint(&checkpoint.path_of(ADAPTER), reason));
            }
            adapter::add(&mut weights, &checkpoint)?;
            return Ok(weights);
        }
        let sources: [(&str, &str, AddFile); 2] = [
            // If a folder has both kinds, `transformers` reads the safetensors.
            (safetensors::SINGLE, safetensors::INDEX, safetensors::add),
            (torch::SINGLE, torch::INDEX, torch::add),
        ];
        for (single, index, add) in sources {
            if checkpoint.has(single) {
                let (file, path) = (checkpoint.bytes(single)?, checkpoint.path_of(single));
                add(&mut weights, file, &path)?;
                return Ok(weights);
            }
            if let Some(text) = checkpoint.text(index)? {
                weights.add_shards(&checkpoint, index, &text, add)?;
                return Ok(weights);
            }
        }
        Err(Error::NoCheckpoint {
            path: checkpoint.path().to_owned(),
        })
    }

    /// Creates weights from float32 tensors in memory instead of a checkpoint.
    ///
    /// # Errors
    /// [`Error::Shape`] if a tensor's number of values is not the product of its shape.
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
            let mut bytes = vec![0; 4 * data.len()];
            for (to, value) in bytes.as_chunks_mut().0.iter_mut().zip(data) {
                *to = value.to_le_bytes();
            }
            let range = 0..bytes.len();
            let file = Arc::new(Bytes::Owned(bytes));
            let entry = Entry::new(shape, &file, range, Ok(Encoding::F32));
            weights.tensors.insert(name, entry);
        }
        Ok(weights)
    }

    /// Removes a tensor, so that a model does not refuse it as unexpected. Returns whether the
    /// tensor existed.
    pub fn remove(&mut self, name: &str) -> bool {
        self.tensors.remove(name).is_some()
    }

    /// Renames a tensor; a tensor named `to` is overwritten. Returns whether `from` existed and
    /// `to` did not.
    pub(crate) fn rename(&mut self, from: &str, to: &str) -> bool {
        let entry = self.tensors.remove(from);
        entry.is_some_and(|entry| self.tensors.insert(to.to_owned(), entry).is_none())
    }

    /// Whether two tensors have the same values. Different tensors mostly differ in their first
    /// values, so the comparison is usually short.
    ///
    /// # Errors
    /// [`Error::MissingTensor`] or [`Error::Dtype`].
    pub(crate) fn same_values(&self, a: &str, b: &str) -> Result<bool, Error> {
        const PIECE: usize = 4096;
        let (view, other) = (self.view(a)?, self.view(b)?);
        if self.entry(a)?.same_as(self.entry(b)?) {
            return Ok(true);
        }
        let values: usize = view.shape.iter().product();
        let (mut piece, mut other_piece) = ([0.0; PIECE], [0.0; PIECE]);
        // The encodings may differ, so values are compared instead of bytes.
        Ok(view.shape == other.shape
            && (0..values).step_by(PIECE).all(|start| {
                let len = PIECE.min(values - start);
                view.widen(start, &mut piece[..len]);
                other.widen(start, &mut other_piece[..len]);
                piece[..len] == other_piece[..len]
            }))
    }

    /// Advises the system that a tensor will not be read soon, so that the pages of a mapped file
    /// may leave memory.
    pub(crate) fn set_aside(&self, name: &str) {
        if let Some(entry) = self.tensors.get(name) {
            entry.file.set_aside(entry.range.clone());
        }
    }

    /// The names of all tensors, in alphabetical order.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.tensors.keys().map(String::as_str)
    }

    /// Whether a tensor has this name. Its encoding may still be unsupported.
    #[must_use]
    pub fn contains(&self, name: &str) -> bool {
        self.tensors.contains_key(name)
    }

    /// The encoding of most values; `None` if no tensor has a supported encoding.
    #[must_use]
    pub fn main_encoding(&self) -> Option<Encoding> {
        let mut values: Vec<(Encoding, usize)> = Vec::new();
        for (name, entry) in &self.tensors {
            let Ok(encoding) = self.encoding(name) else {
                continue;
            };
            let count: usize = entry.shape.iter().product();
            match values.iter_mut().find(|(known, _)| *known == encoding) {
                Some((_, sum)) => *sum += count,
                None => values.push((encoding, count)),
            }
        }
        let most = values.into_iter().max_by_key(|&(_, count)| count);
        most.map(|(encoding, _)| encoding)
    }

    /// Whether any tensor has GGUF's quantised blocks, some of which int8 weights keep unchanged.
    #[must_use]
    pub fn has_blocks(&self) -> bool {
        let mut encodings = self.names().filter_map(|name| self.encoding(name).ok());
        encodings.any(Encoding::is_block)
    }

    /// Reads a tensor of any shape, converted to float32.
    ///
    /// # Errors
    /// [`Error::MissingTensor`] or [`Error::Dtype`].
    pub fn tensor(&self, name: &str) -> Result<Tensor, Error> {
        let shape = self.shape(name)?.to_vec();
        let data = self.values(name, &shape)?;
        Ok(Tensor { shape, data })
    }

    /// Reads the values of a tensor, converted to float32. The tensor must have the given shape.
    ///
    /// # Errors
    /// [`Error::MissingTensor`], [`Error::Dtype`] or [`Error::Shape`].
    pub fn values(&self, name: &str, shape: &[usize]) -> Result<Vec<f32>, Error> {
        let view = self.shaped(name, shape)?;
        let mut data = vec![0.0; shape.iter().product()];
        view.widen(0, &mut data);
        Ok(data)
    }

    /// Returns a view of a tensor, which must have the given shape. Reads no value.
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

    fn entry(&self, name: &str) -> Result<&Entry, Error> {
        self.tensors
            .get(name)
            .ok_or_else(|| Error::MissingTensor { name: name.into() })
    }

    /// The shape of a tensor, outermost dimension first.
    ///
    /// # Errors
    /// [`Error::MissingTensor`]
    pub fn shape(&self, name: &str) -> Result<&[usize], Error> {
        Ok(&self.entry(name)?.shape)
    }

    /// The encoding of a tensor's values. Tensors that were created in memory are float32.
    ///
    /// # Errors
    /// [`Error::MissingTensor`] or [`Error::Dtype`].
    pub fn encoding(&self, name: &str) -> Result<Encoding, Error> {
        let encoding = self.entry(name)?.encoding.clone();
        encoding.map_err(|dtype| Error::Dtype {
            name: name.into(),
            dtype,
        })
    }

    /// Whether both have the same decoder, byte for byte. Either may lack a language-model head,
    /// and other tensors (such as a reward model's head) are ignored. Different decoders mostly
    /// differ in their first bytes; equal ones are compared to the end.
    #[must_use]
    pub fn same_decoder(&self, other: &Self) -> bool {
        let (own, others) = (self.decoder(), other.decoder());
        let head = |name: &str| name.starts_with("lm_head.");
        own.iter().all(|(name, entry)| match others.get(name) {
            Some(other) => entry.same_as(other),
            None => head(name),
        }) && others
            .keys()
            .all(|name| own.contains_key(name) || head(name))
    }

    /// The decoder's tensors. Names are without the prefix `model.`, which not all checkpoints
    /// have.
    fn decoder(&self) -> BTreeMap<&str, &Entry> {
        let parts = ["layers.", "embed_tokens.", "norm.", "lm_head."];
        self.tensors
            .iter()
            .map(|(name, entry)| (name.strip_prefix("model.").unwrap_or(name), entry))
            .filter(|(name, _)| parts.iter().any(|part| name.starts_with(part)))
            .collect()
    }

    fn view(&self, name: &str) -> Result<View<'_>, Error> {
        let entry = self.entry(name)?;
        // Reading a mapped page beyond the end of a shortened file would kill the process.
        if !entry.file.are_whole() {
            return Err(Error::Shortened { name: name.into() });
        }
        Ok(View {
            shape: &entry.shape,
            bytes: entry.bytes(),
            encoding: self.encoding(name)?,
            interleaved: entry.interleaved,
            delta: entry.delta.as_deref(),
        })
    }

    fn add_shards(
        &mut self,
        checkpoint: &Checkpoint,
        index: &str,
        text: &str,
        add: AddFile,
    ) -> Result<(), Error> {
        #[derive(serde::Deserialize)]
        struct Index {
            weight_map: HashMap<String, String>,
        }
        let path = checkpoint.path_of(index);
        let index: Result<Index, _> = serde_json::from_str(text);
        let Index { weight_map } = index.map_err(|error| Error::json(&path, error))?;
        let broken = |reason: String| Error::checkpoint(&path, reason);
        let mut files: Vec<&String> = weight_map.values().collect();
        // The index has an entry per tensor, so it names a file many times.
        files.sort();
        files.dedup();
        for file in files {
            // A shard must be in the folder of its index. A path could lead out of the checkpoint's
            // folder.
            if file.contains(['/', '\\']) || file == ".." {
                return Err(broken(format!("shard `{file}` is not a plain file name")));
            }
            add(self, checkpoint.bytes(file)?, &checkpoint.path_of(file))?;
        }
        // A shard from another version of the checkpoint may lack tensors that the index lists.
        match weight_map.keys().find(|name| !self.contains(name)) {
            Some(name) => Err(broken(format!("tensor `{name}` is in no shard"))),
            None => Ok(()),
        }
    }
}

/// A tensor in a file, whose values are converted to float32 piece by piece.
pub(crate) struct View<'a> {
    shape: &'a [usize],
    bytes: &'a [u8],
    pub(crate) encoding: Encoding,
    interleaved: Option<usize>,
    delta: Option<&'a adapter::Delta>,
}

impl View<'_> {
    /// The size of the first dimension; 1 for a scalar.
    pub(crate) fn rows(&self) -> usize {
        self.shape.first().copied().unwrap_or(1)
    }

    /// The index in the file of row `row` of a matrix, or of value `row` of a vector.
    fn source(&self, row: usize) -> usize {
        let Some(head_dim) = self.interleaved else {
            return row;
        };
        // The file has the rows of a head's first half at even places, and those of the second half
        // at odd places.
        let (head, at) = (row / head_dim, row % head_dim);
        let half = head_dim / 2;
        head * head_dim + at % half * 2 + at / half
    }

    /// The narrowest number type that holds all values exactly; float32 for quantised blocks.
    pub(crate) fn format(&self) -> WeightFormat {
        match self.encoding {
            Encoding::Bf16 => WeightFormat::Bf16,
            Encoding::F16 => WeightFormat::F16,
            _ => WeightFormat::F32,
        }
    }

    /// Writes row `row` of a matrix as blocks of `format`. The blocks are copied if the tensor has
    /// this format; otherwise the values are rounded to `Q8_0`, and the row must be a multiple of
    /// 32. Returns whether all finite values stay finite.
    pub(crate) fn blocks(&self, row: usize, format: WeightFormat, blocks: &mut [u8]) -> bool {
        if self.encoding.blocks_format() == Some(format) {
            let from = self.source(row) * blocks.len();
            blocks.copy_from_slice(&self.bytes[from..][..blocks.len()]);
            return true;
        }
        let width: usize = self.shape[1..].iter().product();
        let mut weights = vec![0.0; width];
        self.widen(row * width, &mut weights);
        let mut in_range = true;
        let blocks = blocks.as_chunks_mut().0;
        for (to, weights) in blocks.iter_mut().zip(weights.chunks(32)) {
            let block = Q8Block::quantize(weights);
            in_range &= block.is_finite() || !weights.iter().all(|w| w.is_finite());
            *to = block.to_bytes();
        }
        in_range
    }

    /// Decodes `out.len()` values to float32, from value `start` on.
    pub(crate) fn widen(&self, start: usize, mut out: &mut [f32]) {
        if self.interleaved.is_none() {
            self.encoding.widen(self.bytes, start, out);
            if let Some(delta) = self.delta {
                delta.add(start, out, self.encoding);
            }
            return;
        }
        let width: usize = self.shape[1..].iter().product();
        let mut at = start;
        // Rows that are adjacent in the matrix are not adjacent in the file.
        while !out.is_empty() {
            let (row, column) = (at / width, at % width);
            let (piece, rest) = out.split_at_mut(out.len().min(width - column));
            let from = self.source(row) * width + column;
            self.encoding.widen(self.bytes, from, piece);
            at += piece.len();
            out = rest;
        }
    }
}

#[cfg(test)]
mod tests;
