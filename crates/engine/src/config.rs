//! What a decoder computes, read from a Hugging Face `config.json`.
//!
//! The families are data: a row of [`FAMILIES`] says what a family's configuration leaves unsaid.
//! A field that changes the arithmetic in a way this engine does not follow is an error; fields
//! that have no influence on it are not looked at.

use std::path::{Path, PathBuf};

use serde_json::{Map, Value};

use crate::{Checkpoint, Error};

/// The decoder's sizes and variants.
#[derive(Clone, Debug, PartialEq)]
pub struct ModelConfig {
    /// `model_type` of the checkpoint: `llama`, `mistral`, `qwen2` or `qwen3`.
    pub model_type: String,
    /// Tokens of the vocabulary.
    pub vocab_size: usize,
    /// Width of the residual stream.
    pub hidden_size: usize,
    /// Width of the feed-forward block.
    pub intermediate_size: usize,
    /// Layers.
    pub num_hidden_layers: usize,
    /// Query heads.
    pub num_attention_heads: usize,
    /// Key-value heads; divides the query heads.
    pub num_key_value_heads: usize,
    /// Values of a head, even. Not always `hidden_size / num_attention_heads`.
    pub head_dim: usize,
    /// Added to the mean square in every RMSNorm.
    pub rms_norm_eps: f32,
    /// Base of the rotary frequencies.
    pub rope_theta: f64,
    /// Longest sequence.
    pub max_position_embeddings: usize,
    /// The head's weights are the embedding's.
    pub tie_word_embeddings: bool,
    /// The query, key and value projections have biases.
    pub qkv_bias: bool,
    /// The output projection of attention has a bias.
    pub o_bias: bool,
    /// The feed-forward projections have biases.
    pub mlp_bias: bool,
    /// Queries and keys are normalised per head before the rotation.
    pub qk_norm: bool,
    /// The checkpoint must have a language-model head. Without, it may (reward models have not).
    pub causal_lm: bool,
}

/// Where a family's flag comes from.
enum Flag {
    Always,
    Never,
    Field(&'static str),
}

/// What a family's configuration leaves unsaid.
struct Family {
    model_type: &'static str,
    qkv_bias: Flag,
    o_bias: Flag,
    mlp_bias: Flag,
    qk_norm: bool,
    /// Without one: `hidden_size / num_attention_heads`.
    default_head_dim: Option<usize>,
}

const FAMILIES: [Family; 4] = [
    Family {
        model_type: "llama",
        qkv_bias: Flag::Field("attention_bias"),
        o_bias: Flag::Field("attention_bias"),
        mlp_bias: Flag::Field("mlp_bias"),
        qk_norm: false,
        default_head_dim: None,
    },
    Family {
        model_type: "mistral",
        qkv_bias: Flag::Never,
        o_bias: Flag::Never,
        mlp_bias: Flag::Never,
        qk_norm: false,
        default_head_dim: None,
    },
    Family {
        model_type: "qwen2",
        qkv_bias: Flag::Always,
        o_bias: Flag::Never,
        mlp_bias: Flag::Never,
        qk_norm: false,
        default_head_dim: None,
    },
    Family {
        model_type: "qwen3",
        qkv_bias: Flag::Field("attention_bias"),
        o_bias: Flag::Field("attention_bias"),
        mlp_bias: Flag::Never,
        qk_norm: true,
        default_head_dim: Some(128),
    },
];

/// Fields that some relatives of these families have and that change the arithmetic, with the
/// values at which they do not (`null` and an absent field never do).
const INERT: [(&str, &[&str]); 24] = [
    ("quantization_config", &[]),
    ("compression_config", &[]),
    ("attn_logit_softcapping", &["0.0", "0"]),
    ("final_logit_softcapping", &["0.0", "0"]),
    ("embedding_multiplier", &["1.0", "1"]),
    ("residual_multiplier", &["1.0", "1"]),
    ("attention_multiplier", &[]),
    ("query_pre_attn_scalar", &[]),
    ("logits_scaling", &["1.0", "1"]),
    ("logit_scale", &["1.0", "1"]),
    ("partial_rotary_factor", &["1.0", "1"]),
    ("num_experts", &["0"]),
    ("num_local_experts", &["0"]),
    ("num_experts_per_tok", &["0"]),
    ("no_rope_layers", &["[]"]),
    ("attention_chunk_size", &[]),
    ("use_mrope", &["false"]),
    ("use_qk_norm", &["false"]),
    ("clip_qkv", &[]),
    ("qkv_bias", &["false"]),
    ("is_encoder_decoder", &["false"]),
    ("add_cross_attention", &["false"]),
    ("attention_sinks", &["false"]),
    ("position_embedding_type", &["\"rope\"", "\"absolute\""]),
];

impl ModelConfig {
    /// Reads `config.json` of a checkpoint.
    ///
    /// # Errors
    /// [`Error::Io`], [`Error::Json`], or what [`ModelConfig::from_json`] says.
    pub fn load(checkpoint: impl Into<Checkpoint>) -> Result<Self, Error> {
        let checkpoint = checkpoint.into();
        let text = checkpoint.required_text("config.json")?;
        Self::from_json(&text, &checkpoint.path_of("config.json"))
    }

    /// Reads the text of a `config.json`; `path` is for the messages.
    ///
    /// # Errors
    /// Names the field that is missing, out of range, or not supported.
    pub fn from_json(text: &str, path: &Path) -> Result<Self, Error> {
        let map: Map<String, Value> = serde_json::from_str(text).map_err(|source| Error::Json {
            path: path.to_owned(),
            source,
        })?;
        let fields = Fields {
            path: path.to_owned(),
            map: &map,
        };
        let model_type = fields.string("model_type")?;
        let Some(family) = FAMILIES.iter().find(|f| f.model_type == model_type) else {
            return Err(fields.unsupported("model_type", "llama, mistral, qwen2 and qwen3"));
        };
        fields.refuse_other_arithmetic()?;

        let hidden_size = fields.size("hidden_size")?;
        let num_attention_heads = fields.size("num_attention_heads")?;
        let num_key_value_heads = fields
            .optional_size("num_key_value_heads")?
            .unwrap_or(num_attention_heads);
        if !num_attention_heads.is_multiple_of(num_key_value_heads) {
            let expected = format!("a divisor of num_attention_heads = {num_attention_heads}");
            return Err(fields.bad("num_key_value_heads", &expected));
        }
        let head_dim = match fields
            .optional_size("head_dim")?
            .or(family.default_head_dim)
        {
            Some(head_dim) => head_dim,
            None if hidden_size.is_multiple_of(num_attention_heads) => {
                hidden_size / num_attention_heads
            }
            None => {
                let expected = format!("a divisor of hidden_size = {hidden_size}");
                return Err(fields.bad("num_attention_heads", &expected));
            }
        };
        if !head_dim.is_multiple_of(2) {
            let field = if map.contains_key("head_dim") {
                "head_dim"
            } else {
                "hidden_size"
            };
            return Err(fields.bad(field, "an even number of values for each head"));
        }
        let flag = |flag: &Flag| match flag {
            Flag::Always => Ok(true),
            Flag::Never => Ok(false),
            Flag::Field(name) => fields.bool(name),
        };
        let config = Self {
            model_type,
            vocab_size: fields.size("vocab_size")?,
            hidden_size,
            intermediate_size: fields.size("intermediate_size")?,
            num_hidden_layers: fields.size("num_hidden_layers")?,
            num_attention_heads,
            num_key_value_heads,
            head_dim,
            rms_norm_eps: fields.optional_number("rms_norm_eps")?.unwrap_or(1e-6) as f32,
            rope_theta: fields.rope_theta()?,
            max_position_embeddings: fields.size("max_position_embeddings")?,
            tie_word_embeddings: fields.bool("tie_word_embeddings")?,
            qkv_bias: flag(&family.qkv_bias)?,
            o_bias: flag(&family.o_bias)?,
            mlp_bias: flag(&family.mlp_bias)?,
            qk_norm: family.qk_norm,
            causal_lm: fields.causal_lm(),
        };
        if !config.rms_norm_eps.is_finite() || config.rms_norm_eps < 0.0 {
            return Err(fields.bad("rms_norm_eps", "a small positive number"));
        }
        Ok(config)
    }

    /// Columns of a row of queries, keys and values.
    pub(crate) fn qkv_width(&self) -> usize {
        (self.num_attention_heads + 2 * self.num_key_value_heads) * self.head_dim
    }

    /// Columns of a row of queries.
    pub(crate) fn q_width(&self) -> usize {
        self.num_attention_heads * self.head_dim
    }

    /// Columns of a row of keys.
    pub(crate) fn kv_width(&self) -> usize {
        self.num_key_value_heads * self.head_dim
    }
}

/// The fields of a configuration file; `null` is absent.
struct Fields<'a> {
    path: PathBuf,
    map: &'a Map<String, Value>,
}

impl Fields<'_> {
    fn get(&self, field: &str) -> Option<&Value> {
        self.map.get(field).filter(|v| !v.is_null())
    }

    /// The value as it stands in the file, shortened.
    fn shown(&self, field: &str) -> String {
        let mut text = self
            .map
            .get(field)
            .map_or_else(|| "missing".into(), Value::to_string);
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

    fn bad(&self, field: &str, expected: &str) -> Error {
        Error::BadField {
            path: self.path.clone(),
            field: field.into(),
            value: self.shown(field),
            expected: expected.into(),
        }
    }

    fn unsupported(&self, field: &str, supported: &str) -> Error {
        self.unsupported_value(field, &self.shown(field), supported)
    }

    fn unsupported_value(&self, field: &str, value: &str, supported: &str) -> Error {
        Error::Unsupported {
            path: self.path.clone(),
            field: field.into(),
            value: value.into(),
            supported: supported.into(),
        }
    }

    fn missing(&self, field: &str) -> Error {
        Error::MissingField {
            path: self.path.clone(),
            field: field.into(),
        }
    }

    fn string(&self, field: &str) -> Result<String, Error> {
        let value = self.get(field).ok_or_else(|| self.missing(field))?;
        value
            .as_str()
            .map(str::to_owned)
            .ok_or_else(|| self.bad(field, "a string"))
    }

    fn bool(&self, field: &str) -> Result<bool, Error> {
        self.get(field).map_or(Ok(false), |value| {
            value
                .as_bool()
                .ok_or_else(|| self.bad(field, "true or false"))
        })
    }

    fn optional_size(&self, field: &str) -> Result<Option<usize>, Error> {
        self.get(field)
            .map(|value| {
                value
                    .as_u64()
                    .filter(|n| (1..=u64::from(u32::MAX / 4)).contains(n))
                    .map(|n| n as usize)
                    .ok_or_else(|| self.bad(field, "a positive whole number"))
            })
            .transpose()
    }

    fn size(&self, field: &str) -> Result<usize, Error> {
        self.optional_size(field)?
            .ok_or_else(|| self.missing(field))
    }

    fn optional_number(&self, field: &str) -> Result<Option<f64>, Error> {
        self.get(field)
            .map(|value| value.as_f64().ok_or_else(|| self.bad(field, "a number")))
            .transpose()
    }

    /// Whether the architecture has a language-model head; so it is assumed where none is named.
    fn causal_lm(&self) -> bool {
        let names = self.get("architectures").and_then(Value::as_array);
        names
            .and_then(|n| n.first()?.as_str())
            .is_none_or(|n| n.ends_with("ForCausalLM"))
    }

    /// `rope_parameters` (transformers 5) or `rope_theta` with `rope_scaling` (before).
    fn rope_theta(&self) -> Result<f64, Error> {
        let mut theta = self.optional_number("rope_theta")?;
        for field in ["rope_scaling", "rope_parameters"] {
            let Some(value) = self.get(field) else {
                continue;
            };
            let Some(object) = value.as_object() else {
                return Err(self.bad(field, "an object"));
            };
            for (key, value) in object {
                let inert = match key.as_str() {
                    "rope_type" | "type" => value == "default" || value.is_null(),
                    "rope_theta" => {
                        theta = Some(value.as_f64().ok_or_else(|| self.bad(field, "a number"))?);
                        true
                    }
                    "partial_rotary_factor" => value.is_null() || value.as_f64() == Some(1.0),
                    _ => true,
                };
                if !inert {
                    let name = format!("{field}.{key}");
                    let supported = "only the default rotation of whole heads";
                    return Err(self.unsupported_value(&name, &value.to_string(), supported));
                }
            }
            if field == "rope_scaling"
                && !object.is_empty()
                && !object.contains_key("rope_type")
                && !object.contains_key("type")
            {
                return Err(self.unsupported(field, "only the default rotation"));
            }
        }
        let theta = theta.unwrap_or(10_000.0);
        if theta.is_finite() && theta > 0.0 {
            Ok(theta)
        } else {
            Err(self.bad("rope_theta", "a positive number"))
        }
    }

    fn refuse_other_arithmetic(&self) -> Result<(), Error> {
        for field in ["hidden_act", "hidden_activation"] {
            if self.get(field).is_some_and(|v| v != "silu" && v != "swish") {
                return Err(self.unsupported(field, "only silu"));
            }
        }
        for (field, inert) in INERT {
            if let Some(value) = self.get(field)
                && !inert.contains(&value.to_string().as_str())
            {
                return Err(self.unsupported(field, "plain float decoders without it"));
            }
        }
        self.refuse_sliding_window()
    }

    fn refuse_sliding_window(&self) -> Result<(), Error> {
        let supported = "only full attention";
        if let Some(types) = self.get("layer_types") {
            let types = types
                .as_array()
                .ok_or_else(|| self.bad("layer_types", "a list"))?;
            return match types.iter().find(|t| *t != "full_attention") {
                Some(other) => {
                    Err(self.unsupported_value("layer_types", &other.to_string(), supported))
                }
                None => Ok(()),
            };
        }
        let Some(window) = self.get("sliding_window").and_then(Value::as_u64) else {
            return Ok(());
        };
        let used = self.get("use_sliding_window").is_none_or(|v| v != false);
        // Layers from this one on use the window.
        let first = self
            .get("max_window_layers")
            .and_then(Value::as_u64)
            .unwrap_or(0);
        let layers = self
            .get("num_hidden_layers")
            .and_then(Value::as_u64)
            .unwrap_or(u64::MAX);
        let context = self.get("max_position_embeddings").and_then(Value::as_u64);
        if used && first < layers && context.is_none_or(|c| window < c) {
            return Err(self.unsupported("sliding_window", supported));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LLAMA: &str = r#"{"architectures": ["LlamaForCausalLM"], "model_type": "llama",
        "vocab_size": 100, "hidden_size": 64, "intermediate_size": 88, "num_hidden_layers": 2,
        "num_attention_heads": 4, "num_key_value_heads": 2, "max_position_embeddings": 256,
        "hidden_act": "silu", "rms_norm_eps": 1e-5, "rope_theta": 500000.0,
        "rope_scaling": null, "torch_dtype": "bfloat16", "_name_or_path": "x"}"#;

    fn with(changes: &[(&str, Value)]) -> Result<ModelConfig, Error> {
        let mut map: Map<String, Value> = serde_json::from_str(LLAMA).unwrap();
        for (field, value) in changes {
            map.insert((*field).into(), value.clone());
        }
        ModelConfig::from_json(
            &Value::Object(map).to_string(),
            Path::new("dir/config.json"),
        )
    }

    #[track_caller]
    fn refused(changes: &[(&str, Value)], words: &[&str]) {
        let message = with(changes).unwrap_err().to_string();
        for word in words.iter().chain(&["dir/config.json"]) {
            assert!(message.contains(word), "{message:?} lacks {word:?}");
        }
    }

    #[test]
    fn reads_a_llama() {
        let config = with(&[]).unwrap();
        assert_eq!(config.head_dim, 16);
        assert_eq!(config.rope_theta, 500_000.0);
        assert_eq!(config.rms_norm_eps, 1e-5);
        assert!(config.causal_lm && !config.tie_word_embeddings && !config.qkv_bias);
    }

    #[test]
    fn families_differ_by_data() {
        let qwen2 = with(&[("model_type", "qwen2".into())]).unwrap();
        assert!(qwen2.qkv_bias && !qwen2.o_bias && !qwen2.qk_norm);
        let qwen3 = with(&[
            ("model_type", "qwen3".into()),
            ("attention_bias", true.into()),
        ])
        .unwrap();
        assert!(qwen3.qkv_bias && qwen3.o_bias && qwen3.qk_norm);
        assert_eq!(qwen3.head_dim, 128);
        let llama = with(&[("attention_bias", true.into()), ("mlp_bias", true.into())]).unwrap();
        assert!(llama.qkv_bias && llama.o_bias && llama.mlp_bias);
    }

    #[test]
    fn reads_rope_of_transformers_5() {
        let parameters = serde_json::json!({"rope_theta": 7.5, "rope_type": "default"});
        assert_eq!(
            with(&[("rope_parameters", parameters)]).unwrap().rope_theta,
            7.5
        );
        let default = serde_json::json!({"rope_type": "default"});
        assert_eq!(
            with(&[("rope_scaling", default)]).unwrap().rope_theta,
            500_000.0
        );
        assert_eq!(
            with(&[("rope_theta", Value::Null)]).unwrap().rope_theta,
            10_000.0
        );
    }

    #[test]
    fn refuses_other_arithmetic_by_name() {
        refused(
            &[("model_type", "gpt2".into())],
            &["model_type", "gpt2", "qwen3"],
        );
        refused(&[("hidden_act", "gelu".into())], &["hidden_act", "gelu"]);
        let yarn = serde_json::json!({"rope_type": "yarn", "factor": 4.0});
        refused(
            &[("rope_scaling", yarn.clone())],
            &["rope_scaling.rope_type", "yarn"],
        );
        refused(
            &[("rope_parameters", yarn)],
            &["rope_parameters.rope_type", "yarn"],
        );
        let old = serde_json::json!({"type": "linear", "factor": 2.0});
        refused(&[("rope_scaling", old)], &["rope_scaling.type", "linear"]);
        let nameless = serde_json::json!({"factor": 2.0});
        refused(&[("rope_scaling", nameless)], &["rope_scaling"]);
        refused(
            &[("quantization_config", serde_json::json!({"bits": 4}))],
            &["quantization_config"],
        );
        refused(&[("num_local_experts", 8.into())], &["num_local_experts"]);
        refused(
            &[("final_logit_softcapping", 30.0.into())],
            &["final_logit_softcapping"],
        );
        refused(
            &[("partial_rotary_factor", 0.5.into())],
            &["partial_rotary_factor"],
        );
    }

    #[test]
    fn refuses_a_sliding_window_only_if_it_is_used() {
        let qwen = ("model_type", Value::from("qwen2"));
        let window = ("sliding_window", Value::from(64));
        refused(&[qwen.clone(), window.clone()], &["sliding_window", "64"]);
        let off = ("use_sliding_window", Value::from(false));
        assert!(with(&[qwen.clone(), window.clone(), off]).is_ok());
        let on = ("use_sliding_window", Value::from(true));
        refused(
            &[qwen.clone(), window.clone(), on.clone()],
            &["sliding_window"],
        );
        let beyond = ("max_window_layers", Value::from(2));
        assert!(with(&[qwen.clone(), window, on, beyond]).is_ok());
        assert!(with(&[qwen.clone(), ("sliding_window", 4096.into())]).is_ok());
        let types = serde_json::json!(["full_attention", "sliding_attention"]);
        refused(
            &[qwen, ("layer_types", types)],
            &["layer_types", "sliding_attention"],
        );
    }

    #[test]
    fn refuses_impossible_sizes() {
        refused(&[("vocab_size", Value::Null)], &["vocab_size", "missing"]);
        refused(&[("vocab_size", 0.into())], &["vocab_size", "positive"]);
        refused(&[("hidden_size", "wide".into())], &["hidden_size", "wide"]);
        refused(
            &[("num_hidden_layers", (-1).into())],
            &["num_hidden_layers", "-1"],
        );
        refused(
            &[("num_key_value_heads", 3.into())],
            &["num_key_value_heads", "divisor"],
        );
        refused(
            &[("num_attention_heads", 6.into())],
            &["num_attention_heads", "64"],
        );
        refused(&[("head_dim", 7.into())], &["head_dim", "even"]);
        refused(&[("rope_theta", 0.0.into())], &["rope_theta"]);
        refused(
            &[("tie_word_embeddings", 1.into())],
            &["tie_word_embeddings"],
        );
    }

    #[test]
    fn refuses_what_is_not_an_object() {
        let error = ModelConfig::from_json("[1]", Path::new("c.json")).unwrap_err();
        assert!(matches!(error, Error::Json { .. }));
        assert!(error.to_string().contains("c.json"));
    }
}
