//! Checks of `config.json` field by field. Impossible values are refused here, before candle gets
//! them.

use std::path::{Path, PathBuf};

use beamgen_engine::{Checkpoint, Tokenizer};
use serde_json::{Map, Value};

use crate::error::Error;

/// The largest value of most whole numbers. With larger ones candle would allocate too much memory.
pub(crate) const MOST: u64 = 1 << 20;
/// The largest number of layers that is accepted.
pub(crate) const MOST_LAYERS: u64 = 1 << 12;
/// The largest number of angles in a table of rotations, which candle allocates at once.
pub(crate) const MOST_ANGLES: u64 = 1 << 28;

/// Reads `config.json` and returns its path and its fields.
pub(crate) fn read_map(checkpoint: &Checkpoint) -> Result<(PathBuf, Map<String, Value>), Error> {
    let path = checkpoint.path_of("config.json");
    let text = checkpoint.required_text("config.json")?;
    match serde_json::from_str(&text) {
        Ok(map) => Ok((path, map)),
        Err(source) => Err(beamgen_engine::Error::Json { path, source }.into()),
    }
}

/// Finds the family by the file's `model_type`; `name` returns the `model_type` of a row.
pub(crate) fn family<'f, F>(
    path: &Path,
    map: &Map<String, Value>,
    families: &'f [F],
    name: fn(&F) -> &str,
) -> Result<&'f F, Error> {
    let wanted = map.get("model_type").and_then(Value::as_str);
    let wanted = wanted.unwrap_or_default();
    let found = families.iter().find(|family| name(family) == wanted);
    found.ok_or_else(|| {
        let known: Vec<&str> = families.iter().map(name).collect();
        let known = known.join(", ");
        refuse(
            path,
            format!("model_type {wanted:?} is not supported: use one of {known}"),
        )
    })
}

/// Refuses a tokenizer with more tokens than the embedding has rows.
pub(crate) fn check_tokens(
    checkpoint: &Checkpoint,
    rows: usize,
    tokenizer: &Tokenizer,
) -> Result<(), Error> {
    let tokens = tokenizer.len();
    // Fewer tokens than rows are common, since vocabularies are padded.
    if tokens > rows {
        let reason = format!("vocab_size is {rows}, but the tokenizer has {tokens} tokens");
        return Err(refuse(&checkpoint.path_of("config.json"), reason));
    }
    Ok(())
}

/// The name of a field, and its supported values as JSON texts. If there are none, the field must
/// be absent or `null`.
pub(crate) type Fixed = (&'static str, &'static [&'static str]);

pub(crate) struct Fields<'a> {
    pub path: &'a Path,
    pub map: &'a Map<String, Value>,
}

impl Fields<'_> {
    /// Refuses numbers that are too large, and a `partial_rotary_factor` that is not a fraction.
    pub(crate) fn check_numbers(&self) -> Result<(), Error> {
        for (name, value) in self.map {
            // The bases of rotary embeddings may be large, since no memory is allocated by them.
            let is_base = name.contains("theta") || name.contains("freq");
            if value.as_u64().is_some_and(|number| number > MOST) && !is_base {
                let reason = format!("{name} is {value}: use at most {MOST}");
                return Err(refuse(self.path, reason));
            }
        }
        let share = self
            .map
            .get("partial_rotary_factor")
            .and_then(Value::as_f64);
        if share.is_some_and(|share| !(share > 0.0 && share <= 1.0)) {
            let reason = "partial_rotary_factor must be above 0 and at most 1";
            return Err(refuse(self.path, reason.to_owned()));
        }
        Ok(())
    }

    /// Refuses values that candle would ignore although they change the results.
    pub(crate) fn check_fixed(&self, fixed: &[Fixed]) -> Result<(), Error> {
        for (name, computed) in fixed {
            // JSON texts are compared, so that a table can contain strings, numbers and lists.
            let found = self.map.get(*name).filter(|value| !value.is_null());
            let Some(found) = found.map(Value::to_string) else {
                continue;
            };
            if !computed.contains(&found.as_str()) {
                let computed = match computed {
                    [] => "nothing".to_owned(),
                    values => values.join(" and "),
                };
                let reason =
                    format!("{name} is {found}; candle-transformers computes only {computed}");
                return Err(refuse(self.path, reason));
            }
        }
        Ok(())
    }

    /// Refuses a number that differs from the value that candle computes for it.
    pub(crate) fn check_implied(&self, name: &str, implied: u64) -> Result<(), Error> {
        match self.optional(name, MOST)? {
            Some(found) if found != implied => Err(refuse(
                self.path,
                format!("{name} is {found}, but the other fields imply {implied}"),
            )),
            _ => Ok(()),
        }
    }

    pub(crate) fn optional(&self, name: &str, most: u64) -> Result<Option<u64>, Error> {
        match self.map.get(name).filter(|value| !value.is_null()) {
            None => Ok(None),
            Some(value) => match value.as_u64() {
                Some(size) if (1..=most).contains(&size) => Ok(Some(size)),
                _ => Err(refuse(
                    self.path,
                    format!("{name} is {value}: use a whole number from 1 to {most}"),
                )),
            },
        }
    }

    pub(crate) fn size(&self, name: &str, most: u64) -> Result<u64, Error> {
        self.optional(name, most)?
            .ok_or_else(|| refuse(self.path, format!("field {name} is missing")))
    }
}

pub(crate) fn refuse(path: &Path, reason: String) -> Error {
    let path: PathBuf = path.to_owned();
    Error::Config { path, reason }
}
