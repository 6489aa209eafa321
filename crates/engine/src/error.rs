use std::path::{Path, PathBuf};

use crate::{SeqId, TemplateError, WeightType};

/// The reason why the engine refuses a model, a setting or a call.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A file cannot be opened or read.
    #[error("{}: {source}", path.display())]
    Io {
        /// The file that was opened.
        path: PathBuf,
        /// The error of the operating system.
        source: std::io::Error,
    },
    /// A JSON file does not parse.
    #[error("{}: {source}", path.display())]
    Json {
        /// The file that was parsed.
        path: PathBuf,
        /// The parser's error, with line and column.
        source: serde_json::Error,
    },
    /// A configuration lacks a required field.
    #[error("{}: field `{field}` is missing", path.display())]
    MissingField {
        /// The configuration file.
        path: PathBuf,
        /// The name of the missing field.
        field: String,
    },
    /// A field of a configuration has an invalid value.
    #[error("{}: field `{field}` is {value}, expected {expected}", path.display())]
    BadField {
        /// The configuration file.
        path: PathBuf,
        /// The name of the field.
        field: String,
        /// The value in the file.
        value: String,
        /// The values that are valid.
        expected: String,
    },
    /// A field asks for arithmetic that this engine does not implement.
    #[error("{}: field `{field}` is {value}, which is not supported ({supported})", path.display())]
    Unsupported {
        /// The configuration file.
        path: PathBuf,
        /// The name of the field.
        field: String,
        /// The value in the file.
        value: String,
        /// The values that are implemented.
        supported: String,
    },
    /// A directory has no checkpoint in a known format.
    #[error("{}: no model.safetensors, model.safetensors.index.json, pytorch_model.bin or \
             pytorch_model.bin.index.json: give a folder with one of them, or a GGUF file by its own \
             name (.gguf)", path.display())]
    NoCheckpoint {
        /// The directory that was searched.
        path: PathBuf,
    },
    /// A checkpoint file is truncated or corrupt.
    #[error("{}: {reason}", path.display())]
    Checkpoint {
        /// The checkpoint file.
        path: PathBuf,
        /// The defect, as a clause that follows the path.
        reason: String,
    },
    /// The checkpoint lacks a tensor that the model needs.
    #[error("tensor `{name}` is missing from the checkpoint")]
    MissingTensor {
        /// The name of the missing tensor.
        name: String,
    },
    /// A checkpoint file became shorter while it was read.
    #[error("tensor `{name}`: the checkpoint's file was shortened while it was read")]
    Shortened {
        /// The tensor that was being read.
        name: String,
    },
    /// A tensor's shape differs from the shape in the configuration.
    #[error("tensor `{name}` has shape {found:?}, the configuration expects {expected:?}")]
    Shape {
        /// The name of the tensor.
        name: String,
        /// The shape by the configuration.
        expected: Vec<usize>,
        /// The shape in the checkpoint.
        found: Vec<usize>,
    },
    /// A tensor has an unsupported number type.
    #[error(
        "tensor `{name}` has dtype {dtype}, supported are F32, F16, BF16 and GGUF's Q4_0, Q4_1, Q5_0, \
             Q5_1, Q8_0, Q2_K, Q3_K, Q4_K, Q5_K, Q6_K"
    )]
    Dtype {
        /// The name of the tensor.
        name: String,
        /// The name of its number type in the checkpoint.
        dtype: String,
    },
    /// A tensor has values beyond the range of the requested type.
    #[error("tensor `{name}` has values beyond the range of {weight_type}; use f32, bf16 or auto")]
    WeightRange {
        /// The name of the tensor.
        name: String,
        /// The requested type.
        weight_type: WeightType,
    },
    /// The checkpoint has a weight of the decoder that the configuration does not mention. Without
    /// it the results would be wrong.
    #[error("tensor `{name}` is in the checkpoint, but the configuration has no use for it")]
    UnexpectedTensor {
        /// The name of the tensor.
        name: String,
    },
    /// A setting of the engine is invalid.
    #[error("engine setting `{field}`: {reason}")]
    Setting {
        /// The name of the setting.
        field: &'static str,
        /// Why the value is invalid, and what to use instead.
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
        /// The first such token of an item.
        token: u32,
        /// The size of the vocabulary.
        vocab: usize,
    },
    /// A sequence would become longer than the model's context.
    #[error("{len} tokens and {extra} more exceed the model's context of {max}")]
    ContextOverflow {
        /// The current length of the sequence.
        len: usize,
        /// The number of tokens to append.
        extra: usize,
        /// The model's context: the longest possible sequence.
        max: usize,
    },
    /// The indices of wanted rows do not rise, or lie outside the appended tokens.
    #[error("wanted row {index} of {tokens} appended tokens (indices must rise and lie inside)")]
    BadWant {
        /// The first wrong index.
        index: usize,
        /// The number of tokens that the item appends.
        tokens: usize,
    },
    /// Too few pages are free. No sequence was changed.
    #[error("out of key-value memory: {needed} pages needed, {free} free")]
    OutOfMemory {
        /// Pages that the call needs.
        needed: usize,
        /// Pages that are free.
        free: usize,
    },
    /// The device cannot be used, or failed. Results that were computed on it may be lost.
    #[error("device: {0}")]
    Device(String),
    /// Logits were requested from a model without a language-model head.
    #[error("the model has no language-model head, only hidden states")]
    NoHead,
    /// A row has no logit above minus infinity.
    #[error("the model's logits are not numbers (NaN): its weights are damaged, or overflow")]
    NotNumbers,
    /// A tokenizer.json does not load, or a text cannot be encoded.
    #[error("{}: {reason}", path.display())]
    Tokenizer {
        /// The tokenizer's file.
        path: PathBuf,
        /// The tokenizer's own message.
        reason: String,
    },
    /// The tokenizer does not fit the model: other tokens, or other numbers of them.
    #[error("{}: does not match the model: {reason}", path.display())]
    TokenizerMismatch {
        /// The tokenizer's file.
        path: PathBuf,
        /// The difference that was found.
        reason: String,
    },
    /// A sampling setting is invalid.
    #[error("sampling setting `{field}` is {value}, expected {expected}")]
    Sampling {
        /// The name of the setting.
        field: &'static str,
        /// The value that was given.
        value: f32,
        /// The values that are valid.
        expected: &'static str,
    },
    /// A chat template is not valid Jinja, or exceeds the limits of templates.
    #[error(transparent)]
    Template(#[from] TemplateError),
    /// The date for chat templates is not a calendar day.
    #[error("invalid date {0:?}: use YYYY-MM-DD")]
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

/// The reason why the contents of a file are refused, as one line without the file's name: whoever
/// opened the file adds it.
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
