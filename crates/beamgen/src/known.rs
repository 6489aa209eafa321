//! Published models that this program is written for.

use std::path::Path;

use beamgen_engine::{Checkpoint, ModelConfig, Weights};
use beamgen_prm::PrmSpec;
use serde::Serialize;

use crate::Error;

/// What a model is used for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum ModelKind {
    /// Writes steps.
    Generator,
    /// Scores them.
    Prm,
}

/// A published model. Its architecture and, if it is a reward model, its format are held against the
/// reference code on tiny checkpoints.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct KnownModel {
    /// Its name on the hub.
    pub name: &'static str,
    /// Its use.
    pub kind: ModelKind,
    /// The decoder's family, or the format of a reward model.
    pub read_as: &'static str,
    /// Longest sequence, in tokens.
    pub context: usize,
}

const fn generator(name: &'static str, read_as: &'static str, context: usize) -> KnownModel {
    known(ModelKind::Generator, name, read_as, context)
}

const fn prm(name: &'static str, read_as: &'static str, context: usize) -> KnownModel {
    known(ModelKind::Prm, name, read_as, context)
}

const fn known(
    kind: ModelKind,
    name: &'static str,
    read_as: &'static str,
    context: usize,
) -> KnownModel {
    KnownModel {
        name,
        kind,
        read_as,
        context,
    }
}

/// The list.
pub const KNOWN_MODELS: &[KnownModel] = &[
    generator("HuggingFaceTB/SmolLM2-135M-Instruct", "llama", 8192),
    generator("meta-llama/Llama-3.2-1B-Instruct", "llama", 131_072),
    generator("meta-llama/Llama-3.2-3B-Instruct", "llama", 131_072),
    generator("meta-llama/Llama-3.1-8B-Instruct", "llama", 131_072),
    generator("mistralai/Mistral-7B-Instruct-v0.3", "mistral", 32_768),
    generator("Qwen/Qwen2.5-0.5B-Instruct", "qwen2", 32_768),
    generator("Qwen/Qwen2.5-1.5B-Instruct", "qwen2", 32_768),
    generator("Qwen/Qwen2.5-Math-1.5B-Instruct", "qwen2", 4096),
    generator("Qwen/Qwen2.5-Math-7B-Instruct", "qwen2", 4096),
    generator("Qwen/Qwen3-0.6B", "qwen3", 40_960),
    generator("Qwen/Qwen3-1.7B", "qwen3", 40_960),
    generator("microsoft/Phi-3-mini-4k-instruct", "phi3", 4096),
    generator("microsoft/phi-4", "phi3", 16_384),
    prm("Qwen/Qwen2.5-Math-PRM-7B", "qwen2.5-math-prm", 4096),
    prm("Qwen/Qwen2.5-Math-PRM-72B", "qwen2.5-math-prm", 4096),
    prm("Qwen/Qwen2.5-Math-7B-PRM800K", "qwen2.5-math-prm", 4096),
    prm(
        "Skywork/Skywork-o1-Open-PRM-Qwen-2.5-1.5B",
        "skywork-o1-open-prm",
        4096,
    ),
    prm(
        "Skywork/Skywork-o1-Open-PRM-Qwen-2.5-7B",
        "skywork-o1-open-prm",
        4096,
    ),
    prm(
        "peiyi9979/math-shepherd-mistral-7b-prm",
        "math-shepherd",
        32_768,
    ),
    prm(
        "RLHFlow/Llama3.1-8B-PRM-Deepseek-Data",
        "rlhflow-llama3.1",
        131_072,
    ),
    prm(
        "RLHFlow/Llama3.1-8B-PRM-Mistral-Data",
        "rlhflow-llama3.1",
        131_072,
    ),
    prm(
        "trl-lib/Qwen2-0.5B-Reward-Math-Sheperd",
        "trl-token-classification",
        32_768,
    ),
    prm(
        "HuggingFaceH4/Qwen2.5-Math-1.5B-Instruct-PRM-0.2",
        "trl-token-classification-blank-line",
        4096,
    ),
    prm(
        "HuggingFaceH4/Qwen2.5-Math-7B-Instruct-PRM-0.2",
        "trl-token-classification-blank-line",
        4096,
    ),
    prm("PRIME-RL/EurusPRM-Stage2", "implicit-prm", 4096),
    prm("Gen-Verse/ReasonFlux-PRM-7B", "reasonflux-prm-7b", 4096),
];

/// What a checkpoint on this machine can be used as.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Recognised {
    /// The decoder's family.
    pub model_type: String,
    /// Whether it gives logits: then it can be a generator.
    pub is_causal_lm: bool,
    /// How it is read as a reward model, if it is recognised as one.
    pub prm_format: Option<String>,
}

/// Looks at a checkpoint's configuration and the names of its tensors; reads no weights.
///
/// # Errors
/// Why it cannot be used.
pub fn recognise(path: &Path) -> Result<Recognised, Error> {
    let checkpoint = Checkpoint::from(path);
    let config = ModelConfig::load(checkpoint.clone())?;
    let weights = Weights::load(checkpoint.clone())?;
    let spec = PrmSpec::of(&checkpoint, &weights).ok();
    Ok(Recognised {
        model_type: config.model_type,
        is_causal_lm: config.causal_lm,
        prm_format: spec.map(|spec| spec.name),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn formats_exist_and_names_are_unique() {
        let mut names: Vec<_> = KNOWN_MODELS.iter().map(|model| model.name).collect();
        for model in KNOWN_MODELS {
            if model.kind == ModelKind::Prm {
                assert!(PrmSpec::named(model.read_as).is_some(), "{}", model.read_as);
            }
        }
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), KNOWN_MODELS.len());
    }
}
