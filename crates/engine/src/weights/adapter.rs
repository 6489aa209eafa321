//! Adds LoRA adapters, as Python's peft writes them, to the weights of their base model.
//!
//! A matrix `W` of the base becomes `W + s B A` (Hu et al. 2021, <https://arxiv.org/abs/2106.09685>),
//! with `s` the adapter's alpha over its rank. The sum is computed in float32 whenever values are
//! read, and rounded to the number type of `W`, as `merge_and_unload` of peft rounds it. So a merged
//! model needs no memory besides the adapter's.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use half::{bf16, f16};
use serde_json::{Map, Value};

use super::{Weights, safetensors, torch};
use crate::checkpoint::ADAPTER;
use crate::{Checkpoint, Encoding, Error};

const SAFETENSORS: &str = "adapter_model.safetensors";
const TORCH: &str = "adapter_model.bin";

/// The change of a matrix: a product of two thin matrices and a factor.
#[derive(Debug, PartialEq)]
pub(super) struct Delta {
    /// The matrix `B`, `[outputs, rank]`.
    b: Vec<f32>,
    /// The matrix `A`, `[rank, inputs]`.
    a: Vec<f32>,
    rank: usize,
    inputs: usize,
    scale: f32,
}

impl Delta {
    /// Adds the change to values of the matrix, from value `start` on in row-major order.
    pub(super) fn add(&self, start: usize, mut values: &mut [f32], encoding: Encoding) {
        let mut at = start;
        let mut sums = vec![0f32; self.inputs.min(values.len())];
        while !values.is_empty() {
            let (row, column) = (at / self.inputs, at % self.inputs);
            let (piece, rest) = values.split_at_mut(values.len().min(self.inputs - column));
            let sums = &mut sums[..piece.len()];
            sums.fill(0.0);
            for k in 0..self.rank {
                let factor = self.b[row * self.rank + k];
                let a = &self.a[k * self.inputs + column..][..piece.len()];
                for (sum, a) in sums.iter_mut().zip(a) {
                    *sum += factor * a;
                }
            }
            for (value, sum) in piece.iter_mut().zip(sums) {
                *value += self.scale * *sum;
                *value = match encoding {
                    Encoding::Bf16 => bf16::from_f32(*value).to_f32(),
                    Encoding::F16 => f16::from_f32(*value).to_f32(),
                    _ => *value,
                };
            }
            at += piece.len();
            values = rest;
        }
    }
}

/// The settings of an adapter that its sum depends on.
struct Settings {
    alpha: f64,
    /// The alphas of single modules, by the end of the module's name.
    alphas: BTreeMap<String, f64>,
    /// Whether the factor is alpha over the square root of the rank (rsLoRA, arXiv 2312.03732).
    by_root: bool,
}

impl Settings {
    /// Reads `adapter_config.json`. What is not plain LoRA is refused with the field's name.
    fn read(text: &str, path: &Path) -> Result<Self, Error> {
        let fields: Map<String, Value> =
            serde_json::from_str(text).map_err(|error| Error::json(path, error))?;
        let refuse = |field: &str, value: &Value| {
            let reason = format!(
                "{field} is {value}, which is not plain LoRA: merge the adapter with Python's peft (merge_and_unload, then \
                 save_pretrained) and name the new folder"
            );
            Err(Error::checkpoint(path, reason))
        };
        let kind = &fields.get("peft_type").cloned().unwrap_or_default();
        if kind != "LORA" {
            return refuse("peft_type", kind);
        }
        let by_root = fields.get("use_rslora") == Some(&Value::Bool(true));
        for (field, value) in &fields {
            let known = KNOWN.contains(&field.as_str()) || (field == "use_rslora" && by_root);
            let biases = field == "bias" && value != "none";
            if biases || (!known && !is_unset(value)) {
                return refuse(field, value);
            }
        }
        // These change the base's weights before training, so the stored base is not theirs.
        if let Some(Value::String(how)) = fields.get("init_lora_weights")
            && !["gaussian", "eva", "orthogonal"].contains(&how.as_str())
        {
            return refuse("init_lora_weights", &Value::from(how.as_str()));
        }
        let Some(alpha) = fields.get("lora_alpha").and_then(Value::as_f64) else {
            return Err(Error::checkpoint(
                path,
                "lora_alpha is missing, or not a number",
            ));
        };
        let mut alphas = BTreeMap::new();
        let patterns = fields.get("alpha_pattern").and_then(Value::as_object);
        for (name, value) in patterns.into_iter().flatten() {
            let plain = |c: char| c.is_alphanumeric() || "._-".contains(c);
            let Some(alpha) = value.as_f64().filter(|_| name.chars().all(plain)) else {
                return refuse("alpha_pattern", &Value::from(name.as_str()));
            };
            alphas.insert(name.clone(), alpha);
        }
        // One name that ends with another fits the same modules, and only one alpha can hold.
        let ends = |long: &str, short: &str| long.ends_with(&format!(".{short}"));
        for name in alphas.keys() {
            if alphas.keys().any(|other| ends(name, other)) {
                return refuse("alpha_pattern", &Value::from(name.as_str()));
            }
        }
        Ok(Self {
            alpha,
            alphas,
            by_root,
        })
    }

    fn scale(&self, module: &str, rank: usize) -> f32 {
        let own = self.alphas.iter().find(|(name, _)| {
            let before = module.strip_suffix(name.as_str());
            before.is_some_and(|before| before.is_empty() || before.ends_with('.'))
        });
        let alpha = own.map_or(self.alpha, |(_, alpha)| *alpha);
        let rank = rank as f64;
        (alpha / if self.by_root { rank.sqrt() } else { rank }) as f32
    }
}

/// Fields of `adapter_config.json` that may be set. Every other one changes the sum, or is of a later
/// version of peft and may change it.
const KNOWN: [&str; 22] = [
    "alpha_pattern",
    "auto_mapping",
    "base_model_name_or_path",
    "bias",
    "eva_config",
    "exclude_modules",
    "inference_mode",
    "init_lora_weights",
    "layers_pattern",
    "layers_to_transform",
    "lora_alpha",
    "lora_dropout",
    "megatron_core",
    "modules_to_save",
    "peft_type",
    "peft_version",
    "qalora_group_size",
    "r",
    "rank_pattern",
    "revision",
    "target_modules",
    "task_type",
];

fn is_unset(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Bool(is) => !is,
        Value::Array(list) => list.is_empty(),
        Value::Object(table) => table.is_empty(),
        Value::Number(_) | Value::String(_) => false,
    }
}

/// Adds the adapter in the folder of a checkpoint to the weights of its base. Whole matrices in the
/// adapter (`modules_to_save`, such as the head of a reward model) take the place of the base's.
///
/// # Errors
/// [`Error::Checkpoint`] if the adapter is not plain LoRA, or does not fit the base.
pub(super) fn add(weights: &mut Weights, checkpoint: &Checkpoint) -> Result<(), Error> {
    let path = checkpoint.path_of(ADAPTER);
    let settings = Settings::read(&checkpoint.required_text(ADAPTER)?, &path)?;
    let mut own = Weights::default();
    let (file, read): (_, super::AddFile) = if checkpoint.has(SAFETENSORS) {
        (SAFETENSORS, safetensors::add)
    } else {
        (TORCH, torch::add)
    };
    read(&mut own, checkpoint.bytes(file)?, &checkpoint.path_of(file))?;
    let path = checkpoint.path_of(file);
    let broken = |reason: String| Error::checkpoint(&path, reason);

    let names: Vec<String> = own.names().map(str::to_owned).collect();
    for name in &names {
        let module = name.strip_prefix("base_model.model.").unwrap_or(name);
        // Older files name the adapter: lora_A.default.weight.
        let module = module.replace(".default.weight", ".weight");
        if let Some(module) = module.strip_suffix(".lora_A.weight") {
            let other = name.replace(".lora_A.", ".lora_B.");
            if !own.contains(&other) {
                return Err(broken(format!("tensor `{other}` is missing")));
            }
            let (a, b) = (own.tensor(name)?, own.tensor(&other)?);
            let target = weights.target(&format!("{module}.weight"));
            let target = target.ok_or_else(|| {
                broken(format!("`{name}` is for `{module}`, which the base lacks"))
            })?;
            let entry = weights.tensors.get_mut(&target);
            let (Some(entry), [rank, inputs], [outputs, thin]) =
                (entry, &a.shape[..], &b.shape[..])
            else {
                return Err(broken(format!("`{name}` or `{other}` is no matrix")));
            };
            if thin != rank || entry.shape != [*outputs, *inputs] || *rank == 0 {
                let reason = format!(
                    "`{name}` {:?} and `{other}` {:?} do not fit `{target}` {:?} of the base",
                    a.shape, b.shape, entry.shape
                );
                return Err(broken(reason));
            }
            entry.delta = Some(Arc::new(Delta {
                rank: *rank,
                inputs: *inputs,
                scale: settings.scale(module, *rank),
                a: a.data,
                b: b.data,
            }));
        } else if module.ends_with(".lora_B.weight") {
            let other = name.replace(".lora_B.", ".lora_A.");
            if !own.contains(&other) {
                return Err(broken(format!("tensor `{other}` is missing")));
            }
        } else if module.contains(".lora_") || module.contains(".lokr_") {
            return Err(broken(format!(
                "`{name}` is not plain LoRA: merge the adapter with Python's peft"
            )));
        } else if !module.contains(".original_module.") {
            let whole = module.replace(".modules_to_save", "");
            let target = weights.target(&whole).unwrap_or(whole);
            let Some(entry) = own.tensors.remove(name) else {
                continue;
            };
            weights.tensors.insert(target, entry);
        }
    }
    Ok(())
}

impl Weights {
    /// Returns the name by which the base has a tensor. Some checkpoints lack the prefix `model.`.
    fn target(&self, name: &str) -> Option<String> {
        let short = name.strip_prefix("model.").unwrap_or(name);
        let names = [name.to_owned(), short.to_owned(), format!("model.{name}")];
        names.into_iter().find(|name| self.contains(name))
    }
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::super::Tensor;
    use super::*;

    fn fixture(name: &str) -> PathBuf {
        let root = Path::new(env!("CARGO_MANIFEST_DIR"));
        root.join("../../tests/fixtures").join(name)
    }

    /// Returns the error for the adapter `qwen2-lora` after changes of its configuration.
    fn refused(changes: &[(&str, Value)], other: Option<&str>) -> String {
        let dir = tempfile::tempdir().unwrap();
        let text = std::fs::read_to_string(fixture("qwen2-lora").join(ADAPTER)).unwrap();
        let mut config: Map<String, Value> = serde_json::from_str(&text).unwrap();
        let base = fixture(other.unwrap_or("qwen2")).canonicalize().unwrap();
        config["base_model_name_or_path"] = base.to_str().unwrap().into();
        for (field, value) in changes {
            config.insert((*field).to_owned(), value.clone());
        }
        std::fs::write(dir.path().join(ADAPTER), Value::Object(config).to_string()).unwrap();
        let tensors = fixture("qwen2-lora").join(SAFETENSORS);
        std::fs::copy(tensors, dir.path().join(SAFETENSORS)).unwrap();
        Weights::load(dir.path()).unwrap_err().to_string()
    }

    #[test]
    fn what_is_not_plain_lora_is_refused_by_its_field() {
        for (field, value) in [
            ("peft_type", Value::from("IA3")),
            ("use_dora", Value::Bool(true)),
            ("fan_in_fan_out", Value::Bool(true)),
            ("bias", Value::from("all")),
            ("init_lora_weights", Value::from("pissa_niter_4")),
            ("trainable_token_indices", serde_json::json!([1])),
            ("of_a_later_version", Value::from(2)),
            ("alpha_pattern", serde_json::json!({"^model.*q_proj": 3})),
            (
                "alpha_pattern",
                serde_json::json!({"q_proj": 3, "self_attn.q_proj": 4}),
            ),
        ] {
            let error = refused(&[(field, value)], None);
            assert!(error.contains(ADAPTER) && error.contains(field), "{error}");
            assert!(error.contains("merge_and_unload"), "{error}");
        }
        assert!(refused(&[("lora_alpha", Value::Null)], None).contains("lora_alpha is missing"));
        let error = refused(&[("base_model_name_or_path", Value::Null)], None);
        assert!(error.contains("names no model"), "{error}");
        let error = refused(
            &[("base_model_name_or_path", Value::from("org/base"))],
            None,
        );
        assert!(error.contains("\"org/base\""), "{error}");
        let error = refused(&[], Some("llama"));
        assert!(
            error.contains(SAFETENSORS) && error.contains("do not fit"),
            "{error}"
        );
        let error = add(
            &mut Weights::default(),
            &fixture("qwen2-lora").as_path().into(),
        );
        let error = error.unwrap_err().to_string();
        assert!(error.contains("which the base lacks"), "{error}");
    }

    /// Parts of a matrix are those of the whole, whatever piece is read.
    #[test]
    fn pieces_of_a_changed_matrix_are_those_of_the_whole() {
        let delta = Delta {
            b: (0..15).map(|i| (i as f32).sin()).collect(),
            a: (0..21).map(|i| (i as f32).cos()).collect(),
            rank: 3,
            inputs: 7,
            scale: 0.5,
        };
        let base: Vec<f32> = (0..35).map(|i| (i as f32 * 0.7).sin()).collect();
        let mut whole = base.clone();
        delta.add(0, &mut whole, Encoding::F32);
        for (at, value) in whole.iter().enumerate() {
            let (row, column) = (at / 7, at % 7);
            let product =
                |k: usize| f64::from(delta.b[row * 3 + k]) * f64::from(delta.a[k * 7 + column]);
            let expected = f64::from(base[at]) + 0.5 * (0..3).map(product).sum::<f64>();
            assert!((f64::from(*value) - expected).abs() < 1e-6);
        }
        for start in 0..35 {
            for end in start..=35 {
                let mut piece = base[start..end].to_vec();
                delta.add(start, &mut piece, Encoding::F32);
                assert_eq!(piece, whole[start..end], "{start}..{end}");
            }
        }
        let mut rounded = base.clone();
        delta.add(0, &mut rounded, Encoding::Bf16);
        assert!(rounded.iter().all(|value| value.to_bits() & 0xFFFF == 0));
    }

    #[test]
    fn whole_tensors_take_the_place_of_the_base() {
        let weights = Weights::load(&*fixture("qwen3-lora")).unwrap();
        let base = Weights::load(&*fixture("qwen3")).unwrap();
        let read = |weights: &Weights, name: &str| -> Tensor { weights.tensor(name).unwrap() };
        for (name, changes) in [
            ("lm_head.weight", true),
            ("model.layers.1.mlp.up_proj.weight", true),
            ("model.layers.0.mlp.up_proj.weight", false),
            ("model.embed_tokens.weight", false),
        ] {
            assert_eq!(read(&weights, name) != read(&base, name), changes, "{name}");
        }
        assert!(!weights.same_decoder(&base));
        assert!(weights.names().all(|name| !name.contains("lora")));
    }
}
