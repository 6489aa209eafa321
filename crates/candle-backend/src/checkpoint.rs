//! `config.json` in the form that `candle-transformers` reads, and what is checked in it.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};

use beamgen_engine::{Checkpoint, Weights};
use candle_core::{DType, Device};
use candle_nn::VarBuilder;
use serde_json::{Map, Value};

use crate::decoder::Decoder;
use crate::error::{Error, first_line};
use crate::families::{self, Family};
use crate::weights::LazyWeights;

/// Layers, heads and sizes above these are no model's: they would take all memory.
const MOST: u64 = 1 << 24;
const MOST_LAYERS: u64 = 1 << 12;

/// A configuration that can be followed.
#[derive(Debug)]
pub(crate) struct Config {
    pub family: &'static Family,
    /// As `transformers` 4 wrote it, and candle reads it.
    pub json: Value,
    /// Tokens of a prompt and what follows it.
    pub context: usize,
    pub vocab_size: usize,
    /// Of keys and values.
    pub bytes_per_token: u64,
}

impl Config {
    pub fn load(checkpoint: &Checkpoint) -> Result<Self, Error> {
        let path = checkpoint.path_of("config.json");
        let text = checkpoint.required_text("config.json")?;
        let mut map: Map<String, Value> =
            serde_json::from_str(&text).map_err(|error| beamgen_engine::Error::Json {
                path: path.clone(),
                source: error,
            })?;
        let model_type = map
            .get("model_type")
            .and_then(Value::as_str)
            .unwrap_or_default();
        let Some(family) = families::family(model_type) else {
            let known = families::names().join(", ");
            return Err(refuse(
                &path,
                format!("model_type {model_type:?} is none of {known}"),
            ));
        };
        let rope_type = lift_rope(&mut map);
        if rope_type != "default" && !family.scaled_rope {
            return Err(refuse(
                &path,
                format!(
                    "the rotation is scaled by {rope_type:?}, which candle-transformers does not do for {}",
                    family.model_type
                ),
            ));
        }
        let fields = Fields {
            path: &path,
            map: &map,
        };
        let layers = fields.size("num_hidden_layers", MOST_LAYERS)?;
        let heads = fields.size("num_attention_heads", MOST)?;
        let hidden = fields.size("hidden_size", MOST)?;
        let kv_heads = fields
            .optional("num_key_value_heads", MOST)?
            .unwrap_or(heads);
        let head_dim = fields.optional("head_dim", MOST)?.unwrap_or(hidden / heads);
        if head_dim == 0 || heads % kv_heads != 0 {
            return Err(refuse(&path, "num_key_value_heads has to divide num_attention_heads, and hidden_size to hold them".into()));
        }
        let vocab_size = fields.size("vocab_size", MOST)? as usize;
        let positions = fields
            .optional("max_position_embeddings", u64::MAX)?
            .unwrap_or(8192);
        // Some of candle's models leave the sliding window out. Within it there is no difference.
        let windowed = map.get("use_sliding_window").and_then(Value::as_bool) != Some(false);
        let window = map.get("sliding_window").and_then(Value::as_u64);
        let window = window.filter(|&window| windowed && window > 0);
        let context = positions.min(window.unwrap_or(u64::MAX));
        if window.is_none() {
            map.remove("sliding_window");
        }
        if let (None, Some(experts)) = (
            map.get("num_experts"),
            map.get("num_local_experts").cloned(),
        ) {
            map.insert("num_experts".to_owned(), experts);
        }
        for (name, value) in family.defaults {
            if map.get(*name).is_none_or(Value::is_null) {
                map.insert((*name).to_owned(), value(positions));
            }
        }
        Ok(Self {
            family,
            json: Value::Object(map),
            context: usize::try_from(context).unwrap_or(usize::MAX),
            vocab_size,
            bytes_per_token: layers * 2 * kv_heads * head_dim * 4,
        })
    }
}

impl Config {
    /// The model, and how many bytes its weights take.
    pub fn open(
        &self,
        checkpoint: &Checkpoint,
        memory: u64,
    ) -> Result<(Box<dyn Decoder>, u64), Error> {
        let name = checkpoint.path().display().to_string();
        let failed = |reason: String| Error::Candle {
            model: name.clone(),
            reason,
        };
        let weights = LazyWeights::new(Weights::load(checkpoint.clone())?);
        let needed = weights.bytes()?;
        if needed > memory {
            let (needed, free) = (needed >> 20, memory >> 20);
            return Err(Error::Memory {
                model: name,
                needed,
                free,
            });
        }
        let backend = Box::new(weights.clone());
        let builder = VarBuilder::from_backend(backend, DType::F32, Device::Cpu);
        // Some of candle's models take a number of config.json for granted.
        let open = AssertUnwindSafe(|| (self.family.open)(&self.json, builder));
        let model = catch_unwind(open)
            .map_err(|_| failed("candle-transformers panicked over config.json".into()))?
            .map_err(|error| failed(first_line(&error)))?;
        match weights.unread() {
            None => Ok((model, needed)),
            // A bias, say, that candle's model does not have: its results would be others.
            Some(tensor) => Err(failed(format!(
                "candle-transformers' {:?} has no tensor {tensor}",
                self.family
            ))),
        }
    }
}

/// Rotations as `transformers` 5 writes them, in the fields of `transformers` 4. Returns how they
/// are scaled.
fn lift_rope(map: &mut Map<String, Value>) -> String {
    let mut scaling = map.get("rope_scaling").cloned().unwrap_or_default();
    if let Some(Value::Object(parameters)) = map.get("rope_parameters").cloned() {
        let mut lift = |from: &Value, theta: &str| {
            for (field, name) in [
                ("rope_theta", theta),
                ("partial_rotary_factor", "partial_rotary_factor"),
            ] {
                if !map.contains_key(name) && !from[field].is_null() {
                    map.insert(name.to_owned(), from[field].clone());
                }
            }
        };
        match (
            parameters.get("full_attention"),
            parameters.get("sliding_attention"),
        ) {
            (Some(full), Some(sliding)) => {
                lift(full, "rope_theta");
                lift(sliding, "rope_local_base_freq");
                scaling = full.clone();
            }
            _ => {
                scaling = Value::Object(parameters);
                lift(&scaling, "rope_theta");
            }
        }
    }
    let kind = scaling["rope_type"].as_str().or(scaling["type"].as_str());
    let kind = kind.unwrap_or("default").to_owned();
    match kind.as_str() {
        "default" => map.remove("rope_scaling"),
        _ => map.insert("rope_scaling".to_owned(), scaling),
    };
    kind
}

struct Fields<'a> {
    path: &'a Path,
    map: &'a Map<String, Value>,
}

impl Fields<'_> {
    fn optional(&self, name: &str, most: u64) -> Result<Option<u64>, Error> {
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

    fn size(&self, name: &str, most: u64) -> Result<u64, Error> {
        self.optional(name, most)?
            .ok_or_else(|| refuse(self.path, format!("without {name}")))
    }
}

pub(crate) fn refuse(path: &Path, reason: String) -> Error {
    let path: PathBuf = path.to_owned();
    Error::Config { path, reason }
}
