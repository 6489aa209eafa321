//! The families as data: one row each.

use std::sync::Arc;

use candle_core::{Result, Tensor};
use candle_nn::VarBuilder;
use candle_transformers::models;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::decoder::{Decoder, Forward, Rereading, Shared};

/// A family of models.
pub(crate) struct Family {
    /// As in `config.json`.
    pub model_type: &'static str,
    /// Makes the model of `config.json` and weights.
    pub open: Open,
    /// `rope_scaling` is followed.
    pub scaled_rope: bool,
    /// Fields that candle wants and published files leave out or have as `null`, made of the
    /// number of positions.
    pub defaults: &'static [Default],
}

/// A field, and its value.
type Default = (&'static str, fn(u64) -> Value);
type Open = fn(&Value, VarBuilder<'static>) -> Result<Box<dyn Decoder>>;

impl std::fmt::Debug for Family {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.model_type)
    }
}

const fn row(model_type: &'static str, open: Open) -> Family {
    Family {
        model_type,
        open,
        scaled_rope: false,
        defaults: &[],
    }
}

/// No window: as long as the context.
const NO_WINDOW: Default = ("sliding_window", Value::from);
const NO_FLASH: Default = ("use_flash_attn", |_| false.into());

/// Families that our own decoder does not have, and behind them those that it has: there this is a
/// second opinion.
const FAMILIES: &[Family] = &[
    row("gemma", gemma),
    row("gemma2", |c, vb| {
        shared(
            c,
            vb,
            |c, vb| models::gemma2::Model::new(false, c, vb),
            models::gemma2::Model::forward,
        )
    }),
    Family {
        defaults: &[("sliding_window_pattern", |_| 6.into())],
        ..row("gemma3_text", |c, vb| {
            rereading(
                c,
                vb,
                |c, vb| models::gemma3::Model::new(false, c, vb),
                models::gemma3::Model::forward,
            )
        })
    },
    Family {
        defaults: &[NO_WINDOW, NO_FLASH],
        ..row("mixtral", |c, vb| {
            shared(
                c,
                vb,
                models::mixtral::Model::new,
                models::mixtral::Model::forward,
            )
        })
    },
    Family {
        defaults: &[NO_WINDOW],
        ..row("qwen2_moe", |c, vb| {
            shared(
                c,
                vb,
                models::qwen2_moe::Model::new,
                models::qwen2_moe::Model::forward,
            )
        })
    },
    Family {
        defaults: &[("max_window_layers", |_| 0.into())],
        ..row("qwen3_moe", |c, vb| {
            shared(
                c,
                vb,
                models::qwen3_moe::ModelForCausalLM::new,
                models::qwen3_moe::ModelForCausalLM::forward,
            )
        })
    },
    row("phi", |c, vb| {
        shared(c, vb, models::phi::Model::new, |m, x, _| m.forward(x))
    }),
    row("glm4", |c, vb| {
        rereading(
            c,
            vb,
            models::glm4_new::ModelForCausalLM::new,
            models::glm4_new::ModelForCausalLM::forward,
        )
    }),
    Family {
        scaled_rope: true,
        ..row("deepseek_v2", |c, vb| {
            remade(
                c,
                vb,
                models::deepseek2::DeepSeekV2::new,
                models::deepseek2::DeepSeekV2::forward,
            )
        })
    },
    row("starcoder2", |c, vb| {
        shared(
            c,
            vb,
            models::starcoder2::Model::new,
            models::starcoder2::Model::forward,
        )
    }),
    row("olmo", |c, vb| {
        shared(
            c,
            vb,
            models::olmo::Model::new,
            models::olmo::Model::forward,
        )
    }),
    row("olmo2", |c, vb| {
        shared(
            c,
            vb,
            models::olmo2::Model::new,
            models::olmo2::Model::forward,
        )
    }),
    row("stablelm", |c, vb| {
        remade(
            c,
            vb,
            models::stable_lm::Model::new,
            models::stable_lm::Model::forward,
        )
    }),
    row("helium", |c, vb| {
        shared(
            c,
            vb,
            models::helium::Model::new,
            models::helium::Model::forward,
        )
    }),
    row("smollm3", |c, vb| {
        use models::smol::smollm3::ModelForCausalLM;
        rereading(c, vb, ModelForCausalLM::new, ModelForCausalLM::forward)
    }),
    row("llama", llama),
    Family {
        defaults: &[NO_FLASH],
        ..row("mistral", |c, vb| {
            shared(
                c,
                vb,
                models::mistral::Model::new,
                models::mistral::Model::forward,
            )
        })
    },
    Family {
        defaults: &[NO_WINDOW],
        ..row("qwen2", |c, vb| {
            shared(
                c,
                vb,
                models::qwen2::ModelForCausalLM::new,
                models::qwen2::ModelForCausalLM::forward,
            )
        })
    },
    Family {
        defaults: &[("max_window_layers", |_| 0.into())],
        ..row("qwen3", |c, vb| {
            shared(
                c,
                vb,
                models::qwen3::ModelForCausalLM::new,
                models::qwen3::ModelForCausalLM::forward,
            )
        })
    },
    row("phi3", |c, vb| {
        shared(
            c,
            vb,
            models::phi3::Model::new,
            models::phi3::Model::forward,
        )
    }),
];

pub(crate) fn family(model_type: &str) -> Option<&'static Family> {
    FAMILIES
        .iter()
        .find(|family| family.model_type == model_type)
}

/// Whether there is such a family, by `model_type`.
pub fn is_known(model_type: &str) -> bool {
    family(model_type).is_some()
}

/// The `model_type`s of all families.
pub fn names() -> Vec<&'static str> {
    FAMILIES.iter().map(|family| family.model_type).collect()
}

fn config<C: DeserializeOwned>(json: &Value) -> Result<C> {
    // Its errors name the field.
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
    let model = new(&config(json)?, weights)?;
    let fresh = model.clone();
    let make = Arc::new(move || Ok(fresh.clone()));
    Ok(Box::new(Rereading {
        make,
        model,
        forward,
        tokens: Vec::new(),
    }))
}

/// For models that cannot be cloned; the weights are shared all the same.
fn remade<C: DeserializeOwned + Send + Sync + 'static, M: Send + 'static>(
    json: &Value,
    weights: VarBuilder<'static>,
    new: impl Fn(&C, VarBuilder) -> Result<M> + Send + Sync + 'static,
    forward: Forward<M>,
) -> Result<Box<dyn Decoder>> {
    let config = config(json)?;
    let make = Arc::new(move || new(&config, weights.clone()));
    Ok(Box::new(Rereading {
        model: make()?,
        make,
        forward,
        tokens: Vec::new(),
    }))
}

/// Files name its activation in two ways, "gelu" among them; `transformers` takes all of them to be
/// this one.
fn gemma(json: &Value, weights: VarBuilder<'static>) -> Result<Box<dyn Decoder>> {
    use models::gemma::Model;
    let mut json = json.clone();
    json["hidden_act"] = "gelu_pytorch_tanh".into();
    json["hidden_activation"] = Value::Null;
    let new = |config: &_, weights: VarBuilder| Model::new(false, config, weights);
    shared(&json, weights, new, Model::forward)
}

/// Its cache is an object of its own.
fn llama(json: &Value, weights: VarBuilder) -> Result<Box<dyn Decoder>> {
    use models::llama::{Cache, Llama, LlamaConfig};
    let config = config::<LlamaConfig>(json)?.into_config(false);
    let cache = Cache::new(true, weights.dtype(), &config, weights.device())?;
    let forward = |(model, cache): &mut (Llama, Cache), tokens: &Tensor, at: usize| {
        model.forward(tokens, at, cache)
    };
    let model = (Llama::load(weights, &config)?, cache);
    Ok(Box::new(Shared {
        model,
        forward,
        read: 0,
    }))
}

#[cfg(test)]
mod tests {
    use std::path::{Path, PathBuf};

    use beamgen_engine::Checkpoint;

    use super::*;
    use crate::checkpoint::Config;

    /// What `transformers` continues a prompt with, greedily.
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
        let opened = config.open(&checkpoint, u64::MAX);
        Ok(opened.map_err(candle_core::Error::wrap)?.0)
    }

    fn best(logits: &[f32]) -> u32 {
        let best = (0..logits.len()).max_by(|&a, &b| logits[a].total_cmp(&logits[b]));
        best.unwrap() as u32
    }

    fn goes_on(decoder: &mut dyn Decoder, first: u32, count: usize) -> Result<Vec<u32>> {
        let mut tokens = vec![first];
        while tokens.len() < count {
            tokens.push(best(&decoder.read(&tokens[tokens.len() - 1..])?));
        }
        Ok(tokens)
    }

    /// What a decoder writes behind the prompt, and what a fork of it does; a third one, which
    /// writes something else meanwhile, must not be seen by either.
    fn written(folder: &Path, prompt: &[u32], count: usize) -> Result<[Vec<u32>; 2]> {
        let mut decoder = open(folder)?;
        let first = best(&decoder.read(prompt)?);
        let (mut fork, mut other) = (decoder.fork()?, decoder.fork()?);
        goes_on(other.as_mut(), (first + 1) % 64, 5)?;
        Ok([
            goes_on(decoder.as_mut(), first, count)?,
            goes_on(fork.as_mut(), first, count)?,
        ])
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
        let mut found: Vec<&str> = folders
            .iter()
            .filter_map(|path| path.file_name()?.to_str())
            .collect();
        let mut rows = names();
        found.sort_unstable();
        rows.sort_unstable();
        assert_eq!(found, rows);
    }
}
