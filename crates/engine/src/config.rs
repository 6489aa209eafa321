//! The sizes and variants of a decoder, read from a Hugging Face `config.json`.
//!
//! The families are data: a row of [`FAMILIES`] has the defaults of a family's configuration. A
//! field that changes the arithmetic in a way this engine does not implement is an error; fields
//! that have no influence on the arithmetic are ignored.

mod families;
mod fields;
mod read_rope;
mod rope;
#[cfg(test)]
mod tests;
mod window;

use std::path::Path;

use serde_json::{Map, Value};

use crate::{Checkpoint, Error};
use families::{FAMILIES, Family, Flag, UNSUPPORTED};
use fields::Fields;
pub use rope::{Rope, RopeScaling};

/// The most layers. Memory is taken for each layer of a configuration before any tensor is found.
const MAX_LAYERS: usize = 1 << 16;

/// The decoder's sizes and variants.
#[derive(Clone, Debug, PartialEq)]
pub struct ModelConfig {
    /// `model_type` of the checkpoint: `llama`, `mistral`, `qwen2`, `qwen3` or `phi3`.
    pub model_type: String,
    /// The number of tokens in the vocabulary, padding included.
    pub vocab_size: usize,
    /// Width of the residual stream.
    pub hidden_size: usize,
    /// Width of the feed-forward block.
    pub intermediate_size: usize,
    /// The number of layers.
    pub num_hidden_layers: usize,
    /// The number of query heads.
    pub num_attention_heads: usize,
    /// The number of key-value heads; divides the number of query heads.
    pub num_key_value_heads: usize,
    /// The number of values in a head, even. Not always `hidden_size / num_attention_heads`.
    pub head_dim: usize,
    /// The number that every `RMSNorm` adds to the mean square.
    pub rms_norm_eps: f32,
    /// The rotary embedding of queries and keys.
    pub rope: Rope,
    /// The longest sequence. With `YaRN` scaling it may exceed the field of this name: it is at
    /// least the original context times the factor.
    pub max_position_embeddings: usize,
    /// For each layer, the number of positions that a row attends to, itself included (a sliding
    /// window). `None`, and layers beyond the end of this list, attend to all.
    pub windows: Vec<Option<usize>>,
    /// Whether the head's weights are the embedding's.
    pub tie_word_embeddings: bool,
    /// Whether the query, key and value projections have biases.
    pub qkv_bias: bool,
    /// Whether the output projection of attention has a bias.
    pub o_bias: bool,
    /// Whether the feed-forward projections have biases.
    pub mlp_bias: bool,
    /// Whether queries and keys are normalised per head before the rotation.
    pub qk_norm: bool,
    /// Whether the checkpoint has one tensor `qkv_proj` and one `gate_up_proj` in each layer.
    pub fused_projections: bool,
    /// Whether the checkpoint must have a language-model head. Reward models need not.
    pub causal_lm: bool,
}

impl ModelConfig {
    /// Reads `config.json` of a checkpoint.
    ///
    /// # Errors
    /// [`Error::Io`], [`Error::Json`], and the errors of [`ModelConfig::from_json`].
    pub fn load(checkpoint: impl Into<Checkpoint>) -> Result<Self, Error> {
        let checkpoint = checkpoint.into();
        let text = checkpoint.required_text("config.json")?;
        Self::from_json(&text, &checkpoint.path_of("config.json"))
    }

    /// Parses the text of a `config.json`; `path` is for the messages.
    ///
    /// # Errors
    /// [`Error::MissingField`], [`Error::BadField`] or [`Error::Unsupported`] with the field's
    /// name.
    pub fn from_json(text: &str, path: &Path) -> Result<Self, Error> {
        let map: Result<Map<String, Value>, _> = serde_json::from_str(text);
        let map = map.map_err(|error| Error::json(path, error))?;
        let fields = Fields {
            path: path.to_owned(),
            prefix: String::new(),
            map: &map,
        };
        let model_type = fields.string("model_type")?;
        let Some(family) = FAMILIES.iter().find(|f| f.model_type == model_type) else {
            return Err(fields.unsupported("model_type", &families::names()));
        };
        refuse_other_arithmetic(&fields)?;

        // After the check above: for another model's fields that error says more than a missing
        // size.
        let hidden_size = fields.size("hidden_size")?;
        let num_hidden_layers = fields.size("num_hidden_layers")?;
        // Windows are kept per layer, so an absurd number would allocate before any tensor is
        // missed.
        if num_hidden_layers > MAX_LAYERS {
            let expected = format!("at most {MAX_LAYERS}");
            return Err(fields.bad("num_hidden_layers", &expected));
        }
        let num_attention_heads = fields.size("num_attention_heads")?;
        let num_key_value_heads = kv_heads(&fields, family, num_attention_heads)?;
        let head_dim = head_dim(&fields, family, hidden_size, num_attention_heads)?;
        let (rope, max_position_embeddings) = read_rope::read(&fields, family, head_dim)?;
        let rms_norm_eps = fields
            .optional_number_if("rms_norm_eps", "a small positive number", |x| {
                x >= 0.0 && (x as f32).is_finite()
            })?
            .unwrap_or(family.default_rms_norm_eps);
        let flag = |flag: &Flag| match flag {
            Flag::Always => Ok(true),
            Flag::Never => Ok(false),
            Flag::Field(name) => fields.bool(name),
        };
        Ok(Self {
            model_type: model_type.to_owned(),
            vocab_size: fields.size("vocab_size")?,
            hidden_size,
            intermediate_size: fields.size("intermediate_size")?,
            num_hidden_layers,
            num_attention_heads,
            num_key_value_heads,
            head_dim,
            rms_norm_eps: rms_norm_eps as f32,
            rope,
            max_position_embeddings,
            windows: window::read(
                &fields,
                &family.windows,
                num_hidden_layers,
                max_position_embeddings,
            )?,
            tie_word_embeddings: fields.bool("tie_word_embeddings")?,
            qkv_bias: flag(&family.qkv_bias)?,
            o_bias: flag(&family.o_bias)?,
            mlp_bias: flag(&family.mlp_bias)?,
            qk_norm: family.qk_norm,
            fused_projections: family.fused_projections,
            causal_lm: causal_lm(&fields),
        })
    }

    /// The window of a layer; `None` if it attends to all positions.
    pub(crate) fn window(&self, layer: usize) -> Option<usize> {
        self.windows.get(layer).copied().flatten()
    }

    /// Bytes of all norms, which are float32 in every format.
    pub(crate) fn norm_bytes(&self) -> usize {
        let head_norms = if self.qk_norm { 2 * self.head_dim } else { 0 };
        let layers = self.num_hidden_layers * (2 * self.hidden_size + head_norms);
        4 * (layers + self.hidden_size)
    }

    /// The number of columns in a row of queries, keys and values.
    pub(crate) fn qkv_width(&self) -> usize {
        (self.num_attention_heads + 2 * self.num_key_value_heads) * self.head_dim
    }

    /// The number of columns in a row of queries.
    pub(crate) fn q_width(&self) -> usize {
        self.num_attention_heads * self.head_dim
    }

    /// The number of columns in a row of keys.
    pub(crate) fn kv_width(&self) -> usize {
        self.num_key_value_heads * self.head_dim
    }
}

fn kv_heads(fields: &Fields<'_>, family: &Family, heads: usize) -> Result<usize, Error> {
    let field = "num_key_value_heads";
    let kv_heads = match fields.optional_size(field)? {
        // `null` means as many as query heads; only an absent field takes the family's default.
        None if !fields.has(field) => family.default_kv_heads,
        given => given,
    }
    .unwrap_or(heads);
    if heads.is_multiple_of(kv_heads) {
        Ok(kv_heads)
    } else {
        let expected = format!("a divisor of num_attention_heads = {heads}");
        Err(fields.bad(field, &expected))
    }
}

fn head_dim(
    fields: &Fields<'_>,
    family: &Family,
    hidden: usize,
    heads: usize,
) -> Result<usize, Error> {
    let given = fields
        .optional_size("head_dim")?
        .or(family.default_head_dim);
    // With an explicit `head_dim` the heads need not fill the hidden size exactly.
    if given.is_none() && !hidden.is_multiple_of(heads) {
        let expected = format!("a divisor of hidden_size = {hidden}");
        return Err(fields.bad("num_attention_heads", &expected));
    }
    let head_dim = given.unwrap_or(hidden / heads);
    // The rotation turns pairs of elements.
    if head_dim.is_multiple_of(2) {
        return Ok(head_dim);
    }
    let field = if fields.has("head_dim") {
        "head_dim"
    } else {
        "hidden_size"
    };
    Err(fields.bad(field, "an even number of values for each head"))
}

/// Whether the architecture has a language-model head, which is assumed if none is named.
fn causal_lm(fields: &Fields<'_>) -> bool {
    let names = fields.get("architectures").and_then(Value::as_array);
    names
        .and_then(|n| n.first()?.as_str())
        .is_none_or(|n| n.ends_with("ForCausalLM"))
}

/// Refuses fields that would change the results and are not implemented.
fn refuse_other_arithmetic(fields: &Fields<'_>) -> Result<(), Error> {
    // Some files have the activation under either name.
    for field in ["hidden_act", "hidden_activation"] {
        if fields
            .get(field)
            .is_some_and(|v| v != "silu" && v != "swish")
        {
            return Err(fields.unsupported(field, "only silu"));
        }
    }
    for (field, without_effect) in UNSUPPORTED {
        if let Some(value) = fields.get(field)
            && !without_effect.contains(&value.to_string().as_str())
        {
            return Err(fields.unsupported(field, "plain float decoders without it"));
        }
    }
    Ok(())
}
