use std::path::{Path, PathBuf};

use crate::{SeqId, TemplateError, WeightType};

/// The reasons why the engine refuses a model, a setting or a call.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A file cannot be opened or read, or does not exist.
    #[error("{}: {source}", path.display())]
    Io {
        /// The file, as the caller or the checkpoint named it.
        path: PathBuf,
        /// The operating system's error, or a more helpful reason.
        source: std::io::Error,
    },
    /// A JSON file does not parse.
    #[error("{}: {source}", path.display())]
    Json {
        /// The file, as the checkpoint names it.
        path: PathBuf,
        /// The parser's error, which has the line and column.
        source: serde_json::Error,
    },
    /// A configuration file, or a GGUF file's metadata, lacks a required field.
    #[error("{}: field `{field}` is missing", path.display())]
    MissingField {
        /// The file, or the GGUF file whose metadata should have the field.
        path: PathBuf,
        /// The field, with the name of the enclosing object if there is one.
        field: String,
    },
    /// A field of a configuration has a value of the wrong type or range.
    #[error("{}: field `{field}` is {value}, expected {expected}", path.display())]
    BadField {
        /// The configuration file, or the GGUF file with the metadata.
        path: PathBuf,
        /// The field, with the name of the enclosing object if there is one.
        field: String,
        /// The value in the file, shortened if it is long.
        value: String,
        /// The valid values, in words that follow "expected".
        expected: String,
    },
    /// A field asks for arithmetic that this engine does not implement.
    #[error("{}: field `{field}` is {value}, which is not supported ({supported})", path.display())]
    Unsupported {
        /// The configuration file, or the GGUF file with the metadata.
        path: PathBuf,
        /// The field, with the name of the enclosing object if there is one.
        field: String,
        /// The value in the file, shortened if it is long.
        value: String,
        /// The supported values, in words that explain the refusal.
        supported: String,
    },
    /// A directory has no weights in a known format.
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
        /// The file at fault.
        path: PathBuf,
        /// The defect, as a clause that follows the path.
        reason: String,
    },
    /// The checkpoint lacks a tensor that the configuration requires.
    #[error("tensor `{name}` is missing from the checkpoint")]
    MissingTensor {
        /// The tensor's name in Hugging Face checkpoints.
        name: String,
    },
    /// Another process shortened a checkpoint file while it was read.
    #[error("tensor `{name}`: the checkpoint's file was shortened while it was read")]
    Shortened {
        /// The tensor that was about to be read.
        name: String,
    },
    /// A tensor's shape is not the one that the configuration implies.
    #[error("tensor `{name}` has shape {found:?}, the configuration expects {expected:?}")]
    Shape {
        /// The tensor's Hugging Face name, also for a GGUF file.
        name: String,
        /// The shape that the configuration implies, outermost dimension first.
        expected: Vec<usize>,
        /// The shape in the checkpoint, outermost dimension first.
        found: Vec<usize>,
    },
    /// A tensor has a number type that the engine does not read.
    #[error(
        "tensor `{name}` has dtype {dtype}, supported are F32, F16, BF16 and GGUF's Q4_0, Q4_1, Q5_0, \
             Q5_1, Q8_0, Q2_K, Q3_K, Q4_K, Q5_K, Q6_K"
    )]
    Dtype {
        /// The tensor's Hugging Face name, also for a GGUF file.
        name: String,
        /// The name that the file format gives to the number type.
        dtype: String,
    },
    /// A tensor has values beyond the range of the requested weight type.
    #[error("tensor `{name}` has values beyond the range of {weight_type}; use f32, bf16 or auto")]
    WeightRange {
        /// The Hugging Face name of the first tensor with such a value.
        name: String,
        /// The weight type whose range is too small.
        weight_type: WeightType,
    },
    /// The checkpoint has a weight of the decoder that the configuration does not mention. Results
    /// without that weight would be wrong.
    #[error("tensor `{name}` is in the checkpoint, but the configuration has no use for it")]
    UnexpectedTensor {
        /// The tensor's Hugging Face name, also for a GGUF file.
        name: String,
    },
    /// A setting of the engine or of its device is invalid.
    #[error("engine setting `{field}`: {reason}")]
    Setting {
        /// The setting's name in [`EngineConfig`](crate::EngineConfig) or in a call.
        field: &'static str,
        /// The reason why the value is invalid, and the values to use instead.
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
        /// The first token of an item that is not less than `vocab`.
        token: u32,
        /// The size of the model's vocabulary, padding included.
        vocab: usize,
    },
    /// A sequence would become longer than the model's context.
    #[error("{len} tokens and {extra} more exceed the model's context of {max}")]
    ContextOverflow {
        /// The number of tokens in the sequence before the call.
        len: usize,
        /// The number of tokens that the call appends.
        extra: usize,
        /// The model's context, in tokens.
        max: usize,
    },
    /// The indices of wanted rows do not rise, or are not less than the number of appended tokens.
    #[error("wanted row {index} of {tokens} appended tokens (indices must rise and lie inside)")]
    BadWant {
        /// The first index that breaks a rule.
        index: usize,
        /// The number of tokens in the item.
        tokens: usize,
    },
    /// Too few pages are free. No sequence has changed; free some sequences and call again.
    #[error("out of key-value memory: {needed} pages needed, {free} free")]
    OutOfMemory {
        /// The pages that the call would take, copies of shared pages included.
        needed: usize,
        /// Pages that are free.
        free: usize,
    },
    /// The device cannot be used, or has failed. After a failure, results on the device may be
    /// lost.
    #[error("device: {0}")]
    Device(String),
    /// Logits were requested from a model without a language-model head, such as most reward
    /// models.
    #[error("the model has no language-model head, only hidden states")]
    NoHead,
    /// A row has no logit above minus infinity, so no token can be sampled.
    #[error("the model's logits are not numbers (NaN): its weights are damaged, or overflow")]
    NotNumbers,
    /// A `tokenizer.json` does not load, or a text cannot be encoded.
    #[error("{}: {reason}", path.display())]
    Tokenizer {
        /// The tokenizer's file, which is also named if the text is at fault.
        path: PathBuf,
        /// The reason, in the words of the tokenizer's library.
        reason: String,
    },
    /// The tokenizer does not fit the model: it has other tokens than the model was trained with.
    #[error("{}: does not match the model: {reason}", path.display())]
    TokenizerMismatch {
        /// The tokenizer's file.
        path: PathBuf,
        /// The numbers of tokens that do not fit, or the end-of-text token that the tokenizer
        /// lacks.
        reason: String,
    },
    /// A sampling setting is out of range.
    #[error("sampling setting `{field}` is {value}, expected {expected}")]
    Sampling {
        /// The setting's name in [`SamplingParams`](crate::SamplingParams).
        field: &'static str,
        /// The value, as float32 also for settings with whole numbers.
        value: f32,
        /// The valid range, in words.
        expected: &'static str,
    },
    /// A chat template is not valid Jinja, refuses a chat, or exceeds its limits.
    #[error(transparent)]
    Template(#[from] TemplateError),
    /// The date for chat templates (the text in this variant) is not a calendar day.
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

/// The reason why a file's contents are refused, in one line. The reader that knows the file's path
/// adds the path.
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
