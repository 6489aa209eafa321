//! Reads and checks the `config.json` of a sequence classifier.

use beamgen_engine::Checkpoint;
use serde_json::{Map, Value, json};

use crate::classifiers::{Classifier, FAMILIES, Family, Output};
use crate::error::Error;
use crate::families::FIXED;
use crate::fields::{Fields, MOST, MOST_ANGLES, MOST_LAYERS, family, read_map, refuse};
use crate::layers;
use crate::weights::LazyWeights;

/// A configuration that candle implements completely.
#[derive(Debug)]
pub(crate) struct ClassifierConfig {
    pub family: &'static Family,
    /// The fields in the form in which candle reads them.
    pub json: Value,
    /// The most tokens of both texts together, special tokens included.
    pub context: usize,
    pub vocab_size: usize,
    /// The labels of `id2label`: one or two, or those of a model of entailment.
    pub labels: Vec<String>,
    /// The label whose probability is the score.
    pub scored: usize,
    /// Whether the scored label is "entailment": the second text follows from the first.
    pub entails: bool,
    /// Whether the model knows which tokens belong to the first text and which to the second.
    pub has_types: bool,
}

impl ClassifierConfig {
    pub(crate) fn load(checkpoint: &Checkpoint) -> Result<Self, Error> {
        let (path, mut map) = read_map(checkpoint)?;
        let family = family(&path, &map, FAMILIES, |family| family.model_type)?;
        let architecture = map.get("architectures").map(|list| list[0].clone());
        if architecture.as_ref().and_then(Value::as_str) != Some(family.architecture) {
            let found = architecture.unwrap_or_default();
            let wanted = family.architecture;
            let reason = format!("architectures names {found}, and only {wanted} gives scores");
            return Err(refuse(&path, reason));
        }
        let rope_type = (family.prepare)(&mut map);
        if rope_type != "default" {
            let reason = format!(
                "the rotation is scaled by {rope_type:?}, which candle-transformers does not \
                 implement for {}",
                family.model_type
            );
            return Err(refuse(&path, reason));
        }
        let labels = labels(&map).map_err(|reason| refuse(&path, reason))?;
        if labels.len() == 1 && family.output == Output::Softmax {
            let reason = format!(
                "it has one label, and candle-transformers' {} takes the softmax over labels, \
                 which is then 1",
                family.model_type
            );
            return Err(refuse(&path, reason));
        }
        if labels.len() > 1 && map.get("problem_type") == Some(&"multi_label_classification".into())
        {
            let reason =
                "problem_type is \"multi_label_classification\": labels must exclude each other";
            return Err(refuse(&path, reason.into()));
        }
        let entailment = labels.iter().position(|label| is_entailment(label));
        let names = labels.iter().enumerate();
        let names = names.map(|(i, label)| (i.to_string(), label.clone().into()));
        // The field may be absent, but candle takes the number of labels from it.
        map.insert("id2label".into(), Value::Object(names.collect()));
        let fields = Fields {
            path: &path,
            map: &map,
        };
        fields.check_fixed(FIXED)?;
        fields.check_fixed(family.fixed)?;
        fields.check_numbers()?;
        let layers = fields.size("num_hidden_layers", MOST_LAYERS)?;
        let heads = fields.size("num_attention_heads", MOST)?;
        let hidden = fields.size("hidden_size", MOST)?;
        if !hidden.is_multiple_of(heads) {
            let reason = "num_attention_heads must divide hidden_size";
            return Err(refuse(&path, reason.into()));
        }
        if family.model_type == "modernbert" {
            // In candle every n-th layer has global attention, the first one included.
            let every = fields.size("global_attn_every_n_layers", MOST)?;
            layers::check_full(&fields, layers, |i| i.is_multiple_of(every))?;
        }
        let vocab_size = fields.size("vocab_size", MOST)? as usize;
        let positions = fields.size("max_position_embeddings", MOST)?;
        let padding = map.get("pad_token_id").and_then(Value::as_u64).unwrap_or(0);
        let context = positions.saturating_sub((family.positions_lost)(padding));
        if context == 0 || positions.saturating_mul(hidden / heads) > MOST_ANGLES {
            let reason = format!("max_position_embeddings is {positions}");
            return Err(refuse(&path, reason));
        }
        let types = map.get("type_vocab_size").and_then(Value::as_u64);
        Ok(Self {
            family,
            context: context as usize,
            vocab_size,
            // Of the labels "wrong" and "right" the last is scored; a single logit is scored
            // itself.
            scored: entailment.unwrap_or(labels.len() - 1),
            entails: entailment.is_some(),
            labels,
            has_types: types.is_some_and(|types| types > 1),
            json: Value::Object(map),
        })
    }

    /// Builds the model with its weights; `name` is for error messages.
    pub(crate) fn classifier(&self, name: &str, weights: LazyWeights) -> Result<Classifier, Error> {
        weights.build(name, self.family.model_type, |builder| {
            (self.family.open)(&self.json, self.labels.len(), builder)
        })
    }
}

/// Whether a label says that the second text follows from the first.
fn is_entailment(label: &str) -> bool {
    label.trim().eq_ignore_ascii_case("entailment")
}

/// Returns the names of the labels in order. Without `id2label`, `transformers` gives two names.
fn labels(map: &Map<String, Value>) -> Result<Vec<String>, String> {
    let two = json!({"0": "LABEL_0", "1": "LABEL_1"});
    let named = map.get("id2label").filter(|names| !names.is_null());
    let names = named.unwrap_or(&two).as_object();
    let names = names.ok_or("id2label must be an object")?;
    let labels = (0..names.len()).map(|i| {
        let name = names.get(&i.to_string()).and_then(Value::as_str);
        let name = name.ok_or_else(|| format!("id2label has no name for label {i}"))?;
        Ok(name.to_owned())
    });
    let labels = labels.collect::<Result<Vec<_>, String>>()?;
    let count = labels.len();
    if !(1..=2).contains(&count) && !labels.iter().any(|label| is_entailment(label)) {
        return Err(format!(
            "it has {count} labels: a score needs one (a logit), two (wrong and right, in this \
             order), or those of a model of entailment, one of which is called \"entailment\""
        ));
    }
    Ok(labels)
}
