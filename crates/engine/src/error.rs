use std::path::{Path, PathBuf};

use crate::{SeqId, TemplateError, WeightType};

/// Why the engine refuses.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A file cannot be read.
    #[error("{}: {source}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// A JSON file does not parse.
    #[error("{}: {source}", path.display())]
    Json {
        /// The file.
        path: PathBuf,
        /// Where and why.
        source: serde_json::Error,
    },
    /// A configuration lacks a field.
    #[error("{}: field `{field}` is missing", path.display())]
    MissingField {
        /// The file.
        path: PathBuf,
        /// The field.
        field: String,
    },
    /// A field has a value that cannot be.
    #[error("{}: field `{field}` is {value}, expected {expected}", path.display())]
    BadField {
        /// The file.
        path: PathBuf,
        /// The field.
        field: String,
        /// Its value.
        value: String,
        /// What would do.
        expected: String,
    },
    /// A field asks for arithmetic that this engine does not do.
    #[error("{}: field `{field}` is {value}, which is not supported ({supported})", path.display())]
    Unsupported {
        /// The file.
        path: PathBuf,
        /// The field.
        field: String,
        /// Its value.
        value: String,
        /// What is supported.
        supported: String,
    },
    /// A directory without a checkpoint.
    #[error("{}: no model.safetensors, model.safetensors.index.json, pytorch_model.bin or \
             pytorch_model.bin.index.json (a GGUF file is named itself, with its `.gguf`)", path.display())]
    NoCheckpoint {
        /// The directory.
        path: PathBuf,
    },
    /// A checkpoint file is truncated or corrupt.
    #[error("{}: {reason}", path.display())]
    Checkpoint {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
    /// A tensor is not in the checkpoint.
    #[error("tensor `{name}` is missing from the checkpoint")]
    MissingTensor {
        /// The tensor.
        name: String,
    },
    /// A checkpoint's file became shorter while it was read.
    #[error("tensor `{name}`: the checkpoint's file was shortened while it was read")]
    Shortened {
        /// The tensor that was wanted.
        name: String,
    },
    /// A tensor has another shape than the configuration says.
    #[error("tensor `{name}` has shape {found:?}, the configuration says {expected:?}")]
    Shape {
        /// The tensor.
        name: String,
        /// Shape by the configuration.
        expected: Vec<usize>,
        /// Shape in the checkpoint.
        found: Vec<usize>,
    },
    /// A tensor has a type of numbers that is not read.
    #[error(
        "tensor `{name}` has dtype {dtype}, supported are F32, F16, BF16 and GGUF's Q4_0, Q4_1, Q5_0, \
             Q5_1, Q8_0, Q2_K, Q3_K, Q4_K, Q5_K, Q6_K"
    )]
    Dtype {
        /// The tensor.
        name: String,
        /// Its dtype.
        dtype: String,
    },
    /// A tensor has values beyond the range of the type that was asked for.
    #[error("tensor `{name}` has values beyond the range of {weight_type}; use f32, bf16 or auto")]
    WeightRange {
        /// The tensor.
        name: String,
        /// The type that was asked for.
        weight_type: WeightType,
    },
    /// The checkpoint has a weight of the decoder that the configuration does not know: the
    /// results would be wrong without it.
    #[error("tensor `{name}` is in the checkpoint, but the configuration has no use for it")]
    UnexpectedTensor {
        /// The tensor.
        name: String,
    },
    /// An engine setting that cannot be.
    #[error("engine setting `{field}`: {reason}")]
    Setting {
        /// The setting.
        field: &'static str,
        /// Why not.
        reason: String,
    },
    /// The sequence was freed, or comes from another engine.
    #[error("sequence {0:?} does not exist")]
    UnknownSequence(SeqId),
    /// A sequence appears twice in one call.
    #[error("sequence {0:?} appears twice in one forward call")]
    DuplicateSequence(SeqId),
    /// A token is outside the vocabulary.
    #[error("token {token} is outside the model's vocabulary of {vocab}")]
    UnknownToken {
        /// The token.
        token: u32,
        /// Size of the vocabulary.
        vocab: usize,
    },
    /// A sequence would become longer than the model's context.
    #[error("{len} tokens and {extra} more exceed the model's context of {max}")]
    ContextOverflow {
        /// Length of the sequence.
        len: usize,
        /// Tokens to append.
        extra: usize,
        /// Longest sequence.
        max: usize,
    },
    /// The wanted rows are not rows of the appended tokens, in rising order.
    #[error("wanted row {index} of {tokens} appended tokens (indices must rise and lie inside)")]
    BadWant {
        /// The offending index.
        index: usize,
        /// Tokens of the item.
        tokens: usize,
    },
    /// Not enough free pages. Nothing was changed.
    #[error("out of key-value memory: {needed} pages needed, {free} free")]
    OutOfMemory {
        /// Pages the call needs.
        needed: usize,
        /// Pages that are free.
        free: usize,
    },
    /// The device cannot be used, or failed. What was computed on it may be lost.
    #[error("device: {0}")]
    Device(String),
    /// Logits asked of a model without a language-model head.
    #[error("the model has no language-model head, only hidden states")]
    NoHead,
    /// No logit of a row is above minus infinity.
    #[error("the model's logits are not numbers (NaN): its weights are damaged, or overflow")]
    NotNumbers,
    /// tokenizer.json does not load, or text does not encode.
    #[error("{}: {reason}", path.display())]
    Tokenizer {
        /// The file.
        path: PathBuf,
        /// What the tokenizer said.
        reason: String,
    },
    /// The tokenizer is not the model's.
    #[error("{}: does not match the model: {reason}", path.display())]
    TokenizerMismatch {
        /// The tokenizer's file.
        path: PathBuf,
        /// What does not match.
        reason: String,
    },
    /// A sampling setting that cannot be.
    #[error("sampling setting `{field}` is {value}, expected {expected}")]
    Sampling {
        /// The setting.
        field: &'static str,
        /// Its value.
        value: f32,
        /// What would do.
        expected: &'static str,
    },
    /// A chat template is not valid Jinja, or beyond the limits of templates.
    #[error(transparent)]
    Template(#[from] TemplateError),
    /// A date for chat templates is no day.
    #[error("date {0:?} is no day: write YYYY-MM-DD")]
    Date(String),
}

impl Error {
    pub(crate) fn setting(field: &'static str, reason: impl Into<String>) -> Self {
        let reason = reason.into();
        Self::Setting { field, reason }
    }

    pub(crate) fn checkpoint(path: &Path, reason: impl Into<String>) -> Self {
        let (path, reason) = (path.to_owned(), reason.into());
        Self::Checkpoint { path, reason }
    }

    pub(crate) fn json(path: &Path, source: serde_json::Error) -> Self {
        let path = path.to_owned();
        Self::Json { path, source }
    }
}

#[cfg(feature = "cuda")]
impl From<beamgen_kernels::cuda::CudaError> for Error {
    fn from(error: beamgen_kernels::cuda::CudaError) -> Self {
        Self::Device(error.to_string())
    }
}

/// Why the contents of a file are refused, in one line; the file is named by whoever opened it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub(crate) struct Malformed(pub(crate) String);

impl From<String> for Malformed {
    fn from(reason: String) -> Self {
        Self(reason)
    }
}

impl From<&str> for Malformed {
    fn from(reason: &str) -> Self {
        Self(reason.to_owned())
    }
}
