//! Model families that only `candle-transformers` supports, with the feature `candle`.

#[cfg(feature = "candle")]
mod backend;
#[cfg(not(feature = "candle"))]
#[path = "candle/no_backend.rs"]
mod backend;

use beamgen_engine::Checkpoint;

pub(crate) use backend::{CandleClassifier, CandleGenerator};

/// The `model_type`s of generators.
pub(crate) const GENERATORS: [&str; 15] = [
    "deepseek_v2",
    "gemma",
    "gemma2",
    "gemma3_text",
    "glm4",
    "helium",
    "mixtral",
    "olmo",
    "olmo2",
    "phi",
    "qwen2_moe",
    "qwen3_moe",
    "smollm3",
    "stablelm",
    "starcoder2",
];

/// The `model_type`s of sequence classifiers.
pub(crate) const CLASSIFIERS: [&str; 3] = ["deberta-v2", "modernbert", "xlm-roberta"];

/// Returns the family of a checkpoint, if it is among `families`.
pub(crate) fn family(checkpoint: &Checkpoint, families: &[&'static str]) -> Option<&'static str> {
    // An unreadable file is no error here: the loader reads it again, and reports what is wrong.
    let text = checkpoint.text("config.json").ok()??;
    let json: serde_json::Value = serde_json::from_str(&text).ok()?;
    let model_type = json["model_type"].as_str()?;
    families
        .iter()
        .copied()
        .find(|family| *family == model_type)
}
