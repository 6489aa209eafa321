//! `config.json` field by field: what no model can have is refused before candle sees it.

use std::path::{Path, PathBuf};

use beamgen_engine::{Checkpoint, Tokenizer};
use serde_json::{Map, Value};

use crate::error::Error;

/// Whole numbers above these are no model's: memory would be asked for that no machine has.
pub(crate) const MOST: u64 = 1 << 20;
pub(crate) const MOST_LAYERS: u64 = 1 << 12;
/// Angles in a table of rotations.
pub(crate) const MOST_ANGLES: u64 = 1 << 28;

/// The file's path and its fields.
pub(crate) fn read_map(checkpoint: &Checkpoint) -> Result<(PathBuf, Map<String, Value>), Error> {
    let path = checkpoint.path_of("config.json");
    let text = checkpoint.required_text("config.json")?;
    match serde_json::from_str(&text) {
        Ok(map) => Ok((path, map)),
        Err(source) => Err(beamgen_engine::Error::Json { path, source }.into()),
    }
}

/// The row of `families` that `model_type` names.
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
        refuse(path, format!("model_type {wanted:?} is none of {known}"))
    })
}

/// Refuses a tokenizer with tokens that the model has no row for.
pub(crate) fn check_tokens(
    checkpoint: &Checkpoint,
    rows: usize,
    tokenizer: &Tokenizer,
) -> Result<(), Error> {
    let tokens = tokenizer.len();
    if tokens > rows {
        let reason = format!("vocab_size is {rows}, and the tokenizer has {tokens} tokens");
        return Err(refuse(&checkpoint.path_of("config.json"), reason));
    }
    Ok(())
}

/// A field, and the values in JSON that candle computes. Without any, it has to be absent or `null`.
pub(crate) type Fixed = (&'static str, &'static [&'static str]);

pub(crate) struct Fields<'a> {
    pub path: &'a Path,
    pub map: &'a Map<String, Value>,
}

impl Fields<'_> {
    /// Refuses numbers that nothing can be made of, wherever candle would use them.
    pub(crate) fn check_numbers(&self) -> Result<(), Error> {
        for (name, value) in self.map {
            let is_base = name.contains("theta") || name.contains("freq");
            if value.as_u64().is_some_and(|number| number > MOST) && !is_base {
                let reason = format!("{name} is {value}, and may be {MOST} at most");
                return Err(refuse(self.path, reason));
            }
        }
        let share = self
            .map
            .get("partial_rotary_factor")
            .and_then(Value::as_f64);
        if share.is_some_and(|share| !(share > 0.0 && share <= 1.0)) {
            let reason = "partial_rotary_factor has to be above 0 and at most 1";
            return Err(refuse(self.path, reason.to_owned()));
        }
        Ok(())
    }

    /// Refuses fields that would change results, and that candle does not read.
    pub(crate) fn check_fixed(&self, fixed: &[Fixed]) -> Result<(), Error> {
        for (name, computed) in fixed {
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
                    format!("{name} is {found}; candle-transformers computes {computed} alone");
                return Err(refuse(self.path, reason));
            }
        }
        Ok(())
    }

    /// Refuses a number that says something else than the fields that candle makes it of.
    pub(crate) fn check_implied(&self, name: &str, implied: u64) -> Result<(), Error> {
        match self.optional(name, MOST)? {
            Some(found) if found != implied => Err(refuse(
                self.path,
                format!("{name} is {found}, and the other fields make it {implied}"),
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
                    format!("{name} is {value}, and has to be a positive number"),
                )),
            },
        }
    }

    pub(crate) fn size(&self, name: &str, most: u64) -> Result<u64, Error> {
        self.optional(name, most)?
            .ok_or_else(|| refuse(self.path, format!("without {name}")))
    }
}

pub(crate) fn refuse(path: &Path, reason: String) -> Error {
    let path: PathBuf = path.to_owned();
    Error::Config { path, reason }
}
