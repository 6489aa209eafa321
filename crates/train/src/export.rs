//! Writing a trained model as a Hugging Face checkpoint folder (bf16).

use crate::model::{EPS, MAX_POSITIONS, Model, ROPE_THETA};
use crate::write::{create_folder, write_json, write_tensors};
use crate::{Result, tokenizer};
use candle_core::{DType, Device, Tensor};
use std::{collections::HashMap, path::Path};
use tokenizers::Tokenizer;

/// What the checkpoint is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// It writes chains.
    Generator,
    /// A reward model: also writes `prm.json`, which tells the engine how it is read.
    Reward,
}

/// Writes a checkpoint folder as `transformers` and beamgen read it.
///
/// # Errors
/// What cannot be written.
pub fn save(model: &Model, tok: &Tokenizer, kind: Kind, dir: &Path) -> Result<()> {
    create_folder(dir)?;
    let tensors: HashMap<String, Tensor> = model
        .hugging_face_tensors()?
        .into_iter()
        .map(|(n, t)| Ok((n, t.to_device(&Device::Cpu)?.to_dtype(DType::BF16)?)))
        .collect::<Result<_>>()?;
    write_tensors(&dir.join("model.safetensors"), &tensors)?;
    let s = model.shape;
    let id = |t: &str| tok.token_to_id(t);
    let architecture = match kind {
        Kind::Generator => "LlamaForCausalLM",
        Kind::Reward => "LlamaForTokenClassification",
    };
    let mut config = serde_json::json!({
        "architectures": [architecture],
        "model_type": "llama",
        "hidden_size": s.hidden,
        "intermediate_size": s.feed_forward,
        "num_hidden_layers": s.layers,
        "num_attention_heads": s.heads,
        "num_key_value_heads": s.heads,
        "head_dim": s.hidden / s.heads,
        "hidden_act": "silu",
        "rms_norm_eps": EPS,
        "rope_theta": ROPE_THETA,
        "max_position_embeddings": MAX_POSITIONS,
        "vocab_size": model.vocab,
        "tie_word_embeddings": true,
        "attention_bias": false,
        "mlp_bias": false,
        "torch_dtype": "bfloat16",
        "bos_token_id": id(tokenizer::BEGIN),
        "eos_token_id": id(tokenizer::END),
    });
    if kind == Kind::Reward {
        config["num_labels"] = 1.into();
        write_json(
            &dir.join("prm.json"),
            &serde_json::json!({
                "format": "step-token",
                "step_token": "\n",
                "head": "linear-sigmoid",
                "weight": "score.weight",
                "bias": "score.bias",
            }),
        )?;
    }
    write_json(&dir.join("config.json"), &config)?;
    tokenizer::save(tok, dir)
}
