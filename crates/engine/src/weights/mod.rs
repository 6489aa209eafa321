//! The tensors of a checkpoint by name, widened to float32 when they are read.

mod gguf;
mod safetensors;
mod torch;

use std::collections::{BTreeMap, HashMap};
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use beamgen_kernels::{Q8Block, WeightFormat};

use crate::bytes::Bytes;
use crate::{Checkpoint, Encoding, Error};

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

/// A tensor in a file, or in memory.
#[derive(Debug)]
struct Entry {
    shape: Vec<usize>,
    file: Arc<Bytes>,
    /// The tensor's bytes: as many as shape and encoding say, checked by whoever made the entry.
    range: Range<usize>,
    /// How values are stored, or the name of a type of numbers that is not read. Such a tensor may
    /// be there as long as nobody wants it.
    encoding: Result<Encoding, String>,
    /// The two halves of each head of so many rows alternate (llama.cpp's order for the rotation of
    /// neighbours). Divides the number of rows, and is even.
    interleaved: Option<usize>,
}

impl Entry {
    /// A tensor whose rows are in order.
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
        }
    }

    fn bytes(&self) -> &[u8] {
        &self.file[self.range.clone()]
    }

    /// Whether both hold the same values in the same encoding.
    fn same_as(&self, other: &Self) -> bool {
        self.shape == other.shape
            && self.encoding.is_ok()
            && self.encoding == other.encoding
            && self.interleaved == other.interleaved
            && self.bytes() == other.bytes()
    }
}

/// Reads the tensors of a file into the collection; the path is for messages.
type AddFile = fn(&mut Weights, Bytes, &Path) -> Result<(), Error>;

impl Weights {
    /// Tensors of these shapes, all of them the beginning of the same bfloat16 noise of magnitude
    /// 1/64 to 1/32.
    pub(crate) fn noise(shapes: Vec<(String, Vec<usize>)>) -> Self {
        let values = |shape: &[usize]| shape.iter().product::<usize>();
        let most = shapes.iter().map(|(_, shape)| values(shape)).max();
        let mut state = 0x9E37_79B9_7F4A_7C15u64;
        let mut noise = Vec::with_capacity(2 * most.unwrap_or(0));
        for _ in 0..most.unwrap_or(0) {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            // Sign and fraction; the exponent is that of 1/64.
            let bits = (state >> 48) as u16 & 0x807F | 0x3C80;
            noise.extend(bits.to_le_bytes());
        }
        let file = Arc::new(Bytes::Owned(noise));
        let tensor = |(name, shape): (String, Vec<usize>)| {
            let range = 0..2 * values(&shape);
            (name, Entry::new(shape, &file, range, Ok(Encoding::Bf16)))
        };
        Self {
            tensors: shapes.into_iter().map(tensor).collect(),
        }
    }

    /// The tensors of a checkpoint: those of a GGUF file, or of the first that is there of
    /// `model.safetensors`, the shards that `model.safetensors.index.json` names,
    /// `pytorch_model.bin`, and the shards that `pytorch_model.bin.index.json` names.
    ///
    /// # Errors
    /// [`Error::NoCheckpoint`]; [`Error::Checkpoint`] for truncated or corrupt files and for an
    /// index that names tensors or files which do not exist; for a GGUF file also
    /// [`Error::Unsupported`] and [`Error::UnexpectedTensor`].
    pub fn load(checkpoint: impl Into<Checkpoint>) -> Result<Self, Error> {
        let checkpoint = checkpoint.into();
        let mut weights = Self::default();
        if let Some(file) = checkpoint.gguf()? {
            gguf::add(&mut weights, &file)?;
            return Ok(weights);
        }
        checkpoint.refuse_adapter()?;
        let sources: [(&str, &str, AddFile); 2] = [
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

    /// Leaves a tensor out, so that nobody loads it. Returns whether it was there.
    pub fn remove(&mut self, name: &str) -> bool {
        self.tensors.remove(name).is_some()
    }

    /// Gives a tensor another name. Returns whether it was there.
    pub(crate) fn rename(&mut self, from: &str, to: &str) -> bool {
        let entry = self.tensors.remove(from);
        entry.is_some_and(|entry| self.tensors.insert(to.to_owned(), entry).is_none())
    }

    /// Whether two tensors hold the same values. Different ones are told apart after a few of them.
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
        let mut same = |start: usize| {
            let len = PIECE.min(values - start);
            view.widen(start, &mut piece[..len]);
            other.widen(start, &mut other_piece[..len]);
            piece[..len] == other_piece[..len]
        };
        Ok(view.shape == other.shape && (0..values).step_by(PIECE).all(&mut same))
    }

    /// Says that a tensor will not be read soon: the memory that a mapped file takes for it is free
    /// for others.
    pub(crate) fn set_aside(&self, name: &str) {
        if let Some(entry) = self.tensors.get(name) {
            entry.file.set_aside(entry.range.clone());
        }
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

    /// The encoding of most values; `None` if there are no tensors.
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

    /// Whether some are in GGUF's blocks of quantised values.
    #[must_use]
    pub fn has_blocks(&self) -> bool {
        let mut encodings = self.names().filter_map(|name| self.encoding(name).ok());
        encodings.any(Encoding::is_block)
    }

    /// A tensor of any shape.
    ///
    /// # Errors
    /// [`Error::MissingTensor`] or [`Error::Dtype`].
    pub fn tensor(&self, name: &str) -> Result<Tensor, Error> {
        let shape = self.shape(name)?.to_vec();
        let data = self.values(name, &shape)?;
        Ok(Tensor { shape, data })
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

    fn entry(&self, name: &str) -> Result<&Entry, Error> {
        self.tensors
            .get(name)
            .ok_or_else(|| Error::MissingTensor { name: name.into() })
    }

    /// The shape of a tensor.
    ///
    /// # Errors
    /// [`Error::MissingTensor`]
    pub fn shape(&self, name: &str) -> Result<&[usize], Error> {
        Ok(&self.entry(name)?.shape)
    }

    /// How the values of a tensor are stored; float32 for those made in memory.
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

    /// Whether both have the same decoder, byte for byte; a language-model head may be missing in
    /// one of them. What is not the decoder's (a reward model's head) is not looked at. Different
    /// ones are told apart after a few bytes, equal ones are read whole.
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

    /// The decoder's tensors, by names without `model.`.
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
        // Bytes that are gone would end the process.
        if !entry.file.are_whole() {
            return Err(Error::Shortened { name: name.into() });
        }
        Ok(View {
            shape: &entry.shape,
            bytes: entry.bytes(),
            encoding: self.encoding(name)?,
            interleaved: entry.interleaved,
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
        files.sort();
        files.dedup();
        for file in files {
            // A shard lies beside its index; a path out of the directory is no shard.
            if file.contains(['/', '\\']) || file == ".." {
                return Err(broken(format!("shard `{file}` is not a plain file name")));
            }
            add(self, checkpoint.bytes(file)?, &checkpoint.path_of(file))?;
        }
        match weight_map.keys().find(|name| !self.contains(name)) {
            Some(name) => Err(broken(format!("tensor `{name}` is in no shard"))),
            None => Ok(()),
        }
    }
}

/// A tensor, widened piece by piece.
pub(crate) struct View<'a> {
    shape: &'a [usize],
    bytes: &'a [u8],
    pub(crate) encoding: Encoding,
    interleaved: Option<usize>,
}

impl View<'_> {
    /// Size of the first dimension.
    pub(crate) fn rows(&self) -> usize {
        self.shape.first().copied().unwrap_or(1)
    }

    /// Where row `row` of a matrix (or value of a vector) is in the bytes.
    fn source(&self, row: usize) -> usize {
        let Some(head_dim) = self.interleaved else {
            return row;
        };
        let (head, at) = (row / head_dim, row % head_dim);
        let half = head_dim / 2;
        head * head_dim + at % half * 2 + at / half
    }

    /// The narrowest format that holds all values exactly.
    pub(crate) fn format(&self) -> WeightFormat {
        match self.encoding {
            Encoding::Bf16 => WeightFormat::Bf16,
            Encoding::F16 => WeightFormat::F16,
            _ => WeightFormat::F32,
        }
    }

    /// Writes row `row` of a matrix as blocks of `format`: its own, or the nearest of `Q8_0`, for
    /// which rows have to be multiples of 32. Returns whether all that is finite remains so.
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

    /// Writes the values from `start` on.
    pub(crate) fn widen(&self, start: usize, mut out: &mut [f32]) {
        if self.interleaved.is_none() {
            return self.encoding.widen(self.bytes, start, out);
        }
        let width: usize = self.shape[1..].iter().product();
        let mut at = start;
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
