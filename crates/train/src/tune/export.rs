//! Export of a trained decoder as a checkpoint folder in the format of Hugging Face.

use std::collections::HashMap;
use std::path::Path;

use beamgen_engine::{Checkpoint, Weights};
use beamgen_prm::{Classes, HeadSpec, Normaliser, PrmSpec};
use candle_core::{DType, Device, Tensor};
use serde_json::{Value, json};

use super::Decoder;
use super::decoder::{EMBEDDING, HEAD};
use crate::write::{create_folder, write, write_json, write_tensors};
use crate::{Error, Result};

/// The text files that are copied unchanged from the original checkpoint if they exist there.
const COPIED: [&str; 7] = [
    "generation_config.json",
    "tokenizer.json",
    "tokenizer_config.json",
    "special_tokens_map.json",
    "added_tokens.json",
    "chat_template.jinja",
    "vocab.json",
];

/// The parts of an exported folder that depend on the use of the model.
#[derive(Clone, Debug)]
pub struct Kind<'a> {
    /// The suffix of the class in `architectures`, for example `ForCausalLM` in `LlamaForCausalLM`.
    pub class: &'a str,
    /// Whether the language-model head is written.
    pub head: bool,
    /// The fields of `config.json` to set; existing values are replaced.
    pub fields: Vec<(&'static str, Value)>,
    /// The chat template to write; `None` keeps that of the checkpoint.
    pub chat_template: Option<&'a str>,
    /// The file name and content of a reward model's format description.
    pub format: Option<(&'a str, &'a str)>,
    /// The type of all written tensors, frozen ones included.
    pub dtype: DType,
}

impl Kind<'_> {
    /// Returns the kind of a language model: with a head, and no other changes to the checkpoint's files.
    #[must_use]
    pub fn generator(dtype: DType) -> Self {
        Self {
            class: "ForCausalLM",
            head: true,
            fields: Vec::new(),
            chat_template: None,
            format: None,
            dtype,
        }
    }

    /// Returns the kind of a reward model, by its head. One linear layer `score` with two classes is a token
    /// classifier of `transformers`, and label tokens are read from a causal language model. All other heads make a
    /// bare decoder whose file contains the head's tensors too.
    #[must_use]
    pub fn reward(spec: &PrmSpec, dtype: DType) -> Self {
        let (class, head, fields) = match (&spec.head, &spec.normaliser) {
            (HeadSpec::Tokens(_) | HeadSpec::LogRatio(_), _) => ("ForCausalLM", true, Vec::new()),
            (HeadSpec::Linear(layers), Normaliser::Softmax(Classes::One(right)))
                if layers.len() == 1 && layers[0].weight == "score.weight" =>
            {
                // The names are displayed by `transformers`. The score is the probability of class `right`.
                let names = match right {
                    0 => ["right", "wrong"],
                    _ => ["wrong", "right"],
                };
                let fields = vec![
                    ("id2label", json!({"0": names[0], "1": names[1]})),
                    ("label2id", json!({names[0]: 0, names[1]: 1})),
                ];
                ("ForTokenClassification", false, fields)
            }
            (HeadSpec::Linear(_), _) => ("Model", false, Vec::new()),
        };
        Self {
            class,
            head,
            fields,
            ..Self::generator(dtype)
        }
    }
}

/// Writes `decoder` to the folder `dir`. Tensors and texts that were not trained come from `checkpoint`, whose
/// tensors are `weights`.
///
/// # Errors
/// A file cannot be written, a tensor cannot be read, or the model type is unsupported.
pub fn save(
    decoder: &Decoder,
    checkpoint: &Checkpoint,
    weights: &Weights,
    kind: &Kind<'_>,
    dir: &Path,
) -> Result<()> {
    create_folder(dir)?;
    let mut tensors: HashMap<String, Tensor> = HashMap::new();
    for (name, tensor) in decoder.tensors()? {
        let tensor = tensor.to_device(&Device::Cpu)?;
        tensors.insert(name, tensor.to_dtype(kind.dtype)?);
    }
    // Frozen tensors are copied from the checkpoint.
    for (name, own) in decoder_tensors(decoder, weights, kind.head) {
        if tensors.contains_key(&name) {
            continue;
        }
        let tensor = weights.tensor(own)?;
        let tensor = Tensor::from_vec(tensor.data, tensor.shape, &Device::Cpu)?;
        tensors.insert(name, tensor.to_dtype(kind.dtype)?);
    }
    // The weights are written first, because a folder without `config.json` does not count as a checkpoint.
    write_tensors(&dir.join("model.safetensors"), &tensors)?;
    for name in COPIED {
        if let Some(text) = checkpoint.text(name)? {
            write(&dir.join(name), text.as_bytes())?;
        }
    }
    if let Some(template) = kind.chat_template {
        write(&dir.join("chat_template.jinja"), template)?;
    }
    if let Some((file, text)) = kind.format {
        write(&dir.join(file), text)?;
    }
    let config = config(checkpoint, decoder, kind)?;
    write_json(&dir.join("config.json"), &config)
}

/// Returns pairs of a tensor's name in the model family and in the checkpoint file, for all tensors of the decoder.
/// The language-model head is among them if `head` is true and the head is not tied.
pub(crate) fn decoder_tensors<'w>(
    decoder: &Decoder,
    weights: &'w Weights,
    head: bool,
) -> impl Iterator<Item = (String, &'w str)> {
    let has_head = head && !decoder.config.tie_word_embeddings;
    weights.names().filter_map(move |own| {
        let name = match own {
            HEAD => own.to_owned(),
            _ => format!("model.{}", own.strip_prefix("model.").unwrap_or(own)),
        };
        let parts = [EMBEDDING, HEAD, "model.layers.", "model.norm."];
        let is_decoders = parts.iter().any(|part| name.starts_with(part));
        let left_out = name == HEAD && !has_head;
        (is_decoders && !left_out && !name.ends_with("inv_freq")).then_some((name, own))
    })
}

fn config(checkpoint: &Checkpoint, decoder: &Decoder, kind: &Kind<'_>) -> Result<Value> {
    let file = "config.json";
    let text = checkpoint.required_text(file)?;
    let mut config: Value = serde_json::from_str(&text)
        .map_err(|error| Error::Checkpoint(checkpoint.path_of(file), error.to_string()))?;
    let family = match decoder.config.model_type.as_str() {
        "llama" => "Llama",
        "mistral" => "Mistral",
        "qwen2" => "Qwen2",
        "qwen3" => "Qwen3",
        "phi3" => "Phi3",
        other => {
            return Err(Error::Config(format!(
                "model type {other}: cannot be exported: use llama, mistral, qwen2, qwen3 or phi3"
            )));
        }
    };
    config["architectures"] = vec![format!("{family}{}", kind.class)].into();
    let dtype = match kind.dtype {
        DType::BF16 => "bfloat16",
        _ => "float32",
    };
    if let Some(fields) = config.as_object_mut() {
        // Newer versions of `transformers` write `dtype`, which is removed because it could contradict `torch_dtype`.
        fields.remove("dtype");
        fields.insert("torch_dtype".into(), dtype.into());
        // Some files say "tied" and still contain a separate head, so the decoder decides.
        if let Some(tied) = fields.get_mut("tie_word_embeddings") {
            *tied = decoder.config.tie_word_embeddings.into();
        }
        for (name, value) in &kind.fields {
            fields.insert((*name).into(), value.clone());
        }
    }
    Ok(config)
}
