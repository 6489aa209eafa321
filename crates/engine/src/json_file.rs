//! Reads fields of the small JSON files next to a tokenizer.

use std::path::PathBuf;

use serde_json::Value;

use crate::{Checkpoint, Error};

/// A parsed JSON file. The value is `null` if the file does not exist.
pub(crate) struct JsonFile {
    pub path: PathBuf,
    pub value: Value,
}

impl JsonFile {
    pub(crate) fn load(checkpoint: &Checkpoint, file: &str) -> Result<Self, Error> {
        let path = checkpoint.path_of(file);
        let value = match checkpoint.text(file)? {
            Some(text) => serde_json::from_str(&text).map_err(|e| Error::json(&path, e))?,
            None => Value::Null,
        };
        Ok(Self { path, value })
    }

    /// Reads a field with `read`; `None` if the field is absent or `null`. If `read` returns
    /// `None`, the error says that `expected` was needed.
    fn optional<T>(
        &self,
        field: &str,
        expected: &str,
        read: impl Fn(&Value) -> Option<T>,
    ) -> Result<Option<T>, Error> {
        let value = self.value.get(field).filter(|value| !value.is_null());
        value
            .map(|value| read(value).ok_or_else(|| self.bad(field, expected)))
            .transpose()
    }

    /// Reads a field that has one token id or a list of them. Returns an empty list if the field is
    /// absent.
    pub(crate) fn ids(&self, field: &str) -> Result<Vec<u32>, Error> {
        let id = |v: &Value| v.as_u64().and_then(|id| u32::try_from(id).ok());
        let ids = self.optional(field, "a token id or a list of them", |value| match value {
            Value::Array(list) => list.iter().map(id).collect(),
            one => id(one).map(|id| vec![id]),
        });
        Ok(ids?.unwrap_or_default())
    }

    /// Reads a number as float32; `None` if the field is absent.
    pub(crate) fn number(&self, field: &str) -> Result<Option<f32>, Error> {
        self.optional(field, "a number", |value| Some(value.as_f64()? as f32))
    }

    /// Reads a whole number, 0 or more; `None` if the field is absent.
    pub(crate) fn count(&self, field: &str) -> Result<Option<usize>, Error> {
        let expected = "a whole number, 0 or more";
        self.optional(field, expected, |value| {
            usize::try_from(value.as_u64()?).ok()
        })
    }

    pub(crate) fn bad(&self, field: &str, expected: &str) -> Error {
        Error::BadField {
            path: self.path.clone(),
            field: field.into(),
            value: self.value[field].to_string(),
            expected: expected.into(),
        }
    }
}
