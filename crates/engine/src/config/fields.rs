//! Fields of a JSON object, with errors that name file and field.

use std::path::PathBuf;

use serde_json::{Map, Value};

use crate::Error;

/// The largest size that is accepted, about 2^30. Positions and token ids are 32-bit numbers.
pub(super) const MAX_SIZE: usize = u32::MAX as usize / 4;

/// The fields of a configuration file, or of an object inside it. [`Fields::get`] treats `null`
/// like an absent field.
pub(super) struct Fields<'a> {
    pub(super) path: PathBuf,
    /// The prefix of field names in messages: empty, or the enclosing object's name and a dot.
    pub(super) prefix: String,
    pub(super) map: &'a Map<String, Value>,
}

impl<'a> Fields<'a> {
    pub(super) fn get(&self, field: &str) -> Option<&'a Value> {
        self.map.get(field).filter(|v| !v.is_null())
    }

    /// Whether the object has `field`, also with the value `null`. ([`get`](Self::get) ignores
    /// `null`.)
    pub(super) fn has(&self, field: &str) -> bool {
        self.map.contains_key(field)
    }

    /// The fields of the object in `field`; `None` if the object is absent or empty.
    pub(super) fn object(&self, field: &str) -> Result<Option<Fields<'a>>, Error> {
        let Some(value) = self.get(field) else {
            return Ok(None);
        };
        let map = value
            .as_object()
            .ok_or_else(|| self.bad(field, "an object"))?;
        Ok((!map.is_empty()).then(|| Fields {
            path: self.path.clone(),
            prefix: format!("{}{field}.", self.prefix),
            map,
        }))
    }

    /// The value of `field` for messages, cut after 80 bytes.
    fn shown(&self, field: &str) -> String {
        let mut text = self
            .map
            .get(field)
            .map_or_else(|| "missing".into(), Value::to_string);
        // A list of layers may have hundreds of entries, but a message is one line.
        if text.len() > 80 {
            let end = (0..=80)
                .rev()
                .find(|i| text.is_char_boundary(*i))
                .unwrap_or(0);
            text.truncate(end);
            text.push_str("...");
        }
        text
    }

    fn full(&self, field: &str) -> String {
        format!("{}{field}", self.prefix)
    }

    pub(super) fn bad(&self, field: &str, expected: &str) -> Error {
        Error::BadField {
            path: self.path.clone(),
            field: self.full(field),
            value: self.shown(field),
            expected: expected.into(),
        }
    }

    pub(super) fn unsupported(&self, field: &str, supported: &str) -> Error {
        Error::Unsupported {
            path: self.path.clone(),
            field: self.full(field),
            value: self.shown(field),
            supported: supported.into(),
        }
    }

    pub(super) fn missing(&self, field: &str) -> Error {
        Error::MissingField {
            path: self.path.clone(),
            field: self.full(field),
        }
    }

    /// Reads a field with `read`. If `read` returns `None`, the error says that `expected` was
    /// needed.
    fn optional<T>(
        &self,
        field: &str,
        expected: &str,
        read: impl Fn(&'a Value) -> Option<T>,
    ) -> Result<Option<T>, Error> {
        self.get(field)
            .map(|value| read(value).ok_or_else(|| self.bad(field, expected)))
            .transpose()
    }

    pub(super) fn optional_string(&self, field: &str) -> Result<Option<&'a str>, Error> {
        self.optional(field, "a string", Value::as_str)
    }

    pub(super) fn string(&self, field: &str) -> Result<&'a str, Error> {
        self.optional_string(field)?
            .ok_or_else(|| self.missing(field))
    }

    pub(super) fn optional_bool(&self, field: &str) -> Result<Option<bool>, Error> {
        self.optional(field, "true or false", Value::as_bool)
    }

    pub(super) fn bool(&self, field: &str) -> Result<bool, Error> {
        Ok(self.optional_bool(field)?.unwrap_or(false))
    }

    pub(super) fn optional_size(&self, field: &str) -> Result<Option<usize>, Error> {
        self.optional(field, "a positive whole number", |value| {
            let size = usize::try_from(value.as_u64()?).ok()?;
            // 0 is refused because sizes divide each other.
            (1..=MAX_SIZE).contains(&size).then_some(size)
        })
    }

    pub(super) fn size(&self, field: &str) -> Result<usize, Error> {
        self.optional_size(field)?
            .ok_or_else(|| self.missing(field))
    }

    /// Reads a number. If `good` rejects the number, the error says that `expected` was needed.
    pub(super) fn optional_number_if(
        &self,
        field: &str,
        expected: &str,
        good: impl Fn(f64) -> bool,
    ) -> Result<Option<f64>, Error> {
        match self.optional(field, "a number", Value::as_f64)? {
            Some(x) if !good(x) => Err(self.bad(field, expected)),
            x => Ok(x),
        }
    }
}
