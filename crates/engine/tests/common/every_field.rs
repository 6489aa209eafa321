//! Changes each field of a `config.json` in turn. For every change the results must differ, or the
//! change must be refused, or the field must be listed as inert with a reason.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::path::Path;

use serde_json::{Map, Value, json};

/// Fields without an effect on results, with a common reason.
pub(super) struct Inert {
    /// The names of the fields. `OBJECT.NAME` is a field of an object, and `NAME=VALUE` is one
    /// value of a field.
    pub fields: &'static [&'static str],
    /// The checkpoints to which the reason applies. `NAME*` is a prefix; an empty list means all.
    pub of: &'static [&'static str],
    pub reason: &'static str,
}

/// Fields without an effect in any checkpoint, encoders included.
#[rustfmt::skip]
pub(super) const EVERYWHERE: &[Inert] = &[
    Inert { of: &[], reason: "used in training only", fields: &["initializer_range"] },
    Inert { of: &[], reason: "what transformers' functions return besides the result", fields: &[
        "output_attentions", "output_hidden_states", "output_scores", "return_dict", "return_dict_in_generate"] },
    Inert { of: &[], reason: "sampling is said in generation_config.json", fields: &[
        "bad_words_ids", "begin_suppress_tokens", "diversity_penalty", "do_sample", "early_stopping",
        "encoder_no_repeat_ngram_size", "exponential_decay_length_penalty", "forced_bos_token_id", "forced_eos_token_id",
        "length_penalty", "max_length", "min_length", "no_repeat_ngram_size", "num_beam_groups", "num_beams",
        "num_return_sequences", "remove_invalid_values", "repetition_penalty", "suppress_tokens", "temperature", "top_k",
        "top_p", "typical_p"] },
    Inert { of: &[], reason: "says who wrote the file, and what for", fields: &[
        "transformers_version", "tokenizer_class", "finetuning_task", "task_specific_params", "prefix"] },
    Inert { of: &[], reason: "tensors have their own types, and the way of computing is the engine's", fields: &[
        "dtype", "torch_dtype", "torchscript", "use_bfloat16", "tf_legacy_loss"] },
    Inert { of: &[], reason: "tokens are the tokenizer's, which also reads eos_token_id", fields: &[
        "bos_token_id", "eos_token_id", "sep_token_id", "decoder_start_token_id"] },
    Inert { of: &[], reason: "cuts the work, and changes no result", fields: &["chunk_size_feed_forward"] },
    Inert { of: &[], reason: "of an encoder with a decoder, which is refused", fields: &[
        "cross_attention_hidden_size", "tie_encoder_decoder"] },
    Inert { of: &[], reason: "names for labels", fields: &["label2id"] },
    Inert { of: &[], reason: "the family is said by model_type; reward models have rules of their own", fields: &["auto_map", "_name_or_path"] },
];

/// Fields without an effect in any decoder, in addition to [`EVERYWHERE`].
#[rustfmt::skip]
pub(super) const DECODERS: &[Inert] = &[
    Inert { of: &[], reason: "used in training only", fields: &["attention_dropout"] },
    Inert { of: &[], reason: "of classifiers; the head's tensors say what it is", fields: &["id2label", "problem_type"] },
    Inert { of: &[], reason: "the cache is always used", fields: &["use_cache"] },
    Inert { of: &[], reason: "no text is padded", fields: &["pad_token_id"] },
    Inert { of: &[], reason: "a decoder is one in any case, and transformers cannot prune it", fields: &[
        "is_decoder", "pruned_heads"] },
];

/// The fields that the configuration classes of `transformers` have, with their defaults. The
/// fixture comes from `make_known_fields.py`.
fn known_fields(family: &str) -> Map<String, Value> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let text =
        std::fs::read_to_string(root.join("../../tests/fixtures/known_fields.json")).unwrap();
    let all: Map<String, Value> = serde_json::from_str(&text).unwrap();
    let mut fields = all[""].as_object().unwrap().clone();
    fields.extend(all[family].as_object().unwrap().clone());
    fields
}

/// The outcomes of changed fields, and the faults, over all checkpoints.
#[derive(Default)]
pub(super) struct Tally {
    table: String,
    faults: Vec<String>,
    /// The listed inert fields that had no effect in some checkpoint. All others are stale.
    needed: BTreeSet<&'static str>,
}

impl Tally {
    /// Changes each field of a checkpoint's `config.json`, and each further field that the family
    /// has in `transformers`. `read` returns the results for a configuration, or the reason of a
    /// refusal.
    pub(super) fn add<T: PartialEq>(
        &mut self,
        name: &str,
        config: &Value,
        inert: &[&'static [Inert]],
        read: impl Fn(&Value) -> Result<T, String>,
    ) {
        let family = config["model_type"].as_str().unwrap().to_owned();
        let usual = read(config).unwrap_or_else(|error| panic!("{name}: {error}"));
        let (mut fields, mut counts) = (0, [0; 3]);
        for (field, changes) in changes(config, &known_fields(&family)) {
            fields += 1;
            let listed = |change: &str| {
                let lists = inert.iter().flat_map(|list| list.iter());
                let ours = lists.filter(|inert| {
                    let is = |one: &&str| match one.strip_suffix('*') {
                        Some(start) => name.starts_with(start),
                        None => name == *one,
                    };
                    inert.of.is_empty() || inert.of.iter().any(is)
                });
                ours.flat_map(|inert| inert.fields)
                    .find(|listed| **listed == field || **listed == change)
            };
            let mut kinds = BTreeSet::new();
            for (value, changed) in changes {
                let change = format!("{field}={value}");
                let place = listed(&change);
                match (read(&changed), place) {
                    (Err(message), _) if message.lines().count() == 1 => {
                        kinds.insert(1);
                    }
                    (Err(message), _) => self.faults.push(format!("{name}: {change}: {message}")),
                    (Ok(other), None) if other == usual => {
                        self.faults.push(format!("{name}: {change} has no effect"));
                    }
                    (Ok(other), Some(name)) if other == usual => {
                        self.needed.insert(*name);
                        kinds.insert(2);
                    }
                    (Ok(_), None) => {
                        kinds.insert(0);
                    }
                    (Ok(_), Some(_)) => self
                        .faults
                        .push(format!("{name}: {change} is listed, and has an effect")),
                }
            }
            // One form of a field with an effect suffices to count the field as changed.
            if let Some(kind) = kinds.first() {
                counts[*kind] += 1;
            }
        }
        let [changed, refused, listed] = counts;
        writeln!(
            self.table,
            "{name:24}{fields:6}{changed:9}{refused:9}{listed:8}"
        )
        .unwrap();
    }

    /// # Panics
    /// If a change had no effect and is not listed, or a listed field has an effect or is stale.
    pub(super) fn check(mut self, inert: &[&[Inert]]) {
        println!(
            "checkpoint              fields  changed  refused  listed\n{}",
            self.table
        );
        for inert in inert.iter().flat_map(|list| list.iter()) {
            let stale = inert
                .fields
                .iter()
                .filter(|field| !self.needed.contains(*field));
            self.faults.extend(stale.map(|field| {
                format!(
                    "{field} is listed ({}), and no checkpoint needs it",
                    inert.reason
                )
            }));
        }
        assert!(
            self.faults.is_empty(),
            "{} faults:\n{}",
            self.faults.len(),
            self.faults.join("\n")
        );
    }
}

/// Returns the fields. For each field, returns other values and the configurations that have them.
fn changes(config: &Value, known: &Map<String, Value>) -> Vec<(String, Vec<(Value, Value)>)> {
    let mut all = Vec::new();
    let map = config.as_object().unwrap();
    for (field, value) in map {
        let with = |other: Value| {
            let mut changed = config.clone();
            changed[field] = other.clone();
            (other, changed)
        };
        // Objects are rotations, or within them the rotations of each kind of layer.
        let is_rotation = field.starts_with("rope_") || field.ends_with("_attention");
        if is_rotation && value.is_object() {
            for (name, changes) in changes(value, &Map::new()) {
                let changes = changes.into_iter().map(|(v, object)| (v, with(object).1));
                all.push((format!("{field}.{name}"), changes.collect()));
            }
            continue;
        }
        let mut values = others(field, value);
        let default = known.get(field).unwrap_or(&Value::Null);
        // An absent field takes its default, which may depend on other fields.
        if !value.is_null() && !default.is_null() && default != value {
            values.push(Value::Null);
        }
        all.push((field.clone(), values.into_iter().map(with).collect()));
    }
    // A file has its rotation in one of two forms, so fields of the unused form are not added.
    let other_form: &[&str] = if map.contains_key("rope_theta") {
        &["rope_parameters"]
    } else {
        &["rope_theta", "partial_rotary_factor"]
    };
    let absent = |field: &str| !map.contains_key(field) && !other_form.contains(&field);
    for (field, default) in known.iter().filter(|(field, _)| absent(field)) {
        let with = |other: Value| {
            let mut changed = config.clone();
            changed[field] = other.clone();
            (other, changed)
        };
        all.push((
            field.clone(),
            others(field, default).into_iter().map(with).collect(),
        ));
    }
    all
}

/// The values that are tried for fields with a text. `_NAME` is a suffix of field names.
const NAMES: [(&str, &[&str]); 13] = [
    ("layer_types", &["full_attention", "sliding_attention"]),
    (
        "_act",
        &["gelu", "gelu_new", "gelu_pytorch_tanh", "relu", "silu"],
    ),
    (
        "_activation",
        &["gelu", "gelu_new", "gelu_pytorch_tanh", "relu", "silu"],
    ),
    (
        "topk_method",
        &["greedy", "group_limited_greedy", "noaux_tc"],
    ),
    ("scoring_func", &["softmax", "sigmoid"]),
    (
        "rope_type",
        &["default", "linear", "dynamic", "yarn", "llama3", "longrope"],
    ),
    (
        "type",
        &["default", "linear", "dynamic", "yarn", "llama3", "longrope"],
    ),
    (
        "position_embedding_type",
        &["absolute", "relative_key", "relative_key_query"],
    ),
    ("classifier_pooling", &["cls", "mean"]),
    ("norm_rel_ebd", &["none", "layer_norm"]),
    (
        "problem_type",
        &[
            "regression",
            "single_label_classification",
            "multi_label_classification",
        ],
    ),
    ("model_type", &["llama", "gpt2"]),
    ("dtype", &["float16", "float32"]),
];

/// Returns other values for `field`, of the same kind as `value` where possible.
fn others(field: &str, value: &Value) -> Vec<Value> {
    let named = NAMES
        .iter()
        .find(|(name, _)| *name == field || (name.starts_with('_') && field.ends_with(name)));
    let named = named.map(|(_, names)| names.iter().map(|name| Value::from(*name)));
    let others: Vec<Value> = match value {
        Value::Null => named.map_or_else(|| samples(field), Iterator::collect),
        Value::Bool(flag) => vec![json!(!flag)],
        Value::String(text) => {
            named.map_or_else(|| vec![json!(format!("{text}x"))], Iterator::collect)
        }
        Value::Number(number) => {
            if let Some(n) = number.as_i64() {
                vec![
                    json!(n + 1),
                    json!(2 * n + 2),
                    json!((n - 1).max(0)),
                    json!(0),
                ]
            } else {
                let x = number.as_f64().unwrap();
                vec![json!(2.0 * x + 0.25), json!(x / 2.0 + 0.125)]
            }
        }
        Value::Array(list) => {
            let mut other: Vec<Value> = list.clone();
            other.reverse();
            let first = list
                .first()
                .map_or_else(|| json!(1), |first| others(field, first).remove(0));
            let more = list.iter().cloned().chain([first.clone()]).collect();
            let fewer = list.iter().skip(1).cloned().collect();
            let changed = [first]
                .into_iter()
                .chain(list.iter().skip(1).cloned())
                .collect();
            [other, more, fewer, changed].map(Value::Array).to_vec()
        }
        Value::Object(map) => {
            let mut fewer = map.clone();
            if let Some(last) = map.keys().next_back() {
                fewer.remove(last);
            }
            let mut more = map.clone();
            more.insert(map.len().to_string(), json!("other"));
            vec![Value::Object(fewer), Value::Object(more)]
        }
    };
    let mut found: Vec<Value> = Vec::new();
    for other in others {
        if other != *value && !found.contains(&other) {
            found.push(other);
        }
    }
    found
}

/// Returns values to try for a field that the file lacks.
fn samples(field: &str) -> Vec<Value> {
    match field {
        "rope_scaling" | "rope_parameters" => vec![
            json!({"rope_type": "linear", "type": "linear", "factor": 2.0}),
            json!({"rope_type": "longrope", "factor": 2.0}),
            json!({"rope_theta": 123.0, "rope_type": "default"}),
        ],
        "quantization_config" => vec![json!({"quant_method": "gptq", "bits": 4})],
        "layer_types" => vec![
            json!(["full_attention"]),
            json!(["sliding_attention", "full_attention"]),
        ],
        "architectures" | "extra_files" => vec![json!(["Other"])],
        "auto_map" => vec![json!({"AutoModel": "modeling.Other"})],
        "id2label" => vec![json!({"0": "a", "1": "b", "2": "c"})],
        "label2id" => vec![json!({"a": 0, "b": 1, "c": 2})],
        "no_rope_layers" | "mlp_only_layers" => vec![json!([0]), json!([0, 1, 0, 1])],
        "pos_att_type" => vec![json!(["c2p"])],
        field if field.starts_with("use_") => vec![json!(true)],
        field if field.ends_with("_theta") => vec![json!(123.0)],
        field if field.ends_with("_factor") || field.ends_with("dropout") => vec![json!(0.5)],
        _ => vec![json!(1), json!(2), json!(7)],
    }
}
