//! The shape and the checkpoint folders of the bundled models.

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

/// The shape of a model. Every query head has its own key-value head: the models are too small for
/// sharing to help.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Shape {
    /// The width of the hidden states.
    pub hidden: usize,
    /// The number of decoder layers.
    pub layers: usize,
    /// The number of attention heads, a divisor of `hidden`.
    pub heads: usize,
    /// The width inside the feed-forward block.
    pub feed_forward: usize,
}

/// The number that is added to a mean square in an RMS norm.
const EPS: f32 = 1e-5;
/// The base of the rotary embedding.
const ROPE_THETA: f32 = 10_000.0;

/// The use of the checkpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A model that writes chains.
    Generator,
    /// A reward model, whose folder has a file `prm.json` with its format.
    Reward,
}

impl Shape {
    /// Returns the configuration of a decoder of this shape.
    ///
    /// # Errors
    /// The engine refuses the shape.
    pub fn config(&self, tok: &Tokenizer) -> Result<ModelConfig> {
        let text = self.json(self.layers, tok).to_string();
        Ok(ModelConfig::from_json(&text, Path::new("config.json"))?)
    }

    /// Returns the `config.json` of a model with `layers` layers.
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

    /// Writes a checkpoint folder that `transformers` and beamgen can read.
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
        // bf16 halves the files, which are part of the program.
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
        // The exporter copies texts from the checkpoint, which is the folder itself: config and
        // tokenizer are written above.
        let checkpoint = Checkpoint::from(dir);
        export::save(decoder, &checkpoint, &Weights::default(), &kind, dir)
    }
}
