//! Converts a GGUF file's metadata to `config.json` and `generation_config.json`.

use serde_json::{Value, json};

use super::Gguf;
use crate::Error;

/// Tensors that describe the scaling of the rotation. They become fields of `config.json`.
pub(super) const RESCALING: [&str; 3] = [
    "rope_freqs.weight",
    "rope_factors_long.weight",
    "rope_factors_short.weight",
];

/// A model architecture and the layout of its tensors in GGUF files.
pub(super) struct Architecture {
    /// The value of `general.architecture`, which is also the prefix of the architecture's keys and
    /// the `model_type`.
    pub(super) name: &'static str,
    class: &'static str,
    /// Whether rows of queries and keys are ordered so that the rotation pairs neighbouring rows.
    pub(super) interleaved: bool,
    /// Whether a layer has one matrix for queries, keys and values, and one for gate and up.
    pub(super) fused: bool,
}

const LLAMA: Architecture = Architecture {
    name: "llama",
    class: "LlamaForCausalLM",
    interleaved: true,
    fused: false,
};

const QWEN2: Architecture = Architecture {
    name: "qwen2",
    class: "Qwen2ForCausalLM",
    interleaved: false,
    fused: false,
};

const ARCHITECTURES: [Architecture; 5] = [
    LLAMA,
    Architecture {
        name: "mistral",
        class: "MistralForCausalLM",
        ..LLAMA
    },
    QWEN2,
    Architecture {
        name: "qwen3",
        class: "Qwen3ForCausalLM",
        ..QWEN2
    },
    Architecture {
        name: "phi3",
        class: "Phi3ForCausalLM",
        fused: true,
        ..QWEN2
    },
];

impl Architecture {
    pub(super) fn of(file: &Gguf) -> Result<&'static Self, Error> {
        let key = "general.architecture";
        let name = file.required_string(key)?;
        ARCHITECTURES
            .iter()
            .find(|a| a.name == name)
            .ok_or_else(|| {
                let supported = ARCHITECTURES.map(|a| a.name).join(", ");
                file.unsupported(key, &format!("`{name}`"), &format!("only {supported}"))
            })
    }
}

/// Reads the required number at key `suffix` of the file's architecture.
fn size(file: &Gguf, suffix: &str) -> Result<u64, Error> {
    let key = key(file, suffix)?;
    file.integer(&key)?.ok_or_else(|| file.missing(&key))
}

/// Returns the full key: the architecture's name, a dot and `suffix`.
fn key(file: &Gguf, suffix: &str) -> Result<String, Error> {
    Ok(format!("{}.{suffix}", Architecture::of(file)?.name))
}

/// The base of the rotation's frequencies, 10,000 by default.
fn theta(file: &Gguf) -> Result<f64, Error> {
    Ok(file
        .number(&key(file, "rope.freq_base")?)?
        .unwrap_or(10_000.0))
}

/// The number of values in a head: `key_length`, by default the hidden size over the heads.
pub(super) fn head_dim(file: &Gguf) -> Result<usize, Error> {
    let length = key(file, "attention.key_length")?;
    let head_dim = if let Some(length) = file.integer(&length)? {
        length
    } else {
        let heads = size(file, "attention.head_count")?;
        let width = size(file, "embedding_length")?;
        width.checked_div(heads).unwrap_or(0)
    };
    usize::try_from(head_dim)
        .map_err(|_| file.bad(&length, &head_dim.to_string(), "a small number"))
}

pub(super) fn config(file: &Gguf) -> Result<Value, Error> {
    let architecture = Architecture::of(file)?;
    let key = |suffix: &str| key(file, suffix);
    let heads = size(file, "attention.head_count")?;
    let kv_heads = file.integer(&key("attention.head_count_kv")?)?;
    let head_dim = head_dim(file)?;
    if let Some(length) = file.integer(&key("attention.value_length")?)?
        && length != head_dim as u64
    {
        let supported = format!("only that of the keys, {head_dim}");
        let field = key("attention.value_length")?;
        return Err(file.unsupported(&field, &length.to_string(), &supported));
    }
    let embedding = file
        .tensors
        .iter()
        .find(|tensor| tensor.name == "token_embd.weight");
    let epsilon = key("attention.layer_norm_rms_epsilon")?;
    // The metadata often lacks the vocabulary's size, so the embedding's number of rows is used.
    let vocabulary = embedding.and_then(|tensor| tensor.shape.first().copied());
    let mut config = json!({
        "architectures": [architecture.class],
        "model_type": architecture.name,
        "vocab_size": vocabulary.ok_or_else(|| Error::MissingTensor {
            name: "token_embd.weight".into(),
        })?,
        "hidden_size": size(file, "embedding_length")?,
        "intermediate_size": size(file, "feed_forward_length")?,
        "num_hidden_layers": size(file, "block_count")?,
        "num_attention_heads": heads,
        "num_key_value_heads": kv_heads.unwrap_or(heads),
        "head_dim": head_dim,
        "max_position_embeddings": size(file, "context_length")?,
        "rms_norm_eps": file.number(&epsilon)?.ok_or_else(|| file.missing(&epsilon))?,
        "rope_theta": theta(file)?,
        "hidden_act": "silu",
        "tie_word_embeddings": !file.has_tensor("output.weight"),
        "attention_bias": file.has_tensor("blk.0.attn_q.bias"),
        "mlp_bias": file.has_tensor("blk.0.ffn_up.bias"),
    });
    for (field, suffix) in [
        ("num_local_experts", "expert_count"),
        ("sliding_window", "attention.sliding_window"),
    ] {
        // 0 means none. llama.cpp writes a window of 0 for Phi-4.
        if let Some(value) = file.integer(&key(suffix)?)?
            && value > 0
        {
            config[field] = value.into();
        }
    }
    if let Some(rotated) = file.integer(&key("rope.dimension_count")?)?
        && rotated != head_dim as u64
    {
        config["partial_rotary_factor"] = (rotated as f64 / head_dim as f64).into();
    }
    if let Some(scaling) = rope_scaling(file, head_dim)? {
        config["rope_scaling"] = scaling;
    }
    for (field, key) in [
        ("bos_token_id", "tokenizer.ggml.bos_token_id"),
        ("eos_token_id", "tokenizer.ggml.eos_token_id"),
        ("pad_token_id", "tokenizer.ggml.padding_token_id"),
    ] {
        if let Some(id) = file.integer(key)? {
            config[field] = id.into();
        }
    }
    Ok(config)
}

/// Converts the metadata to the contents of `generation_config.json`: the tokens that end a text or
/// a turn of a chat.
pub(super) fn generation_config(file: &Gguf) -> Result<Value, Error> {
    let mut ids = Vec::new();
    for key in [
        "tokenizer.ggml.eos_token_id",
        "tokenizer.ggml.eot_token_id",
        "tokenizer.ggml.eom_token_id",
    ] {
        if let Some(id) = file.integer(key)?
            && !ids.contains(&id)
        {
            ids.push(id);
        }
    }
    Ok(json!({ "eos_token_id": ids }))
}

/// Reads the scaling of the rotation; `None` if the rotation is not scaled.
fn rope_scaling(file: &Gguf, head_dim: usize) -> Result<Option<Value>, Error> {
    let key = |suffix: &str| key(file, suffix);
    if file.has_tensor("rope_freqs.weight") {
        return llama3(file, head_dim);
    }
    if file.has_tensor("rope_factors_long.weight") {
        return Ok(Some(json!({ "rope_type": "longrope" })));
    }
    let kind_key = key("rope.scaling.type")?;
    let factor_key = key("rope.scaling.factor")?;
    // The older key `rope.scale_linear` implies linear scaling; no type is stored next to it.
    let old = file
        .number(&key("rope.scale_linear")?)?
        .filter(|f| *f != 1.0);
    let kind = match file.string(&kind_key)? {
        Some("none") => return Ok(None),
        Some(kind) => kind,
        None if old.is_some() => "linear",
        None => return Ok(None),
    };
    let factor = file.number(&factor_key)?.or(old);
    let mut scaling = json!({ "rope_type": kind });
    scaling["factor"] = factor.ok_or_else(|| file.missing(&factor_key))?.into();
    if let Some(context) = file.integer(&key("rope.scaling.original_context_length")?)? {
        scaling["original_max_position_embeddings"] = context.into();
    }
    Ok(Some(scaling))
}

/// Recovers the settings of Llama 3's scaling. llama.cpp stores only one divisor per frequency.
/// Divisors that no published setting explains are refused, because a wrong guess would silently
/// change the results.
fn llama3(file: &Gguf, head_dim: usize) -> Result<Option<Value>, Error> {
    let name = "rope_freqs.weight";
    let divisors = file.values(name)?;
    let unknown = || {
        let supported = "divisors of Llama 3's rescaling, low_freq_factor 1, high_freq_factor 4";
        file.unsupported(name, "of other values", supported)
    };
    if divisors.len() != head_dim / 2 {
        return Err(unknown());
    }
    // Divisors of 1 leave the rotation unscaled.
    if divisors.iter().all(|d| *d == 1.0) {
        return Ok(None);
    }
    let base = theta(file)?;
    // Published contexts are powers of two, so only powers of two are tried.
    let factor = f64::from(divisors[divisors.len() - 1]);
    let context = (10..=20).map(|bits| 1u64 << bits).find(|context| {
        divisors.iter().enumerate().all(|(i, divisor)| {
            let frequency = base.powf(-2.0 * i as f64 / head_dim as f64);
            let expected = llama3_divisor(frequency, factor, *context as f64);
            (f64::from(*divisor) - expected).abs() <= 1e-4 * expected
        })
    });
    let context = context.ok_or_else(unknown)?;
    Ok(Some(json!({
        "rope_type": "llama3",
        "factor": factor,
        "low_freq_factor": 1.0,
        "high_freq_factor": 4.0,
        "original_max_position_embeddings": context,
    })))
}

/// The divisor of a frequency (in radians per position), for a model trained on `context` tokens.
fn llama3_divisor(frequency: f64, factor: f64, context: f64) -> f64 {
    // Llama 3 divides frequencies below one turn per context, and keeps those above four turns.
    let turns = context * frequency / (2.0 * std::f64::consts::PI);
    let keep = ((turns - 1.0) / 3.0).clamp(0.0, 1.0);
    1.0 / ((1.0 - keep) / factor + keep)
}

impl Gguf {
    fn values(&self, name: &str) -> Result<Vec<f32>, Error> {
        let tensor = self.tensors.iter().find(|tensor| tensor.name == name);
        let tensor = tensor.ok_or_else(|| Error::MissingTensor { name: name.into() })?;
        let encoding = tensor.encoding.clone().map_err(|dtype| Error::Dtype {
            name: name.into(),
            dtype,
        })?;
        let mut values = vec![0.0; tensor.shape.iter().product()];
        encoding.widen(&self.bytes[tensor.range.clone()], 0, &mut values);
        Ok(values)
    }
}
