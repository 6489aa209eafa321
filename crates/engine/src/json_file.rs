//! The JSON files beside a tokenizer.

use std::path::PathBuf;

use serde_json::Value;

use crate::{Checkpoint, Error};

/// A JSON file beside the tokenizer; empty if it does not exist.
pub(crate) struct JsonFile {
    pub path: PathBuf,
    pub value: Value,
}

impl JsonFile {
    pub fn load(checkpoint: &Checkpoint, file: &str) -> Result<Self, Error> {
        let path = checkpoint.path_of(file);
        let value = match checkpoint.text(file)? {
            Some(text) => serde_json::from_str(&text).map_err(|source| Error::Json {
                path: path.clone(),
                source,
            })?,
            None => Value::Null,
        };
        Ok(Self { path, value })
    }

    /// An id, a list of ids, or nothing.
    pub fn ids(&self, field: &str) -> Result<Vec<u32>, Error> {
        let id = |v: &Value| v.as_u64().and_then(|id| u32::try_from(id).ok());
        let ids = match self.value.get(field) {
            None | Some(Value::Null) => Some(Vec::new()),
            Some(Value::Array(list)) => list.iter().map(id).collect(),
            Some(one) => id(one).map(|id| vec![id]),
        };
        ids.ok_or_else(|| self.bad(field, "a token id or a list of them"))
    }

    /// A number, or nothing.
    pub fn number(&self, field: &str) -> Result<Option<f32>, Error> {
        match self.value.get(field) {
            None | Some(Value::Null) => Ok(None),
            Some(value) => match value.as_f64() {
                Some(number) => Ok(Some(number as f32)),
                None => Err(self.bad(field, "a number")),
            },
        }
    }

    /// A count, or nothing.
    pub fn count(&self, field: &str) -> Result<Option<usize>, Error> {
        match self.value.get(field) {
            None | Some(Value::Null) => Ok(None),
            Some(value) => match value.as_u64().and_then(|n| usize::try_from(n).ok()) {
                Some(count) => Ok(Some(count)),
                None => Err(self.bad(field, "a whole number, 0 or more")),
            },
        }
    }

    pub fn bad(&self, field: &str, expected: &str) -> Error {
        Error::BadField {
            path: self.path.clone(),
            field: field.into(),
            value: self.value[field].to_string(),
            expected: expected.into(),
        }
    }
}
