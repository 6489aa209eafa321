//! The families of sequence classifiers as data: one row each.

use candle_core::{Device, Result, Tensor};
use candle_nn::VarBuilder;
use candle_transformers::models::{debertav2, modernbert, xlm_roberta};
use serde_json::{Map, Value};

use crate::config::lift_rope;
use crate::families::config;
use crate::fields::Fixed;

/// A family of sequence classifiers in candle, as a row of the table [`FAMILIES`].
#[derive(Debug)]
pub(crate) struct Family {
    /// The `model_type` in `config.json` by which the family is found.
    pub model_type: &'static str,
    /// The one class of `transformers` that has this head.
    pub architecture: &'static str,
    /// Builds the model from `config.json`, the number of labels and the weights.
    pub open: Open,
    /// Rewrites fields into the form that candle reads. Returns the kind of scaling of rotary
    /// embeddings.
    pub prepare: fn(&mut Map<String, Value>) -> String,
    /// Fields that candle ignores, with the values that its computation corresponds to.
    pub fixed: &'static [Fixed],
    /// The kind of numbers that the model returns for the labels.
    pub output: Output,
    /// Returns the number of positions that no token can have, given the id of the padding token.
    pub positions_lost: fn(u64) -> u64,
}

/// The kind of numbers that a model returns for its labels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Output {
    Logits,
    /// The softmax of the logits. With a single label this would always be 1.
    Softmax,
}

/// A pair of texts as tensors.
pub(crate) struct Input {
    /// The tokens of both texts `[1, tokens]`.
    pub tokens: Tensor,
    /// The text, 0 or 1, that each token belongs to `[1, tokens]`; all 0 if the model does not
    /// distinguish them.
    pub types: Tensor,
    /// Ones `[1, tokens]`: no token is padding.
    pub mask: Tensor,
}

impl Input {
    pub(crate) fn new(tokens: &[u32], types: &[u32]) -> Result<Self> {
        let row = |values: &[u32]| Tensor::new(values, &Device::Cpu)?.unsqueeze(0);
        let tokens = row(tokens)?;
        Ok(Self {
            types: row(types)?,
            mask: tokens.ones_like()?,
            tokens,
        })
    }
}

/// A loaded model. Its result has one number for each label.
pub(crate) type Classifier = Box<dyn Fn(&Input) -> Result<Tensor> + Send>;
type Open = fn(&Value, usize, VarBuilder<'static>) -> Result<Classifier>;

/// A list of attention heads to remove from the loaded weights. candle ignores it.
const PRUNED: Fixed = ("pruned_heads", &["{}"]);

pub(crate) const FAMILIES: &[Family] = &[
    Family {
        model_type: "deberta-v2",
        architecture: "DebertaV2ForSequenceClassification",
        open: open_deberta,
        prepare: |map| {
            let hidden = map.get("hidden_size").cloned().unwrap_or_default();
            fill(map, "pooler_hidden_size", hidden);
            fill(map, "pooler_dropout", 0.into());
            // Defaults of `transformers`, since candle requires the fields.
            fill(map, "pooler_hidden_act", "gelu".into());
            "default".to_owned()
        },
        fixed: &[("conv_kernel_size", &["0"]), PRUNED],
        output: Output::Logits,
        positions_lost: |_| 0,
    },
    Family {
        model_type: "modernbert",
        architecture: "ModernBertForSequenceClassification",
        open: open_modernbert,
        prepare: prepare_modernbert,
        fixed: &[
            ("hidden_activation", &["\"gelu\""]),
            ("classifier_activation", &["\"gelu\""]),
            ("attention_bias", &["false"]),
            ("mlp_bias", &["false"]),
            ("norm_bias", &["false"]),
            ("classifier_bias", &["false"]),
        ],
        output: Output::Softmax,
        positions_lost: |_| 0,
    },
    Family {
        model_type: "xlm-roberta",
        architecture: "XLMRobertaForSequenceClassification",
        open: open_xlm_roberta,
        prepare: |map| {
            fill(map, "position_embedding_type", "absolute".into());
            "default".to_owned()
        },
        fixed: &[
            ("position_embedding_type", &["\"absolute\""]),
            ("is_decoder", &["false"]),
            PRUNED,
        ],
        output: Output::Logits,
        // The first token has the position of the padding token's id plus one.
        positions_lost: |padding| padding + 1,
    },
];

/// Sets a field unless it has a value; `null` counts as none.
fn fill(map: &mut Map<String, Value>, name: &str, value: Value) {
    if map.get(name).is_none_or(Value::is_null) {
        map.insert(name.to_owned(), value);
    }
}

fn open_deberta(json: &Value, _: usize, weights: VarBuilder<'static>) -> Result<Classifier> {
    let config: debertav2::Config = config(json)?;
    let body = weights.pp("deberta");
    let model = debertav2::DebertaV2SeqClassificationModel::load(body, &config, None)?;
    Ok(Box::new(move |input| {
        let (types, mask) = (input.types.clone(), input.mask.clone());
        model.forward(&input.tokens, Some(types), Some(mask))
    }))
}

fn open_modernbert(json: &Value, _: usize, weights: VarBuilder<'static>) -> Result<Classifier> {
    let config: modernbert::Config = config(json)?;
    let model = modernbert::ModernBertForSequenceClassification::load(weights, &config)?;
    Ok(Box::new(move |input| {
        model.forward(&input.tokens, &input.mask)
    }))
}

fn open_xlm_roberta(json: &Value, labels: usize, weights: VarBuilder) -> Result<Classifier> {
    let config: xlm_roberta::Config = config(json)?;
    let model = xlm_roberta::XLMRobertaForSequenceClassification::new(labels, &config, weights)?;
    Ok(Box::new(move |input| {
        model.forward(&input.tokens, &input.mask, &input.types)
    }))
}

/// Rewrites the fields of `transformers` 5 to those of `transformers` 4, which candle reads.
/// Version 5 lists the kind of each layer, and has rotary embeddings for each kind.
fn prepare_modernbert(map: &mut Map<String, Value>) -> String {
    let rope_type = lift_rope(map);
    // `transformers` reads only `norm_eps`, and candle only `layer_norm_eps`.
    if let Some(eps) = map.get("norm_eps").cloned() {
        map.insert("layer_norm_eps".to_owned(), eps);
    }
    for (new, old) in [
        ("rope_theta", "global_rope_theta"),
        ("rope_local_base_freq", "local_rope_theta"),
    ] {
        if let Some(value) = map.get(new).cloned() {
            fill(map, old, value);
        }
    }
    fill(map, "classifier_pooling", "cls".into());
    if let Some(Value::Array(kinds)) = map.get("layer_types") {
        // The first layer is global in any case.
        let every = kinds
            .iter()
            .skip(1)
            .position(|kind| kind == "full_attention");
        let every = every.map_or(kinds.len(), |between| between + 1);
        fill(map, "global_attn_every_n_layers", every.into());
    }
    // candle expects the ids as strings; `transformers` writes numbers.
    if let Some(Value::Object(ids)) = map.get_mut("label2id") {
        for id in ids.values_mut() {
            *id = id.to_string().into();
        }
    }
    rope_type
}
