//! Reads a GGUF file as a whole checkpoint. Its metadata is converted to the JSON files of Hugging
//! Face's layout.
//!
//! The format: <https://github.com/ggml-org/ggml/blob/master/docs/gguf.md>. Versions 2 and 3,
//! little endian.

mod config;
mod header;
mod tensors;
mod tokenizer;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use header::Value;

use crate::Error;
use crate::bytes::{Bytes, mapped};

/// A function that converts the metadata to the contents of a JSON file.
type Make = fn(&Gguf) -> Result<serde_json::Value, Error>;

/// The files of Hugging Face's layout that the metadata replaces.
const FILES: [(&str, Make); 4] = [
    ("config.json", config::config),
    ("generation_config.json", config::generation_config),
    ("tokenizer.json", tokenizer::tokenizer),
    ("tokenizer_config.json", tokenizer::tokenizer_config),
];

/// A GGUF file whose header was read and checked against its length.
#[derive(Debug)]
pub(crate) struct Gguf {
    path: PathBuf,
    bytes: Arc<Bytes>,
    metadata: BTreeMap<String, Value>,
    tensors: Vec<header::TensorInfo>,
}

/// Whether a GGUF file's metadata replaces `file` of Hugging Face's layout.
pub(crate) fn has(file: &str) -> bool {
    FILES.iter().any(|(name, _)| *name == file)
}

impl Gguf {
    /// Maps the file at `path` into memory, and reads and checks its header.
    pub(crate) fn open(path: &Path) -> Result<Self, Error> {
        let bytes = mapped(path)?;
        let header = header::read(&bytes);
        let header = header.map_err(|malformed| Error::checkpoint(path, malformed.0))?;
        let file = Self {
            path: path.to_owned(),
            bytes: Arc::new(bytes),
            metadata: header.metadata,
            tensors: header.tensors,
        };
        // A split file's header lists only the tensors of that part.
        let parts = file.integer("split.count")?.unwrap_or(1);
        if parts > 1 {
            let supported = "whole files; llama.cpp's `gguf-split --merge` joins the parts";
            return Err(file.unsupported("split.count", &parts.to_string(), supported));
        }
        Ok(file)
    }

    pub(crate) fn bytes(&self) -> &Arc<Bytes> {
        &self.bytes
    }

    /// Converts the metadata to the text of `file`; `None` if `file` is not in [`FILES`].
    pub(crate) fn text(&self, file: &str) -> Result<Option<String>, Error> {
        let found = FILES.iter().find(|(name, _)| *name == file);
        found
            .map(|(_, make)| Ok(make(self)?.to_string()))
            .transpose()
    }

    fn missing(&self, key: &str) -> Error {
        Error::MissingField {
            path: self.path.clone(),
            field: key.into(),
        }
    }

    fn bad(&self, key: &str, value: &str, expected: &str) -> Error {
        Error::BadField {
            path: self.path.clone(),
            field: key.into(),
            value: value.into(),
            expected: expected.into(),
        }
    }

    fn unsupported(&self, key: &str, value: &str, supported: &str) -> Error {
        Error::Unsupported {
            path: self.path.clone(),
            field: key.into(),
            value: value.into(),
            supported: supported.into(),
        }
    }

    fn scalar<T>(
        &self,
        key: &str,
        expected: &str,
        read: impl Fn(&Value) -> Option<T>,
    ) -> Result<Option<T>, Error> {
        self.metadata
            .get(key)
            .map(|value| {
                read(value).ok_or_else(|| self.bad(key, &value.describe(&self.bytes), expected))
            })
            .transpose()
    }

    fn integer(&self, key: &str) -> Result<Option<u64>, Error> {
        self.scalar(key, "a whole number", |value| match value {
            Value::Integer(n) => u64::try_from(*n).ok(),
            _ => None,
        })
    }

    fn number(&self, key: &str) -> Result<Option<f64>, Error> {
        self.scalar(key, "a number", |value| match value {
            Value::Integer(n) => Some(*n as f64),
            Value::Number(n) if n.is_finite() => Some(*n),
            _ => None,
        })
    }

    fn flag(&self, key: &str) -> Result<Option<bool>, Error> {
        self.scalar(key, "true or false", |value| match value {
            Value::Bool(b) => Some(*b),
            _ => None,
        })
    }

    fn string(&self, key: &str) -> Result<Option<&str>, Error> {
        match self.metadata.get(key) {
            None => Ok(None),
            Some(Value::Text(range)) => match std::str::from_utf8(&self.bytes[range.clone()]) {
                Ok(text) => Ok(Some(text)),
                Err(_) => Err(self.bad(key, "not UTF-8", "text")),
            },
            Some(other) => Err(self.bad(key, &other.describe(&self.bytes), "text")),
        }
    }

    fn required_string(&self, key: &str) -> Result<&str, Error> {
        self.string(key)?.ok_or_else(|| self.missing(key))
    }

    fn strings(&self, key: &str) -> Result<Option<Vec<&str>>, Error> {
        self.array(key, "a list of texts", |item| match item {
            Value::Text(range) => std::str::from_utf8(&self.bytes[range.clone()]).ok(),
            _ => None,
        })
    }

    fn integers(&self, key: &str) -> Result<Option<Vec<i64>>, Error> {
        self.array(key, "a list of whole numbers", |item| match item {
            Value::Integer(n) => i64::try_from(n).ok(),
            _ => None,
        })
    }

    fn numbers(&self, key: &str) -> Result<Option<Vec<f32>>, Error> {
        self.array(key, "a list of numbers", |item| match item {
            Value::Number(n) if n.is_finite() => Some(n as f32),
            _ => None,
        })
    }

    fn array<T>(
        &self,
        key: &str,
        expected: &str,
        read: impl Fn(Value) -> Option<T>,
    ) -> Result<Option<Vec<T>>, Error> {
        let Some(value) = self.metadata.get(key) else {
            return Ok(None);
        };
        let Value::Array { kind, len, start } = value else {
            return Err(self.bad(key, &value.describe(&self.bytes), expected));
        };
        // An array is decoded at each call, because the metadata keeps only its range in the file.
        let items = header::items(&self.bytes, *kind, *len, *start);
        let read: Option<Vec<T>> = items.map(read).collect();
        read.map(Some)
            .ok_or_else(|| self.bad(key, &value.describe(&self.bytes), expected))
    }
}
