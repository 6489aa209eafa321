//! The shape of the bundled models and the files of their checkpoints.

use std::path::Path;

use beamgen_engine::{Checkpoint, ModelConfig, Weights};
use candle_core::DType;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tokenizers::Tokenizer;

use super::tokenizer;
use crate::tune::{Decoder, export};
use crate::write::{create_folder, write_json};
use crate::{Error, Result};

/// The shape of a Llama decoder. The number of key-value heads equals `heads`: shared heads do not help models this
/// small.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Shape {
    /// The width of the hidden states, 16, 32 or 64 times `heads`.
    pub hidden: usize,
    /// The number of decoder layers, at least 1.
    pub layers: usize,
    /// The number of attention heads, which divides `hidden`.
    pub heads: usize,
    /// The inner width of the feed-forward block, at least 1.
    pub feed_forward: usize,
}

/// The number that is added to a mean square in an RMS norm.
const EPS: f32 = 1e-5;
/// The base of the rotary embedding's frequencies.
const ROPE_THETA: f32 = 10_000.0;

/// The use of the checkpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A model that writes chains.
    Generator,
    /// A reward model; its folder also has `prm.json`, which describes where scores are read.
    Reward,
}

impl Shape {
    /// Returns the engine's configuration of a decoder of this shape, with the vocabulary of `tok`.
    ///
    /// # Errors
    /// The engine refuses the shape.
    pub fn config(&self, tok: &Tokenizer) -> Result<ModelConfig> {
        let text = self.json(self.layers, tok).to_string();
        Ok(ModelConfig::from_json(&text, Path::new("config.json"))?)
    }

    /// Returns the text of `config.json`. The number of layers is a parameter because reward models are deeper.
    fn json(&self, layers: usize, tok: &Tokenizer) -> Value {
        json!({
            "architectures": ["LlamaForCausalLM"],
            "model_type": "llama",
            "hidden_size": self.hidden,
            "intermediate_size": self.feed_forward,
            "num_hidden_layers": layers,
            "num_attention_heads": self.heads,
            "num_key_value_heads": self.heads,
            "head_dim": self.hidden / self.heads,
            "hidden_act": "silu",
            "rms_norm_eps": EPS,
            "rope_theta": ROPE_THETA,
            "max_position_embeddings": tokenizer::MAX_POSITIONS,
            "vocab_size": tok.get_vocab_size(true),
            "tie_word_embeddings": true,
            "attention_bias": false,
            "mlp_bias": false,
            "torch_dtype": "bfloat16",
            "bos_token_id": tok.token_to_id(tokenizer::BEGIN),
            "eos_token_id": tok.token_to_id(tokenizer::END),
        })
    }

    /// Writes the checkpoint folder of `decoder`, in the format of `transformers`.
    ///
    /// # Errors
    /// A file cannot be written.
    pub fn save(&self, decoder: &Decoder, tok: &Tokenizer, kind: Kind, dir: &Path) -> Result<()> {
        create_folder(dir)?;
        let layers = decoder.config.num_hidden_layers;
        write_json(&dir.join("config.json"), &self.json(layers, tok))?;
        tokenizer::save(tok, dir)?;
        let format = serde_json::to_string_pretty(&json!({
            "format": "step-token",
            "step_token": "\n",
            "head": "linear-sigmoid",
            "weight": "score.weight",
            "bias": "score.bias",
        }));
        let format = format.map_err(|error| Error::Empty(error.to_string()))? + "\n";
        // bf16 halves the size of the program, which embeds these files.
        let generator = export::Kind::generator(DType::BF16);
        let kind = match kind {
            Kind::Generator => generator,
            Kind::Reward => export::Kind {
                class: "ForTokenClassification",
                head: false,
                fields: vec![("num_labels", 1.into())],
                format: Some(("prm.json", &format)),
                ..generator
            },
        };
        // The exporter copies `config.json` and the tokenizer from a source checkpoint. The source is `dir` itself,
        // since both are written there above.
        let checkpoint = Checkpoint::from(dir);
        export::save(decoder, &checkpoint, &Weights::default(), &kind, dir)
    }
}
