//! Takes the fields of a JSON object one by one. A field that nobody took is an error.

use beamgen::program::nearest;
use serde_json::{Map, Value};

use crate::refusal::Refusal;

/// The remaining fields of a JSON object.
#[derive(Debug)]
pub(crate) struct Fields {
    map: Map<String, Value>,
    /// The prefix of field names in messages: `beamgen.`, or empty.
    prefix: &'static str,
    /// The names asked for so far; the error about an unknown field suggests the nearest one.
    known: Vec<&'static str>,
}

impl Fields {
    pub(crate) fn new(map: Map<String, Value>, prefix: &'static str) -> Self {
        Self {
            map,
            prefix,
            known: Vec::new(),
        }
    }

    /// Returns a field's name as the client knows it, such as `beamgen.n`.
    pub(crate) fn name(&self, key: &str) -> String {
        format!("{}{key}", self.prefix)
    }

    /// Returns a refusal because of a field's value.
    pub(crate) fn wrong(&self, key: &str, reason: &str) -> Refusal {
        Refusal::field("invalid_value", self.name(key), reason)
    }

    /// Takes a field's value; `null` counts as a missing field.
    pub(crate) fn take(&mut self, key: &'static str) -> Option<Value> {
        // A missing field is remembered, too: an unknown field may be a misspelling of its name.
        self.known.push(key);
        self.map.shift_remove(key).filter(|value| !value.is_null())
    }

    /// Takes a field if its value is -1, with which vLLM and llama.cpp turn a setting off. Returns
    /// whether it was taken.
    pub(crate) fn is_off(&mut self, key: &'static str) -> bool {
        let is_off = self.map.get(key).and_then(Value::as_i64) == Some(-1);
        is_off && self.take(key).is_some()
    }

    /// Takes a field if its value is `false`, for fields that otherwise are numbers. Returns
    /// whether it was taken.
    pub(crate) fn is_false(&mut self, key: &'static str) -> bool {
        let is_false = self.map.get(key) == Some(&Value::Bool(false));
        is_false && self.take(key).is_some()
    }

    /// Returns the fields that nobody took, without those that are null.
    pub(crate) fn rest(self) -> impl Iterator<Item = (String, Value)> {
        self.map.into_iter().filter(|(_, value)| !value.is_null())
    }

    /// Whether the object has the field, with a value other than null.
    pub(crate) fn has(&self, key: &str) -> bool {
        self.map.get(key).is_some_and(|value| !value.is_null())
    }

    /// Renames a field unless the object has the new name, too. Returns whether it was renamed.
    pub(crate) fn rename(&mut self, old: &str, name: &str) -> bool {
        // If both are given, the old name stays and is refused as an unknown field.
        let is_old = self.has(old) && !self.has(name);
        if is_old && let Some(value) = self.map.shift_remove(old) {
            self.map.insert(name.to_owned(), value);
        }
        // A null under the old name counts as a missing field.
        if self.map.get(old).is_some_and(Value::is_null) {
            self.map.shift_remove(old);
        }
        is_old
    }

    /// Takes a field's value, converted by `read`. If `read` fails, the refusal has `advice` as its
    /// reason.
    fn typed<T>(
        &mut self,
        key: &'static str,
        read: impl Fn(&Value) -> Option<T>,
        advice: &str,
    ) -> Result<Option<T>, Refusal> {
        let value = self.take(key);
        let Some(value) = value else {
            return Ok(None);
        };
        read(&value)
            .map(Some)
            .ok_or_else(|| self.wrong(key, advice))
    }

    pub(crate) fn whole(&mut self, key: &'static str) -> Result<Option<u64>, Refusal> {
        self.typed(key, Value::as_u64, "not a whole number, 0 or more")
    }

    pub(crate) fn count(&mut self, key: &'static str) -> Result<Option<usize>, Refusal> {
        let value = self.whole(key)?;
        let Some(value) = value else {
            return Ok(None);
        };
        usize::try_from(value)
            .map(Some)
            .map_err(|_| self.wrong(key, "too large"))
    }

    pub(crate) fn number(&mut self, key: &'static str) -> Result<Option<f64>, Refusal> {
        self.typed(key, Value::as_f64, "not a number")
    }

    pub(crate) fn text(&mut self, key: &'static str) -> Result<Option<String>, Refusal> {
        self.typed(
            key,
            |value| value.as_str().map(str::to_owned),
            "not a string",
        )
    }

    pub(crate) fn flag(&mut self, key: &'static str) -> Result<bool, Refusal> {
        Ok(self.maybe_flag(key)?.unwrap_or_default())
    }

    pub(crate) fn maybe_flag(&mut self, key: &'static str) -> Result<Option<bool>, Refusal> {
        self.typed(key, Value::as_bool, "not true or false")
    }

    pub(crate) fn object(&mut self, key: &'static str) -> Result<Map<String, Value>, Refusal> {
        let object = self.typed(key, |value| value.as_object().cloned(), "not an object")?;
        Ok(object.unwrap_or_default())
    }

    /// Refuses the object if a field was not taken.
    pub(crate) fn end(self) -> Result<(), Refusal> {
        let Some((key, _)) = self.map.iter().next() else {
            return Ok(());
        };
        let advice = match nearest(key, self.known.iter().copied()) {
            Some(near) => format!("unknown field: the nearest is {}", self.name(near)),
            None => "unknown field: leave it out".to_owned(),
        };
        // A client can send a name of any length, and the error repeats it.
        let key: String = key.chars().take(100).collect();
        Err(Refusal::field("unknown_field", self.name(&key), &advice))
    }
}
