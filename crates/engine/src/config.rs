//! Reads the sizes and variants of a decoder from a Hugging Face `config.json`.
//!
//! Each model family is a row of [`FAMILIES`] with the defaults of its configuration. A field that
//! asks for arithmetic that this engine lacks is an error. Fields without influence on the
//! arithmetic are ignored.

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

/// The most layers of a model. Memory is reserved per layer before any tensor is found, so a
/// corrupt number must not pass.
const MAX_LAYERS: usize = 1 << 16;

/// The decoder's sizes and variants.
#[derive(Clone, Debug, PartialEq)]
pub struct ModelConfig {
    /// `model_type` of the checkpoint: `llama`, `mistral`, `qwen2`, `qwen3` or `phi3`.
    pub model_type: String,
    /// The number of rows of the embedding, padding included. The tokenizer may have fewer tokens.
    pub vocab_size: usize,
    /// Width of the residual stream.
    pub hidden_size: usize,
    /// Width of the feed-forward block.
    pub intermediate_size: usize,
    /// The number of transformer layers, at most 65,536 in a file.
    pub num_hidden_layers: usize,
    /// The number of query heads of a layer. Several query heads may share a key-value head.
    pub num_attention_heads: usize,
    /// The number of key-value heads of a layer; divides the number of query heads.
    pub num_key_value_heads: usize,
    /// The number of values in a head; even, and not always `hidden_size / num_attention_heads`.
    pub head_dim: usize,
    /// The epsilon that `RMSNorm` adds to the mean square before it takes the root.
    pub rms_norm_eps: f32,
    /// The rotary embedding of queries and keys, with its scaling for long contexts.
    pub rope: Rope,
    /// The most positions of a sequence. With `YaRN` scaling this may exceed the field of the same
    /// name in `config.json`: it is at least the original context times the factor.
    pub max_position_embeddings: usize,
    /// The sliding window of each layer: the number of positions that a row attends to, itself
    /// included. `None` means all positions, and so does a layer beyond the end of this list.
    pub windows: Vec<Option<usize>>,
    /// Whether the language-model head uses the embedding's weights.
    pub tie_word_embeddings: bool,
    /// Whether the query, key and value projections have biases (always in `qwen2`).
    pub qkv_bias: bool,
    /// Whether the output projection of attention has a bias (`attention_bias` of `llama`).
    pub o_bias: bool,
    /// Whether the feed-forward projections have biases (`mlp_bias` of `llama`).
    pub mlp_bias: bool,
    /// Whether queries and keys are normalised per head before the rotation (in `qwen3`).
    pub qk_norm: bool,
    /// Whether each layer's projections are stored as `qkv_proj` and `gate_up_proj` (in `phi3`).
    pub fused_projections: bool,
    /// Whether the checkpoint must have a language-model head. Reward models need none.
    pub causal_lm: bool,
}

impl ModelConfig {
    /// Reads `config.json` of a checkpoint.
    ///
    /// # Errors
    /// [`Error::Io`] and [`Error::Json`] for the file, and the errors of
    /// [`ModelConfig::from_json`].
    pub fn load(checkpoint: impl Into<Checkpoint>) -> Result<Self, Error> {
        let checkpoint = checkpoint.into();
        let text = checkpoint.required_text("config.json")?;
        Self::from_json(&text, &checkpoint.path_of("config.json"))
    }

    /// Parses the text of a `config.json`. Messages name the file `path`.
    ///
    /// # Errors
    /// [`Error::Json`] if `text` is not a JSON object; [`Error::MissingField`], [`Error::BadField`]
    /// or [`Error::Unsupported`] for a field, which the error names.
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

        // The sizes are read after this check, because for other arithmetic "unsupported" says more
        // than a missing size.
        let hidden_size = fields.size("hidden_size")?;
        let num_hidden_layers = fields.size("num_hidden_layers")?;
        // Windows are kept per layer, so an absurd number would exhaust memory before a missing
        // tensor is reported.
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

    /// The sliding window of `layer`; `None` if the layer attends to all positions.
    pub(crate) fn window(&self, layer: usize) -> Option<usize> {
        self.windows.get(layer).copied().flatten()
    }

    /// The bytes of all norms. Norms are float32 whatever the type of the weights.
    pub(crate) fn norm_bytes(&self) -> usize {
        let head_norms = if self.qk_norm { 2 * self.head_dim } else { 0 };
        let layers = self.num_hidden_layers * (2 * self.hidden_size + head_norms);
        4 * (layers + self.hidden_size)
    }

    /// The width of the projected queries, keys and values of one row.
    pub(crate) fn qkv_width(&self) -> usize {
        (self.num_attention_heads + 2 * self.num_key_value_heads) * self.head_dim
    }

    pub(crate) fn q_width(&self) -> usize {
        self.num_attention_heads * self.head_dim
    }

    /// The width of the projected keys of one row, which is also that of the values.
    pub(crate) fn kv_width(&self) -> usize {
        self.num_key_value_heads * self.head_dim
    }
}

fn kv_heads(fields: &Fields<'_>, family: &Family, heads: usize) -> Result<usize, Error> {
    let field = "num_key_value_heads";
    let kv_heads = match fields.optional_size(field)? {
        // `null` means as many as query heads. Only an absent field takes the family's default.
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
    // With an explicit `head_dim`, the heads need not fill the hidden size exactly.
    if given.is_none() && !hidden.is_multiple_of(heads) {
        let expected = format!("a divisor of hidden_size = {hidden}");
        return Err(fields.bad("num_attention_heads", &expected));
    }
    let head_dim = given.unwrap_or(hidden / heads);
    // The rotation turns pairs of values.
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

/// Whether the architecture has a language-model head. A file without `architectures` has one.
fn causal_lm(fields: &Fields<'_>) -> bool {
    let names = fields.get("architectures").and_then(Value::as_array);
    names
        .and_then(|n| n.first()?.as_str())
        .is_none_or(|n| n.ends_with("ForCausalLM"))
}

/// Refuses fields that would change the results and that this engine does not implement.
/// `transformers` would follow them.
fn refuse_other_arithmetic(fields: &Fields<'_>) -> Result<(), Error> {
    // Files use either name for the activation.
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
