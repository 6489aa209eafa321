//! A table of published models that beamgen can run.

use std::path::Path;

use beamgen_engine::{Checkpoint, ModelConfig};
use beamgen_prm::PrmSpec;
use serde::Serialize;

use self::ModelKind::{Generator, Prm};
use crate::Error;

/// The role of a model in a search.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum ModelKind {
    /// A language model, which writes the steps.
    Generator,
    /// A process reward model, which scores the steps.
    Prm,
}

/// A published model. Tests compare its architecture, and the format of a reward model, with the
/// reference implementation on tiny checkpoints.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct KnownModel {
    /// The name `ORG/NAME` on the Hugging Face hub.
    pub name: &'static str,
    /// The role of the model in a search.
    pub kind: ModelKind,
    /// The decoder's family, or the format of a reward model.
    pub read_as: &'static str,
    /// The maximum length of a sequence, in tokens.
    pub context: usize,
    /// The dimensions of the model's decoder.
    pub shape: Shape,
}

impl KnownModel {
    /// Whether a download requires that the licence was accepted on the model's page.
    #[must_use]
    pub fn is_gated(&self) -> bool {
        is_gated(self.name)
    }

    /// Whether the model writes thoughts before its answer, unless its chat template turns that
    /// off.
    #[must_use]
    pub fn thinks(&self) -> bool {
        self.kind == ModelKind::Generator && self.read_as == "qwen3"
    }
}

/// Whether a download from the hub's repository `name` requires that the licence was accepted.
pub(crate) fn is_gated(name: &str) -> bool {
    name.starts_with("meta-llama/")
}

/// The dimensions of a decoder. The fields have the names of `config.json`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Shape {
    /// The width of the residual stream, in values.
    pub hidden_size: usize,
    /// The inner width of the feed-forward block, in values.
    pub intermediate_size: usize,
    /// The number of decoder layers.
    pub num_hidden_layers: usize,
    /// The number of query heads in each layer.
    pub num_attention_heads: usize,
    /// The number of key-value heads in each layer; less than the query heads if several share one.
    pub num_key_value_heads: usize,
    /// The width of one head, in values.
    pub head_dim: usize,
    /// The number of rows of the embedding.
    pub vocab_size: usize,
    /// Whether the language-model head uses the embedding's matrix.
    pub tie_word_embeddings: bool,
}

impl Shape {
    /// Returns the number of values in all matrices, including the language-model head. Biases,
    /// norms and a reward model's head are left out, since they are far below one per cent.
    #[must_use]
    pub const fn parameters(&self) -> u64 {
        let attention = 2 * (self.num_attention_heads + self.num_key_value_heads) * self.head_dim;
        let layer = self.hidden_size * (attention + 3 * self.intermediate_size);
        let embeddings = if self.tie_word_embeddings { 1 } else { 2 };
        let vocabulary = embeddings * self.vocab_size * self.hidden_size;
        (self.num_hidden_layers * layer + vocabulary) as u64
    }
}

/// The dimensions of the layers: residual width, feed-forward width, number of layers, query heads,
/// key-value heads, head width.
type Layers = [usize; 6];

/// The size of the vocabulary, and whether the head uses the embedding's matrix.
type Vocabulary = (usize, bool);

const SMOLLM2_135M: Layers = [576, 1536, 30, 9, 3, 64];
const LLAMA_1B: Layers = [2048, 8192, 16, 32, 8, 64];
const LLAMA_3B: Layers = [3072, 8192, 28, 24, 8, 128];
/// Shared by the Llama 8B models and the Mistral 7B models.
const LLAMA_8B: Layers = [4096, 14_336, 32, 32, 8, 128];
const QWEN2_0_5B: Layers = [896, 4864, 24, 14, 2, 64];
const QWEN2_1_5B: Layers = [1536, 8960, 28, 12, 2, 128];
const QWEN2_7B: Layers = [3584, 18_944, 28, 28, 4, 128];
const QWEN2_72B: Layers = [8192, 29_568, 80, 64, 8, 128];
const QWEN3_0_6B: Layers = [1024, 3072, 28, 16, 8, 128];
const QWEN3_1_7B: Layers = [2048, 6144, 28, 16, 8, 128];
const PHI_3_MINI: Layers = [3072, 8192, 32, 32, 32, 96];
const PHI_4: Layers = [5120, 17_920, 40, 40, 10, 128];

const LLAMA_TIED: Vocabulary = (128_256, true);
const LLAMA: Vocabulary = (128_256, false);
const QWEN_TIED: Vocabulary = (151_936, true);
const QWEN: Vocabulary = (152_064, false);

const fn known(
    kind: ModelKind,
    name: &'static str,
    read_as: &'static str,
    context: usize,
    layers: Layers,
    (vocab_size, tie_word_embeddings): Vocabulary,
) -> KnownModel {
    let [hidden, intermediate, count, heads, kv_heads, head_dim] = layers;
    KnownModel {
        name,
        kind,
        read_as,
        context,
        shape: Shape {
            hidden_size: hidden,
            intermediate_size: intermediate,
            num_hidden_layers: count,
            num_attention_heads: heads,
            num_key_value_heads: kv_heads,
            head_dim,
            vocab_size,
            tie_word_embeddings,
        },
    }
}

/// The published models, grouped by family. `beamgen models` lists them.
#[rustfmt::skip] // a row for each
pub const KNOWN_MODELS: &[KnownModel] = &[
    known(Generator, "HuggingFaceTB/SmolLM2-135M-Instruct", "llama", 8192, SMOLLM2_135M, (49_152, true)),
    known(Generator, "meta-llama/Llama-3.2-1B-Instruct", "llama", 131_072, LLAMA_1B, LLAMA_TIED),
    known(Generator, "meta-llama/Llama-3.2-3B-Instruct", "llama", 131_072, LLAMA_3B, LLAMA_TIED),
    known(Generator, "meta-llama/Llama-3.1-8B-Instruct", "llama", 131_072, LLAMA_8B, LLAMA),
    known(Generator, "mistralai/Mistral-7B-Instruct-v0.3", "mistral", 32_768, LLAMA_8B, (32_768, false)),
    known(Generator, "Qwen/Qwen2.5-0.5B-Instruct", "qwen2", 32_768, QWEN2_0_5B, QWEN_TIED),
    // This file has a head of its own, unlike other small models, whose head is the embedding.
    known(
        Generator, "Qwen/Qwen2.5-0.5B-Instruct-GGUF:qwen2.5-0.5b-instruct-q8_0.gguf",
        "qwen2", 32_768, QWEN2_0_5B, (151_936, false),
    ),
    known(Generator, "Qwen/Qwen2.5-1.5B-Instruct", "qwen2", 32_768, QWEN2_1_5B, QWEN_TIED),
    known(Generator, "Qwen/Qwen2.5-7B-Instruct", "qwen2", 32_768, QWEN2_7B, QWEN),
    known(Generator, "Qwen/Qwen2.5-Math-1.5B-Instruct", "qwen2", 4096, QWEN2_1_5B, QWEN_TIED),
    known(Generator, "Qwen/Qwen2.5-Math-7B-Instruct", "qwen2", 4096, QWEN2_7B, QWEN),
    known(Generator, "Qwen/Qwen3-0.6B", "qwen3", 40_960, QWEN3_0_6B, QWEN_TIED),
    known(Generator, "Qwen/Qwen3-1.7B", "qwen3", 40_960, QWEN3_1_7B, QWEN_TIED),
    known(Generator, "microsoft/Phi-3-mini-4k-instruct", "phi3", 4096, PHI_3_MINI, (32_064, false)),
    known(Generator, "microsoft/phi-4", "phi3", 16_384, PHI_4, (100_352, false)),
    known(Prm, "Qwen/Qwen2.5-Math-PRM-7B", "qwen2.5-math-prm", 4096, QWEN2_7B, QWEN),
    known(Prm, "Qwen/Qwen2.5-Math-PRM-72B", "qwen2.5-math-prm", 4096, QWEN2_72B, QWEN),
    known(Prm, "Qwen/Qwen2.5-Math-7B-PRM800K", "qwen2.5-math-prm", 4096, QWEN2_7B, QWEN),
    known(Prm, "Skywork/Skywork-o1-Open-PRM-Qwen-2.5-1.5B", "skywork-o1-open-prm", 4096, QWEN2_1_5B, QWEN_TIED),
    known(Prm, "Skywork/Skywork-o1-Open-PRM-Qwen-2.5-7B", "skywork-o1-open-prm", 4096, QWEN2_7B, QWEN),
    known(Prm, "peiyi9979/math-shepherd-mistral-7b-prm", "math-shepherd", 32_768, LLAMA_8B, (32_000, false)),
    known(Prm, "RLHFlow/Llama3.1-8B-PRM-Deepseek-Data", "rlhflow-llama3.1", 131_072, LLAMA_8B, LLAMA),
    known(Prm, "RLHFlow/Llama3.1-8B-PRM-Mistral-Data", "rlhflow-llama3.1", 131_072, LLAMA_8B, LLAMA),
    known(Prm, "trl-lib/Qwen2-0.5B-Reward-Math-Sheperd", "trl-token-classification", 32_768, QWEN2_0_5B, QWEN_TIED),
    known(
        Prm, "HuggingFaceH4/Qwen2.5-Math-1.5B-Instruct-PRM-0.2",
        "trl-token-classification-blank-line", 4096, QWEN2_1_5B, QWEN_TIED,
    ),
    known(
        Prm, "HuggingFaceH4/Qwen2.5-Math-7B-Instruct-PRM-0.2",
        "trl-token-classification-blank-line", 4096, QWEN2_7B, QWEN,
    ),
    known(Prm, "PRIME-RL/EurusPRM-Stage2", "implicit-prm", 4096, QWEN2_7B, QWEN),
    known(Prm, "Gen-Verse/ReasonFlux-PRM-7B", "reasonflux-prm-7b", 4096, QWEN2_7B, QWEN),
];

/// The possible roles of a checkpoint on this machine.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Recognised {
    /// The decoder's family: `model_type` in `config.json`.
    pub model_type: String,
    /// Whether the checkpoint has a language-model head, which a generator needs.
    pub is_causal_lm: bool,
    /// The name of the reward model's format; `None` if the checkpoint is not recognised as a
    /// reward model.
    pub prm_format: Option<String>,
}

/// Returns the name of the model that the adapter in a folder belongs to; `None` if the folder has no
/// readable adapter.
#[must_use]
pub fn base_of(path: &Path) -> Option<String> {
    let (name, _) = Checkpoint::from(path).base_name().ok()??;
    Some(name)
}

/// Examines a checkpoint by its configuration and the names of its tensors, without reading
/// weights.
///
/// # Errors
/// Returns an error if the checkpoint cannot be read, or if the engine does not support it.
pub fn recognise(path: &Path) -> Result<Recognised, Error> {
    let checkpoint = Checkpoint::from(path);
    let (config, weights) = ModelConfig::load_with_weights(checkpoint.clone())?;
    // Most checkpoints are not reward models, so a checkpoint without a known format is not an
    // error.
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

    /// The model cards say how many parameters there are, or the name does.
    #[test]
    fn shapes_have_the_parameters_of_the_model_cards() {
        for (name, billions) in [
            ("HuggingFaceTB/SmolLM2-135M-Instruct", 0.135),
            ("meta-llama/Llama-3.2-1B-Instruct", 1.24),
            ("meta-llama/Llama-3.2-3B-Instruct", 3.21),
            ("meta-llama/Llama-3.1-8B-Instruct", 8.03),
            ("mistralai/Mistral-7B-Instruct-v0.3", 7.25),
            ("Qwen/Qwen2.5-0.5B-Instruct", 0.494),
            ("Qwen/Qwen2.5-1.5B-Instruct", 1.54),
            ("Qwen/Qwen2.5-7B-Instruct", 7.62),
            ("Qwen/Qwen2.5-Math-PRM-72B", 72.7),
            ("Qwen/Qwen3-0.6B", 0.596),
            ("Qwen/Qwen3-1.7B", 1.72),
            ("microsoft/Phi-3-mini-4k-instruct", 3.82),
            ("microsoft/phi-4", 14.7),
            ("peiyi9979/math-shepherd-mistral-7b-prm", 7.24),
        ] {
            let model = KNOWN_MODELS.iter().find(|model| model.name == name);
            let parameters = model.expect(name).shape.parameters() as f64 / 1e9;
            assert!(
                (parameters / billions - 1.0).abs() < 0.005,
                "{name}: {parameters}"
            );
        }
    }
}
