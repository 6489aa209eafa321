//! Models of families that only `candle-transformers` supports. Running them needs the feature
//! `candle`.

#[cfg(feature = "candle")]
mod backend;
#[cfg(not(feature = "candle"))]
#[path = "candle/no_backend.rs"]
mod backend;

use beamgen_engine::Checkpoint;

pub(crate) use backend::{CandleClassifier, CandleGenerator};

/// The generators' `model_type`s in `config.json` that are left to candle.
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

/// The sequence classifiers' `model_type`s in `config.json` that are left to candle.
pub(crate) const CLASSIFIERS: [&str; 3] = ["deberta-v2", "modernbert", "xlm-roberta"];

/// Returns the checkpoint's `model_type` if it is among `families`.
pub(crate) fn family(checkpoint: &Checkpoint, families: &[&'static str]) -> Option<&'static str> {
    // A missing or invalid file is not an error here: the loader reads the file again and reports
    // the fault.
    let text = checkpoint.text("config.json").ok()??;
    let json: serde_json::Value = serde_json::from_str(&text).ok()?;
    let model_type = json["model_type"].as_str()?;
    families
        .iter()
        .copied()
        .find(|family| *family == model_type)
}
