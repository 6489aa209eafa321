//! The fields of a JSON object, taken out one by one; what is left over is refused by its name.

use beamgen::program::nearest;
use serde_json::{Map, Value};

use crate::refusal::Refusal;

/// The fields of an object that were not taken yet.
#[derive(Debug)]
pub(crate) struct Fields {
    map: Map<String, Value>,
    /// What the object is called: `beamgen.`, or nothing.
    prefix: &'static str,
    /// Names that were asked for, to name the nearest one.
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

    /// A field's full name.
    pub(crate) fn name(&self, key: &str) -> String {
        format!("{}{key}", self.prefix)
    }

    /// What is wrong with a field.
    pub(crate) fn wrong(&self, key: &str, reason: &str) -> Refusal {
        Refusal::field("invalid_value", self.name(key), reason)
    }

    /// A field's value; `null` is no value.
    pub(crate) fn take(&mut self, key: &'static str) -> Option<Value> {
        self.known.push(key);
        self.map.shift_remove(key).filter(|value| !value.is_null())
    }

    /// Gives a field its new name, and returns whether it was there by the old one alone.
    pub(crate) fn rename(&mut self, old: &str, name: &str) -> bool {
        let has = |key| self.map.get(key).is_some_and(|value| !value.is_null());
        let is_old = has(old) && !has(name);
        if is_old && let Some(value) = self.map.shift_remove(old) {
            self.map.insert(name.to_owned(), value);
        }
        is_old
    }

    /// A field's value as `read` has it.
    fn typed<T>(
        &mut self,
        key: &'static str,
        read: impl Fn(&Value) -> Option<T>,
        advice: &str,
    ) -> Result<Option<T>, Refusal> {
        let value = self.take(key);
        let of = |value: &Value| read(value).ok_or_else(|| self.wrong(key, advice));
        value.as_ref().map(of).transpose()
    }

    pub(crate) fn whole(&mut self, key: &'static str) -> Result<Option<u64>, Refusal> {
        self.typed(key, Value::as_u64, "write a whole number, 0 or more")
    }

    pub(crate) fn count(&mut self, key: &'static str) -> Result<Option<usize>, Refusal> {
        let value = self.whole(key)?;
        let of = |value| usize::try_from(value).map_err(|_| self.wrong(key, "it is too large"));
        value.map(of).transpose()
    }

    pub(crate) fn number(&mut self, key: &'static str) -> Result<Option<f64>, Refusal> {
        self.typed(key, Value::as_f64, "write a number")
    }

    pub(crate) fn text(&mut self, key: &'static str) -> Result<Option<String>, Refusal> {
        let text = |value: &Value| value.as_str().map(str::to_owned);
        self.typed(key, text, "write a string")
    }

    pub(crate) fn flag(&mut self, key: &'static str) -> Result<bool, Refusal> {
        let flag = self.typed(key, Value::as_bool, "write true or false")?;
        Ok(flag.unwrap_or_default())
    }

    pub(crate) fn object(&mut self, key: &'static str) -> Result<Map<String, Value>, Refusal> {
        let object = |value: &Value| value.as_object().cloned();
        Ok(self
            .typed(key, object, "write an object")?
            .unwrap_or_default())
    }

    /// Refuses what is left over.
    pub(crate) fn end(self) -> Result<(), Refusal> {
        let Some((key, _)) = self.map.iter().next() else {
            return Ok(());
        };
        let advice = match nearest(key, self.known.iter().copied()) {
            Some(near) => format!("there is no such field; the nearest is {}", self.name(near)),
            None => "there is no such field".to_owned(),
        };
        let key: String = key.chars().take(100).collect();
        Err(Refusal::field("unknown_field", self.name(&key), &advice))
    }
}
