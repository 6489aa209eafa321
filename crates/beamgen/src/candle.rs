//! Generators and classifiers of families that only `candle-transformers` knows, with the feature
//! `candle`.

#[cfg(feature = "candle")]
mod backend;
#[cfg(not(feature = "candle"))]
#[path = "candle/no_backend.rs"]
mod backend;

use beamgen_engine::Checkpoint;

pub(crate) use backend::{CandleClassifier, CandleGenerator};

/// Generators' `model_type`s.
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

/// Sequence classifiers' `model_type`s.
pub(crate) const CLASSIFIERS: [&str; 3] = ["deberta-v2", "modernbert", "xlm-roberta"];

/// The one of `families` that a checkpoint is of, if it is of any.
pub(crate) fn family(checkpoint: &Checkpoint, families: &[&'static str]) -> Option<&'static str> {
    // What is wrong with the file is said by whoever reads it whole.
    let text = checkpoint.text("config.json").ok()??;
    let json: serde_json::Value = serde_json::from_str(&text).ok()?;
    let model_type = json["model_type"].as_str()?;
    families
        .iter()
        .copied()
        .find(|family| *family == model_type)
}
