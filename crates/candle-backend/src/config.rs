//! `config.json` in the form that `candle-transformers` reads, and what is checked in it.

use beamgen_engine::Checkpoint;
use serde_json::{Map, Value};

use crate::decoder::Decoder;
use crate::error::Error;
use crate::families::{self, Family};
use crate::fields::{Fields, MOST, MOST_ANGLES, MOST_LAYERS, read_map, refuse};
use crate::weights::LazyWeights;

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
        let (path, mut map) = read_map(checkpoint)?;
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
        if rope_type != "default" && family.scaling != Some(rope_type.as_str()) {
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
        fields.check_numbers()?;
        let layers = fields.size("num_hidden_layers", MOST_LAYERS)?;
        let heads = fields.size("num_attention_heads", MOST)?;
        let hidden = fields.size("hidden_size", MOST)?;
        let kv_heads = fields
            .optional("num_key_value_heads", MOST)?
            .unwrap_or(heads);
        let head_dim = fields.optional("head_dim", MOST)?.unwrap_or(hidden / heads);
        // Of a key and a value: DeepSeek-V2 says them apart.
        let part = |name| fields.optional(name, MOST);
        let key = match (part("qk_nope_head_dim")?, part("qk_rope_head_dim")?) {
            (Some(nope), Some(rope)) => nope + rope,
            _ => head_dim,
        };
        let both = key + part("v_head_dim")?.unwrap_or(head_dim);
        if head_dim == 0 || heads % kv_heads != 0 {
            return Err(refuse(&path, "num_key_value_heads has to divide num_attention_heads, and hidden_size to hold them".into()));
        }
        let experts = ["num_experts", "num_local_experts", "n_routed_experts"];
        if experts.iter().any(|name| map.contains_key(*name)) {
            fields.size("num_experts_per_tok", MOST)?;
        }
        let vocab_size = fields.size("vocab_size", MOST)? as usize;
        let positions = fields
            .optional("max_position_embeddings", MOST)?
            .unwrap_or(8192);
        // Some of candle's models leave the sliding window out. Within it there is no difference.
        let windowed = map.get("use_sliding_window").and_then(Value::as_bool) != Some(false);
        let window = map.get("sliding_window").and_then(Value::as_u64);
        let window = window.filter(|&window| windowed && window > 0);
        let context = positions.min(window.unwrap_or(u64::MAX));
        if context.saturating_mul(key) > MOST_ANGLES {
            let reason = format!("{context} positions of {key} values are more than a model has");
            return Err(refuse(&path, reason));
        }
        if window.is_none() {
            map.remove("sliding_window");
        }
        // Some make a cache of all positions at once.
        map.insert("max_position_embeddings".to_owned(), context.into());
        if let (None, Some(experts)) = (
            map.get("num_experts"),
            map.get("num_local_experts").cloned(),
        ) {
            map.insert("num_experts".to_owned(), experts);
        }
        for (name, value) in family.filled {
            if map.get(*name).is_none_or(Value::is_null) {
                map.insert((*name).to_owned(), value(context));
            }
        }
        Ok(Self {
            family,
            json: Value::Object(map),
            context: usize::try_from(context).unwrap_or(usize::MAX),
            vocab_size,
            bytes_per_token: layers * kv_heads * both * 4,
        })
    }

    /// The model, which has read nothing. `name` is for messages.
    pub fn decoder(&self, name: &str, weights: LazyWeights) -> Result<Box<dyn Decoder>, Error> {
        let open = |builder| (self.family.open)(&self.json, builder);
        weights.build(name, self.family.model_type, open)
    }
}

/// Rotations as `transformers` 5 writes them, in the fields of `transformers` 4. Returns how they
/// are scaled.
pub(crate) fn lift_rope(map: &mut Map<String, Value>) -> String {
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
        _ => {
            scaling["type"] = kind.clone().into();
            map.insert("rope_scaling".to_owned(), scaling)
        }
    };
    kind
}
