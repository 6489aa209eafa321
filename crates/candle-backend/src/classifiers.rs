//! The families of sequence classifiers as data: one row each.

use candle_core::{Device, Result, Tensor};
use candle_nn::VarBuilder;
use candle_transformers::models::{debertav2, modernbert, xlm_roberta};
use serde_json::{Map, Value};

use crate::config::lift_rope;
use crate::families::config;
use crate::fields::Fixed;

/// A family of sequence classifiers.
#[derive(Debug)]
pub(crate) struct Family {
    /// As in `config.json`.
    pub model_type: &'static str,
    /// The one class of `transformers` that has this head.
    pub architecture: &'static str,
    /// Makes the model of `config.json` and weights.
    pub open: Open,
    /// Writes fields as candle reads them. Returns how the rotation is scaled.
    pub prepare: fn(&mut Map<String, Value>) -> String,
    /// Fields that candle does not read.
    pub fixed: &'static [Fixed],
    /// What the model gives for each label.
    pub output: Output,
    /// Positions that no token has, from the id of the padding token.
    pub positions_lost: fn(u64) -> u64,
}

/// What a model gives for each label.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Output {
    Logits,
    /// Their softmax, which of one label is always 1.
    Softmax,
}

/// Two texts as the model reads them.
pub(crate) struct Input {
    /// `[1, tokens]`.
    pub tokens: Tensor,
    /// Which text a token is of, `[1, tokens]`; zeros where the model knows one kind alone.
    pub types: Tensor,
    /// Ones, `[1, tokens]`.
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

/// A model: one number for each label.
pub(crate) type Classifier = Box<dyn Fn(&Input) -> Result<Tensor> + Send>;
type Open = fn(&Value, usize, VarBuilder<'static>) -> Result<Classifier>;

/// Heads that are cut away when the weights are loaded.
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
        // They are counted from the padding token's id.
        positions_lost: |padding| padding + 1,
    },
];

/// A field that is not there.
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

/// `transformers` 5 has a list of layers and a rotation for each kind of them; candle reads what
/// `transformers` 4 wrote.
fn prepare_modernbert(map: &mut Map<String, Value>) -> String {
    let rope_type = lift_rope(map);
    // `transformers` reads this name alone.
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
        let global = |kind: &Value| kind == "full_attention";
        // The first layer is global in any case.
        let every = kinds.iter().skip(1).position(global);
        let every = every.map_or(kinds.len(), |between| between + 1);
        fill(map, "global_attn_every_n_layers", every.into());
    }
    // candle wants texts.
    if let Some(Value::Object(ids)) = map.get_mut("label2id") {
        for id in ids.values_mut() {
            *id = id.to_string().into();
        }
    }
    rope_type
}
