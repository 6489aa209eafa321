//! Reads and checks the `config.json` of a decoder, and rewrites it for `candle-transformers`.

use beamgen_engine::Checkpoint;
use serde_json::{Map, Value};

use crate::decoder::Decoder;
use crate::error::Error;
use crate::families::{FAMILIES, FIXED, Family};
use crate::fields::{Fields, MOST, MOST_ANGLES, MOST_LAYERS, family, read_map, refuse};
use crate::layers;
use crate::weights::{LazyWeights, Reading, Scale};

/// A configuration that candle implements completely.
#[derive(Debug)]
pub(crate) struct Config {
    pub family: &'static Family,
    /// The fields as `transformers` 4 writes them, the form that candle reads.
    pub json: Value,
    /// The most tokens of prompt and chain together.
    pub context: usize,
    pub vocab_size: usize,
    /// Bytes of the keys and values that the cache has for each token.
    pub bytes_per_token: u64,
    reading: Reading,
}

impl Config {
    pub(crate) fn load(checkpoint: &Checkpoint) -> Result<Self, Error> {
        let (path, mut map) = read_map(checkpoint)?;
        let family = family(&path, &map, FAMILIES, |family| family.model_type)?;
        // First, since the checks below read the fields of `transformers` 4.
        let rope_type = lift_rope(&mut map);
        check_scaling(&map, &rope_type, family).map_err(|reason| refuse(&path, reason))?;
        let fields = Fields {
            path: &path,
            map: &map,
        };
        fields.check_numbers()?;
        fields.check_fixed(FIXED)?;
        fields.check_fixed(family.fixed)?;
        let layers = fields.size("num_hidden_layers", MOST_LAYERS)?;
        let heads = fields.size("num_attention_heads", MOST)?;
        let hidden = fields.size("hidden_size", MOST)?;
        let kv_heads = fields
            .optional("num_key_value_heads", MOST)?
            .unwrap_or(heads);
        let head_dim = fields.optional("head_dim", MOST)?.unwrap_or(hidden / heads);
        // The size of a key; DeepSeek-V2 has two fields for its parts.
        let part = |name| fields.optional(name, MOST);
        let key = if let (Some(nope), Some(rope)) =
            (part("qk_nope_head_dim")?, part("qk_rope_head_dim")?)
        {
            fields.check_implied("head_dim", rope)?;
            fields.check_implied("qk_head_dim", nope + rope)?;
            fields.check_implied("num_key_value_heads", heads)?;
            nope + rope
        } else {
            if !family.head_dim {
                fields.check_implied("head_dim", hidden / heads)?;
            }
            head_dim
        };
        // A value may have another size than a key; the cache contains both.
        let both = key + part("v_head_dim")?.unwrap_or(head_dim);
        if head_dim == 0 || heads % kv_heads != 0 {
            let reason = "num_key_value_heads must divide num_attention_heads, and hidden_size \
                          must hold the heads";
            return Err(refuse(&path, reason.to_owned()));
        }
        let share = map.get("partial_rotary_factor").and_then(Value::as_f64);
        if share.is_some_and(|share| (share * head_dim as f64) as u64 % 2 == 1) {
            let reason = "partial_rotary_factor must make an even part of a head";
            return Err(refuse(&path, reason.to_owned()));
        }
        let experts = ["num_experts", "num_local_experts", "n_routed_experts"];
        if experts.iter().any(|name| map.contains_key(*name)) {
            let used = fields.size("num_experts_per_tok", MOST)?;
            for name in experts {
                if fields.optional(name, MOST)?.is_some_and(|all| used > all) {
                    let reason = format!("num_experts_per_tok is {used}, more than {name}");
                    return Err(refuse(&path, reason));
                }
            }
        }
        let vocab_size = fields.size("vocab_size", MOST)? as usize;
        let positions = fields
            .optional("max_position_embeddings", MOST)?
            .unwrap_or(8192);
        // Some models of candle ignore the sliding window. Up to the window's length that changes
        // nothing, so the context ends there.
        let windowed = map.get("use_sliding_window").and_then(Value::as_bool) != Some(false);
        let window = map.get("sliding_window").and_then(Value::as_u64);
        let window = window.filter(|&window| windowed && window > 0);
        let context = positions.min(window.unwrap_or(u64::MAX));
        // When it loads a model, candle computes a table of rotations for the whole context.
        if context.saturating_mul(key) > MOST_ANGLES {
            let reason = format!("{context} positions of {key} values are more than a model has");
            return Err(refuse(&path, reason));
        }
        layers::list(&fields, "no_rope_layers", layers)?;
        let pattern = match family.model_type {
            "gemma3_text" => layers::window_pattern(&fields, layers)?,
            _ => None,
        };
        let reading = Reading {
            tied: map.get("tie_word_embeddings").and_then(Value::as_bool),
            scale: scale(&fields, family, head_dim)?,
        };
        if let Some(pattern) = pattern {
            map.insert("sliding_window_pattern".to_owned(), pattern.into());
        }
        if family.queries.is_some() {
            map.insert("query_pre_attn_scalar".to_owned(), head_dim.into());
        }
        // candle would use flash attention, which needs another device, or run without a cache,
        // which is meant for training. So both fields are overwritten.
        map.insert("use_flash_attn".to_owned(), false.into());
        map.insert("use_cache".to_owned(), true.into());
        // candle would also apply a window of 0 or one that is switched off.
        if window.is_none() {
            map.remove("sliding_window");
        }
        // Some models allocate a table for all positions, so positions that are not used are cut
        // off.
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
            reading,
        })
    }

    /// Builds the model, which has not read any token yet. `name` is for error messages.
    pub(crate) fn decoder(
        &self,
        name: &str,
        mut weights: LazyWeights,
    ) -> Result<Box<dyn Decoder>, Error> {
        weights.reading = self.reading;
        weights.build(name, self.family.model_type, |builder| {
            (self.family.open)(&self.json, builder)
        })
    }
}

/// Returns the factor by which queries have to be scaled, since candle scales them by `head_dim`;
/// `None` if the factor is 1.
fn scale(fields: &Fields<'_>, family: &Family, head_dim: u64) -> Result<Option<Scale>, Error> {
    let Some((part, offset)) = family.queries else {
        return Ok(None);
    };
    let field = "query_pre_attn_scalar";
    let found = fields.map.get(field).filter(|value| !value.is_null());
    let scalar = found.map_or(Some(256.0), Value::as_f64);
    let Some(scalar) = scalar.filter(|scalar| *scalar > 0.0 && scalar.is_finite()) else {
        let reason = format!("{field} must be a positive number");
        return Err(refuse(fields.path, reason));
    };
    let scale = Scale {
        part,
        offset,
        factor: (head_dim as f64 / scalar).sqrt(),
    };
    Ok((scale.factor != 1.0).then_some(scale))
}

/// Refuses a scaled rotary embedding that candle does not implement, or that has keys that candle
/// does not read.
fn check_scaling(map: &Map<String, Value>, rope_type: &str, family: &Family) -> Result<(), String> {
    if rope_type == "default" {
        return Ok(());
    }
    let Some((_, wanted)) = family.scaling.filter(|(kind, _)| *kind == rope_type) else {
        return Err(format!(
            "the rotation is scaled by {rope_type:?}, which candle-transformers does not implement \
             for {}",
            family.model_type
        ));
    };
    let found = map.get("rope_scaling").and_then(Value::as_object);
    let found = found.ok_or("rope_scaling must be an object")?;
    for name in wanted {
        if found.get(*name).is_none_or(|value| !value.is_number()) {
            return Err(format!("the rotation's {name} must be a number"));
        }
    }
    for name in found.keys().map(String::as_str) {
        // candle would ignore an unknown key, and compute something else than the file asks for.
        if !wanted.contains(&name) && !["rope_type", "type", "rope_theta"].contains(&name) {
            return Err(format!(
                "candle-transformers does not read the rotation's {name}"
            ));
        }
    }
    Ok(())
}

/// Moves the rotary embeddings from the fields of `transformers` 5 to those of `transformers` 4.
/// Returns the kind of scaling.
pub(crate) fn lift_rope(map: &mut Map<String, Value>) -> String {
    let object = |value: Option<&Value>| value.filter(|value| value.is_object()).cloned();
    // `rope_scaling`, the field of `transformers` 4, takes precedence.
    let older = object(map.get("rope_scaling"));
    let parameters = object(map.get("rope_parameters"));
    let part = |kind: &str| object(parameters.as_ref()?.get(kind));
    let (full, sliding) = (part("full_attention"), part("sliding_attention"));
    let full = match (&full, &sliding) {
        (None, None) => parameters,
        _ => full,
    };
    let all = [
        (older, "rope_theta"),
        (full, "rope_theta"),
        (sliding, "rope_local_base_freq"),
    ];
    let mut scaling = Value::Null;
    for (from, theta) in all {
        let Some(from) = from else { continue };
        for (field, name) in [
            ("rope_theta", theta),
            ("partial_rotary_factor", "partial_rotary_factor"),
        ] {
            if !map.contains_key(name) && !from[field].is_null() {
                map.insert(name.to_owned(), from[field].clone());
            }
        }
        // Of several rotary embeddings a scaled one is kept, so that `check_scaling` sees it.
        if kind_of(&scaling) == "default" {
            scaling = from;
        }
    }
    let kind = kind_of(&scaling);
    if kind.as_str() == "default" {
        map.remove("rope_scaling")
    } else {
        scaling["type"] = kind.clone().into();
        map.insert("rope_scaling".to_owned(), scaling)
    };
    kind
}

/// Returns the kind of scaling, which older files have under `type`; "default" without one.
fn kind_of(scaling: &Value) -> String {
    let kind = scaling["rope_type"].as_str().or(scaling["type"].as_str());
    kind.unwrap_or("default").to_owned()
}
