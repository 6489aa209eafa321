//! Generators of families that only `candle-transformers` knows, with the feature `candle`.

#[cfg(feature = "candle")]
mod backend;
#[cfg(not(feature = "candle"))]
#[path = "candle/no_backend.rs"]
mod backend;

use beamgen_engine::Checkpoint;

pub(crate) use backend::CandleGenerator;

/// Their `model_type`s.
const FAMILIES: [&str; 15] = [
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

/// The family of a checkpoint, if it is one of these.
pub(crate) fn family(checkpoint: &Checkpoint) -> Option<&'static str> {
    // What is wrong with the file is said by whoever reads it whole.
    let text = checkpoint.text("config.json").ok()??;
    let json: serde_json::Value = serde_json::from_str(&text).ok()?;
    let model_type = json["model_type"].as_str()?;
    FAMILIES.into_iter().find(|family| *family == model_type)
}
