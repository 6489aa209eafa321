//! The families of decoders as data, with a row for each family.

use std::sync::Arc;

use candle_core::{Result, Tensor};
use candle_nn::VarBuilder;
use candle_transformers::models::{
    deepseek2, gemma, gemma2, gemma3, glm4_new, helium, llama, mistral, mixtral, olmo, olmo2, phi,
    phi3, qwen2, qwen2_moe, qwen3, qwen3_moe, smol, stable_lm, starcoder2,
};
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::decoder::{Decoder, Forward, Rereading, Shared};
use crate::fields::Fixed;

/// A family of decoders in candle, as a row of the table [`FAMILIES`].
#[derive(Debug)]
pub(crate) struct Family {
    /// The `model_type` in `config.json` by which the family is found.
    pub model_type: &'static str,
    /// Builds the model from `config.json` and the weights.
    pub open: Open,
    /// The kind of `rope_scaling` that candle implements for this family, and the keys that it
    /// needs.
    pub scaling: Option<(&'static str, &'static [&'static str])>,
    /// Fields that candle requires, but that published files leave out or set to `null`. The value
    /// may depend on the number of positions.
    pub filled: &'static [Filled],
    /// Fields that candle ignores, with the values that its computation corresponds to.
    pub fixed: &'static [Fixed],
    /// Whether candle reads `head_dim`; otherwise it must be the hidden size divided by the heads.
    pub head_dim: bool,
    /// Tensors that scale the queries, by a part of their names, and the number that candle adds to
    /// them. candle scales queries by `head_dim` and ignores `query_pre_attn_scalar`. So the
    /// missing factor is multiplied into these tensors.
    pub queries: Option<(&'static str, f64)>,
}

/// The name of a field, and a function that gives its value for a number of positions.
type Filled = (&'static str, fn(u64) -> Value);
type Open = fn(&Value, VarBuilder<'static>) -> Result<Box<dyn Decoder>>;

const fn row(model_type: &'static str, open: Open) -> Family {
    Family {
        model_type,
        open,
        scaling: None,
        filled: &[],
        fixed: &[],
        head_dim: false,
        queries: None,
    }
}

/// Makes a row for a family whose `head_dim` candle reads.
const fn wide(model_type: &'static str, open: Open) -> Family {
    Family {
        head_dim: true,
        ..row(model_type, open)
    }
}

/// Makes the `open` function of a row from one of the functions below and a type of model.
macro_rules! by {
    ($open:ident, $model:ty) => {
        |config, weights| $open(config, weights, <$model>::new, <$model>::forward)
    };
    // For types whose `new` has a flag for flash attention as the first argument.
    ($open:ident, $model:ty, no flash) => {
        |config, weights| {
            let new = |config: &_, weights: VarBuilder| <$model>::new(false, config, weights);
            $open(config, weights, new, <$model>::forward)
        }
    };
}

/// A sliding window as long as the context, which changes nothing.
const NO_WINDOW: Filled = ("sliding_window", Value::from);
const NO_LAYER: Filled = ("max_window_layers", |_| 0.into());
const ONE_GROUP: &[Filled] = &[("n_group", |_| 1.into()), ("topk_group", |_| 1.into())];

/// The keys for the scaling `yarn` that candle's DeepSeek-V2 reads.
const YARN: (&str, &[&str]) = (
    "yarn",
    &[
        "factor",
        "original_max_position_embeddings",
        "beta_fast",
        "beta_slow",
        "mscale",
        "mscale_all_dim",
    ],
);

/// Fields that none of candle's models reads, with the values at which they change nothing.
pub(crate) const FIXED: &[Fixed] = &[
    ("quantization_config", &[]),
    ("is_encoder_decoder", &["false"]),
    ("add_cross_attention", &["false"]),
    ("use_bidirectional_attention", &["false"]),
];
const GEMMA: &[Fixed] = &[
    // Old files say "gelu", but the models were trained with the tanh approximation.
    ("hidden_act", &["\"gelu\"", "\"gelu_pytorch_tanh\""]),
    ("hidden_activation", &["\"gelu_pytorch_tanh\""]),
];
const GEMMA3: &[Fixed] = &[
    // candle applies this field to attention scores, which `transformers` does not.
    ("attn_logit_softcapping", &[]),
    // With more key-value heads, candle fails when it reads tokens.
    ("num_key_value_heads", &["1"]),
];
const QWEN2_MOE: &[Fixed] = &[("mlp_only_layers", &["[]"]), ("qkv_bias", &["true"])];
const QWEN3_MOE: &[Fixed] = &[("mlp_only_layers", &["[]"])];
const PHI: &[Fixed] = &[("qk_layernorm", &["false"])];
const DEEPSEEK: &[Fixed] = &[
    ("topk_method", &["\"greedy\""]),
    ("norm_topk_prob", &["false"]),
    ("mlp_bias", &["false"]),
];
const STABLE_LM: &[Fixed] = &[
    ("qk_layernorm", &["false"]),
    ("use_parallel_residual", &["false"]),
];
const LLAMA: &[Fixed] = &[
    ("hidden_act", &["\"silu\"", "\"swish\""]),
    ("attention_bias", &["false"]),
    ("mlp_bias", &["false"]),
];

/// Families that the engine does not have, then families that it has, too. The latter serve in
/// tests, as a comparison with the engine.
#[rustfmt::skip]
pub(crate) const FAMILIES: &[Family] = &[
    Family { fixed: GEMMA, ..wide("gemma", open_gemma) },
    Family { queries: Some((".q_proj.", 0.0)), ..wide("gemma2", by!(shared, gemma2::Model, no flash)) },
    Family { queries: Some((".q_norm.", 1.0)), filled: &[("sliding_window_pattern", |_| 6.into())], fixed: GEMMA3,
        ..wide("gemma3_text", by!(rereading, gemma3::Model, no flash)) },
    Family { filled: &[NO_WINDOW], ..row("mixtral", by!(shared, mixtral::Model)) },
    Family { filled: &[NO_WINDOW], fixed: QWEN2_MOE, ..row("qwen2_moe", by!(shared, qwen2_moe::Model)) },
    Family { filled: &[NO_LAYER], fixed: QWEN3_MOE, ..wide("qwen3_moe", by!(shared, qwen3_moe::ModelForCausalLM)) },
    Family { fixed: PHI, ..row("phi", |config, weights| shared(config, weights, phi::Model::new, |model, tokens, _| model.forward(tokens))) },
    wide("glm4", by!(rereading, glm4_new::ModelForCausalLM)),
    Family { scaling: Some(YARN), filled: ONE_GROUP, fixed: DEEPSEEK, ..row("deepseek_v2", by!(remade, deepseek2::DeepSeekV2)) },
    row("starcoder2", by!(shared, starcoder2::Model)),
    row("olmo", by!(shared, olmo::Model)),
    row("olmo2", by!(shared, olmo2::Model)),
    Family { fixed: STABLE_LM, ..row("stablelm", by!(remade, stable_lm::Model)) },
    wide("helium", by!(shared, helium::Model)),
    Family { filled: &[("no_rope_layer_interval", |_| 4.into())], ..row("smollm3", by!(rereading, smol::smollm3::ModelForCausalLM)) },
    Family { fixed: LLAMA, ..row("llama", open_llama) },
    wide("mistral", by!(shared, mistral::Model)),
    Family { filled: &[NO_WINDOW], ..row("qwen2", by!(shared, qwen2::ModelForCausalLM)) },
    Family { filled: &[NO_LAYER], ..wide("qwen3", by!(shared, qwen3::ModelForCausalLM)) },
    row("phi3", by!(shared, phi3::Model)),
];

pub(crate) fn config<C: DeserializeOwned>(json: &Value) -> Result<C> {
    // `serde_path_to_error` adds the name of the field to an error.
    serde_path_to_error::deserialize(json)
        .map_err(|error| candle_core::Error::msg(format!("config.json: {error}")))
}

fn shared<C: DeserializeOwned, M: Clone + Send + 'static>(
    json: &Value,
    weights: VarBuilder,
    new: impl Fn(&C, VarBuilder) -> Result<M>,
    forward: Forward<M>,
) -> Result<Box<dyn Decoder>> {
    let model = new(&config(json)?, weights)?;
    Ok(Box::new(Shared {
        model,
        forward,
        read: 0,
    }))
}

fn rereading<C: DeserializeOwned, M: Clone + Send + Sync + 'static>(
    json: &Value,
    weights: VarBuilder,
    new: impl Fn(&C, VarBuilder) -> Result<M>,
    forward: Forward<M>,
) -> Result<Box<dyn Decoder>> {
    let fresh = new(&config(json)?, weights)?;
    let make = Arc::new(move || Ok(fresh.clone()));
    Ok(Box::new(Rereading::new(make, forward)))
}

/// Opens a model that cannot be cloned. Every new instance shares the weights.
fn remade<C: DeserializeOwned + Send + Sync + 'static, M: Send + 'static>(
    json: &Value,
    weights: VarBuilder<'static>,
    new: impl Fn(&C, VarBuilder) -> Result<M> + Send + Sync + 'static,
    forward: Forward<M>,
) -> Result<Box<dyn Decoder>> {
    let config = config(json)?;
    // Built once to find missing or wrong weights now, not when the first token is read.
    new(&config, weights.clone())?;
    let make = Arc::new(move || new(&config, weights.clone()));
    Ok(Box::new(Rereading::new(make, forward)))
}

/// Opens Gemma. Its files name the activation in one or both of two fields, and candle accepts only
/// one.
fn open_gemma(json: &Value, weights: VarBuilder<'static>) -> Result<Box<dyn Decoder>> {
    let mut json = json.clone();
    json["hidden_act"] = "gelu_pytorch_tanh".into();
    json["hidden_activation"] = Value::Null;
    shared(
        &json,
        weights,
        |config: &gemma::Config, weights| gemma::Model::new(false, config, weights),
        gemma::Model::forward,
    )
}

/// Opens Llama, whose cache is a separate object in candle.
fn open_llama(json: &Value, weights: VarBuilder) -> Result<Box<dyn Decoder>> {
    use llama::{Cache, Llama, LlamaConfig};
    let new = |config: &LlamaConfig, weights: VarBuilder| {
        let config = config.clone().into_config(false);
        let cache = Cache::new(true, weights.dtype(), &config, weights.device())?;
        Ok((Llama::load(weights, &config)?, cache))
    };
    let forward = |(model, cache): &mut (Llama, Cache), tokens: &Tensor, at: usize| {
        model.forward(tokens, at, cache)
    };
    shared(json, weights, new, forward)
}

#[cfg(test)]
#[path = "../../engine/tests/common/every_field.rs"]
mod every_field;

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::path::{Path, PathBuf};

    use beamgen_engine::{Checkpoint, Weights};

    use super::every_field::{DECODERS, EVERYWHERE, Inert, Tally};
    use super::*;
    use crate::config::Config;
    use crate::weights::LazyWeights;

    /// A prompt and its greedy continuation by `transformers`.
    #[derive(serde::Deserialize)]
    struct Greedy {
        prompt: Vec<u32>,
        tokens: Vec<u32>,
    }

    fn fixtures() -> Vec<PathBuf> {
        let root = Path::new(env!("CARGO_MANIFEST_DIR"));
        let folders = std::fs::read_dir(root.join("tests/fixtures")).unwrap();
        folders.map(|entry| entry.unwrap().path()).collect()
    }

    fn open(folder: &Path) -> Result<Box<dyn Decoder>> {
        let checkpoint = Checkpoint::from(folder);
        let config = Config::load(&checkpoint).map_err(candle_core::Error::wrap)?;
        let weights = Weights::load(checkpoint).map_err(candle_core::Error::wrap)?;
        let opened = config.decoder("m", LazyWeights::new(weights));
        opened.map_err(candle_core::Error::wrap)
    }

    fn best(logits: &[f32]) -> u32 {
        let best = (0..logits.len()).max_by(|&a, &b| logits[a].total_cmp(&logits[b]));
        best.unwrap() as u32
    }

    /// Returns the tokens that a decoder and a fork of it write after the prompt. They take turns
    /// with a third decoder, which continues with another token: none of them may see tokens of
    /// another.
    fn written(folder: &Path, prompt: &[u32], count: usize) -> Result<[Vec<u32>; 2]> {
        let mut decoder = open(folder)?;
        let first = best(&decoder.read(prompt)?);
        let (fork, other) = (decoder.fork(), decoder.fork());
        // The third decoder comes last, so that its tokens would be seen in the next turn if caches
        // were shared.
        let firsts = [first, first, (first + 1) % 64];
        let mut all: Vec<_> = [decoder, fork, other]
            .into_iter()
            .zip(firsts.map(|first| vec![first]))
            .collect();
        for at in 1..count {
            for (decoder, tokens) in &mut all {
                tokens.push(best(&decoder.read(&tokens[at - 1..])?));
            }
        }
        let [(_, one), (_, fork), _] = <[_; 3]>::try_from(all).ok().unwrap();
        Ok([one, fork])
    }

    #[test]
    fn greedy_tokens_are_those_of_transformers_also_after_a_fork() {
        let mut wrong = Vec::new();
        for folder in fixtures() {
            let name = folder.file_name().unwrap().to_string_lossy().into_owned();
            let text = std::fs::read_to_string(folder.join("greedy.json")).unwrap();
            let Greedy { prompt, tokens } = serde_json::from_str(&text).unwrap();
            match written(&folder, &prompt, tokens.len()) {
                Ok(both) if both.iter().all(|one| *one == tokens) => {}
                Ok(both) => wrong.push(format!("{name}: {both:?}, not {tokens:?}")),
                Err(error) => wrong.push(format!("{name}: {error}")),
            }
        }
        assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    }

    #[test]
    fn every_row_of_the_table_has_a_fixture() {
        let folders = fixtures();
        // A fixture's name is the family, and after a dash the feature that it tests.
        let name = |path: &PathBuf| Some(path.file_name()?.to_str()?.split('-').next()?.to_owned());
        let found: BTreeSet<String> = folders.iter().filter_map(name).collect();
        let rows = FAMILIES.iter().map(|family| family.model_type.to_owned());
        let rows: BTreeSet<String> = rows.collect();
        assert_eq!(found, rows);
    }

    #[rustfmt::skip]
    const INERT: &[Inert] = &[
        Inert { of: &[], reason: "the family is said by model_type", fields: &["architectures"] },
        Inert { of: &[], reason: "used in training only", fields: &[
            "output_router_logits", "router_aux_loss_coef", "router_jitter_noise", "aux_loss_alpha", "seq_aux",
            "resid_pdrop", "embd_pdrop", "residual_dropout", "embedding_dropout", "hidden_dropout"] },
        Inert { of: &[], reason: "sums are cut, or experts spread, without another result", fields: &["pretraining_tp", "ep_size"] },
        Inert { of: &["qwen2", "qwen2_moe", "qwen3", "qwen3_moe", "smollm3"], reason: "use_sliding_window is false", fields: &[
            "sliding_window", "max_window_layers"] },
        Inert { of: &["qwen2", "qwen2_moe"], reason: "there is no sliding_window", fields: &["use_sliding_window"] },
        Inert { of: &["qwen2", "qwen2_moe", "qwen3", "smollm3", "gemma2*"], reason: "the context ends where a window would begin", fields: &["layer_types"] },
        Inert { of: &["gemma2*", "gemma3_text*", "starcoder2"], reason: "the context ends at the window, which is shorter", fields: &[
            "max_position_embeddings"] },
        Inert { of: &["gemma3_text*"], reason: "layer_types says it", fields: &["sliding_window_pattern", "_sliding_window_pattern"] },
        Inert { of: &["smollm3"], reason: "no_rope_layers says it", fields: &["no_rope_layer_interval"] },
        Inert { of: &["smollm3"], reason: "any number but 0 is a rotation", fields: &["no_rope_layers=[2,1,1,0]"] },
        Inert { of: &["deepseek_v2*"], reason: "experts are not in groups for topk_method greedy", fields: &["n_group", "topk_group"] },
        Inert { of: &["deepseek_v2*"], reason: "the ramp of 4 pairs begins and ends at the same ones", fields: &[
            "rope_parameters.beta_fast=66", "rope_parameters.beta_fast=33", "rope_parameters.beta_fast=31",
            "rope_parameters.beta_slow=2", "rope_parameters.beta_slow=4",
            "rope_parameters.original_max_position_embeddings=31", "rope_parameters.original_max_position_embeddings=33"] },
        Inert { of: &["qwen2_moe", "qwen3_moe"], reason: "all layers have experts", fields: &["intermediate_size"] },
        Inert { of: &["phi3"], reason: "used by LongRoPE only, which is refused", fields: &["original_max_position_embeddings"] },
        Inert { of: &["mistral"], reason: "the same arithmetic, without a window", fields: &["model_type=\"llama\""] },
        Inert { of: &["stablelm"], reason: "one pair turns, by 1 for any base", fields: &["rope_parameters.rope_theta", "rope_scaling={\"rope_theta\":123.0,\"rope_type\":\"default\"}"] },
        Inert { of: &["gemma*"], reason: "the same function", fields: &[
            "hidden_activation=\"gelu_new\"", "hidden_activation=\"gelu_pytorch_tanh\"", "hidden_act=\"gelu\""] },
        Inert { of: &["starcoder2", "phi"], reason: "the same function", fields: &[
            "hidden_act=\"gelu_new\"", "hidden_act=\"gelu_pytorch_tanh\""] },
    ];

    /// Returns the context, and the bits of the logits after the prompt and after each of three
    /// further tokens. If only reading fails, the error has two lines, to tell it from a refusal.
    fn bits(folder: &Path, prompt: &[u32]) -> std::result::Result<(usize, Vec<u32>), String> {
        let checkpoint = Checkpoint::from(folder);
        let config = Config::load(&checkpoint).map_err(|error| error.to_string())?;
        let weights = LazyWeights::new(Weights::load(checkpoint).unwrap());
        let decoder = config.decoder("m", weights);
        let mut decoder = decoder.map_err(|error| error.to_string())?;
        let mut bits = Vec::new();
        let prompt = &prompt[..prompt.len().min(config.context)];
        for tokens in [prompt, &[1], &[2], &[3]] {
            if prompt.len() + 3 > config.context && tokens.len() == 1 {
                break;
            }
            let logits = decoder
                .read(tokens)
                .map_err(|error| format!("late:\n{error}"))?;
            bits.extend(logits.iter().map(|logit| logit.to_bits()));
        }
        Ok((config.context, bits))
    }

    #[test]
    fn no_field_is_passed_over() {
        let mut tally = Tally::default();
        for folder in fixtures() {
            let name = folder.file_name().unwrap().to_string_lossy().into_owned();
            let read_text = |file| std::fs::read_to_string(folder.join(file)).unwrap();
            let Greedy { prompt, .. } = serde_json::from_str(&read_text("greedy.json")).unwrap();
            let config = serde_json::from_str(&read_text("config.json")).unwrap();
            let dir = tempfile::tempdir().unwrap();
            let weights = "model.safetensors";
            std::fs::copy(folder.join(weights), dir.path().join(weights)).unwrap();
            tally.add(&name, &config, &[EVERYWHERE, DECODERS, INERT], |config| {
                std::fs::write(dir.path().join("config.json"), config.to_string()).unwrap();
                bits(dir.path(), &prompt)
            });
        }
        tally.check(&[EVERYWHERE, DECODERS, INERT]);
    }

    /// Sets each field to many values: the model is refused or works, but never panics.
    #[test]
    fn no_configuration_brings_it_down() {
        let wrong = [
            0.into(),
            3.into(),
            (1_u64 << 40).into(),
            1e30.into(),
            Value::Null,
            "x".into(),
        ];
        let mut refused = 0;
        for folder in fixtures() {
            let text = std::fs::read_to_string(folder.join("config.json")).unwrap();
            let config: Value = serde_json::from_str(&text).unwrap();
            let dir = tempfile::tempdir().unwrap();
            std::fs::copy(
                folder.join("model.safetensors"),
                dir.path().join("model.safetensors"),
            )
            .unwrap();
            for (field, value) in config
                .as_object()
                .unwrap()
                .keys()
                .flat_map(|f| wrong.iter().map(move |w| (f, w)))
            {
                let mut changed = config.clone();
                changed[field] = value.clone();
                std::fs::write(dir.path().join("config.json"), changed.to_string()).unwrap();
                let read = open(dir.path()).and_then(|mut decoder| {
                    decoder.read(&[1, 2, 3])?;
                    decoder.read(&[4])
                });
                refused += usize::from(read.is_err());
            }
        }
        assert!(refused > 1000, "{refused}");
    }
}
