//! The trainable decoder in candle, for Llama, Mistral, Qwen2, Qwen3 and Phi-3. Weights and configuration are read by
//! the engine's loader.

mod adapters;
mod fresh;

use std::collections::{BTreeMap, HashMap};
use std::ops::Range;
use std::sync::Arc;

use beamgen_engine::{ModelConfig, Weights};
use candle_core::{DType, Device, Tensor, Var};

use adapters::Adapter;
pub(super) use fresh::normal;

use super::Trained;
use crate::ops;
use crate::{Error, Result};

pub(super) const EMBEDDING: &str = "model.embed_tokens.weight";
/// The language-model head. Checkpoints with a head tied to the embedding lack this tensor.
pub(super) const HEAD: &str = "lm_head.weight";
const NORM: &str = "model.norm.weight";

/// The input of a decoder, which depends on its frozen layers.
#[derive(Clone, Copy, Debug)]
pub enum Input<'a> {
    /// Token ids `[batch * time]`, which require that no layer is frozen.
    Tokens(&'a [u32]),
    /// Hidden states `[batch * time, hidden]`, the output of the last frozen layer.
    Hidden(&'a Tensor),
}

/// The trained layers of a decoder, the final norm and, for a generator, the language-model head. Tensors have their
/// Hugging Face names, with two fused matrices: queries, keys and values in one, gate and up in another.
#[derive(Debug)]
pub struct Decoder {
    /// The configuration of the whole model, which counts the frozen layers too.
    pub config: ModelConfig,
    /// The number of frozen layers at the bottom, whose weights are not loaded.
    frozen: usize,
    vars: BTreeMap<String, Var>,
    fixed: BTreeMap<String, Tensor>,
    /// The adapters by the name of their fused matrix, one for each matrix that is stacked in it.
    adapters: BTreeMap<String, Vec<Adapter>>,
    cos: Arc<Vec<f32>>,
    sin: Arc<Vec<f32>>,
    pub(crate) device: Device,
}

fn layer(i: usize, name: &str) -> String {
    format!("model.layers.{i}.{name}")
}

impl Decoder {
    /// Loads the trained layers of a checkpoint, for sequences of at most `longest` tokens. If `generator` is true,
    /// the language-model head is loaded too.
    ///
    /// # Errors
    /// A tensor is missing or has a wrong shape, or `trained.top` is not below the number of layers.
    pub fn load(
        config: ModelConfig,
        weights: &Weights,
        trained: Trained,
        generator: bool,
        longest: usize,
    ) -> Result<Self> {
        let layers = config.num_hidden_layers;
        let frozen = match trained.top {
            None => 0,
            Some(top) if top < layers => layers - top,
            Some(top) => {
                return Err(Error::Config(format!(
                    "top={top}: the model has only {layers} layers: give a smaller number, or all"
                )));
            }
        };
        // Angles are f64, because f32 products lose digits at late positions.
        let frequencies = config.rope.frequencies(config.head_dim);
        let factor = config.rope.attention_factor();
        let table = |f: fn(f64) -> f64| {
            let positions = 0..longest;
            let angles = positions.flat_map(|t| frequencies.iter().map(move |w| t as f64 * w));
            Arc::new(
                angles
                    .map(|angle| (f(angle) * factor) as f32)
                    .collect::<Vec<f32>>(),
            )
        };
        let tables = (table(f64::cos), table(f64::sin));
        let mut decoder = Self::empty(config, frozen, tables, &Device::Cpu);
        decoder.read(weights, trained.top.is_none(), generator)?;
        Ok(decoder)
    }

    /// Makes a decoder without tensors. `tables` are the cosines and the sines of the rotary angles, `[longest,
    /// pairs]` each.
    fn empty(
        config: ModelConfig,
        frozen: usize,
        tables: (Arc<Vec<f32>>, Arc<Vec<f32>>),
        device: &Device,
    ) -> Self {
        Self {
            config,
            frozen,
            vars: BTreeMap::new(),
            fixed: BTreeMap::new(),
            adapters: BTreeMap::new(),
            cos: tables.0,
            sin: tables.1,
            device: device.clone(),
        }
    }

    fn read(&mut self, weights: &Weights, whole: bool, generator: bool) -> Result<()> {
        let c = self.config.clone();
        let tokens =
            |name: &str| stacked(weights, &[(name.into(), c.vocab_size)], Some(c.hidden_size));
        if whole {
            self.put(EMBEDDING.into(), &tokens(EMBEDDING)?)?;
        } else if generator && c.tie_word_embeddings {
            // The loss needs a tied head, but training it would also change the input of the frozen layers.
            self.fixed.insert(EMBEDDING.into(), tokens(EMBEDDING)?);
        }
        if generator && !c.tie_word_embeddings {
            self.put(HEAD.into(), &tokens(HEAD)?)?;
        }
        let mut vectors = vec![(NORM.into(), c.hidden_size)];
        for i in self.frozen..c.num_hidden_layers {
            // One product for queries, keys and values is faster than three; the same holds for gate and up.
            // `tensors` splits the fused matrices again.
            for (fused, parts, inputs, bias) in matrices(&c) {
                for (suffix, inputs) in [("weight", Some(inputs)), ("bias", None)] {
                    if suffix == "bias" && !bias {
                        continue;
                    }
                    let named = parts
                        .iter()
                        .map(|(part, size)| (layer(i, &format!("{part}.{suffix}")), *size));
                    let tensor = stacked(weights, &named.collect::<Vec<_>>(), inputs)?;
                    self.put(layer(i, &format!("{fused}.{suffix}")), &tensor)?;
                }
            }
            let norms = [
                (true, "input_layernorm", c.hidden_size),
                (true, "post_attention_layernorm", c.hidden_size),
                (c.qk_norm, "self_attn.q_norm", c.head_dim),
                (c.qk_norm, "self_attn.k_norm", c.head_dim),
            ];
            let norms = norms.iter().filter(|(exists, ..)| *exists);
            vectors.extend(norms.map(|(_, name, len)| (layer(i, &format!("{name}.weight")), *len)));
        }
        for vector in vectors {
            let tensor = stacked(weights, std::slice::from_ref(&vector), None)?;
            self.put(vector.0, &tensor)?;
        }
        Ok(())
    }

    pub(crate) fn put(&mut self, name: String, tensor: &Tensor) -> Result<()> {
        self.vars.insert(name, Var::from_tensor(tensor)?);
        Ok(())
    }

    /// Returns the number of layers at the bottom that are not trained.
    pub fn frozen(&self) -> usize {
        self.frozen
    }

    /// Returns the trained tensors in alphabetical order of their names.
    pub fn vars(&self) -> impl Iterator<Item = (&str, &Var)> + Clone {
        self.vars.iter().map(|(name, var)| (name.as_str(), var))
    }

    /// Returns the number of trained values, summed over all tensors.
    pub fn parameters(&self) -> usize {
        self.vars.values().map(|var| var.elem_count()).sum()
    }

    pub(super) fn tensor(&self, name: &str) -> Option<&Tensor> {
        let var = self.vars.get(name).map(Var::as_tensor);
        var.or_else(|| self.fixed.get(name))
    }

    pub(super) fn expect(&self, name: &str) -> Result<&Tensor> {
        self.tensor(name)
            .ok_or_else(|| candle_core::Error::Msg(format!("missing tensor {name}")).into())
    }

    /// Returns the language-model head `[vocab, hidden]`, which is the embedding if the two are tied.
    pub(crate) fn head(&self) -> Result<&Tensor> {
        self.tensor(HEAD).map_or_else(|| self.expect(EMBEDDING), Ok)
    }

    /// Whether the language-model head is trained.
    pub(crate) fn trains_head(&self) -> bool {
        // A trained embedding is also the head if the two are tied.
        self.vars.contains_key(HEAD) || self.vars.contains_key(EMBEDDING)
    }

    /// Sets every trained tensor to the value in a saved state, which must contain all of them.
    pub(crate) fn restore(&self, state: &HashMap<String, Tensor>) -> Result<()> {
        for (name, var) in &self.vars {
            let saved = state.get(name).ok_or_else(|| {
                Error::Config(format!("the saved state of the run has no tensor `{name}`"))
            })?;
            var.set(saved)?;
        }
        Ok(())
    }

    /// Returns the hidden states after the final norm, `[at, hidden]`, for sequences that are padded to `time`
    /// tokens. `at` selects rows; `None` returns all. For rows outside `at`, the last layer computes only attention.
    ///
    /// # Errors
    /// The input does not fit the decoder, or a tensor operation fails.
    pub fn forward(&self, input: Input<'_>, time: usize, at: Option<&[u32]>) -> Result<Tensor> {
        let c = &self.config;
        let mut x = match input {
            Input::Tokens(ids) => {
                let ids = Tensor::new(ids, &self.device)?;
                self.expect(EMBEDDING)?.index_select(&ids, 0)?
            }
            Input::Hidden(hidden) => hidden.clone(),
        };
        let at = at.map(|at| Tensor::new(at, &self.device)).transpose()?;
        for i in self.frozen..c.num_hidden_layers {
            // Pre-norm blocks: attention and MLP each add their output to the residual stream `x`.
            let h = self.norm(&x, &layer(i, "input_layernorm"))?;
            let qkv = self.linear(&h, &layer(i, "self_attn.qkv_proj"))?;
            let qkv = self.norm_heads(i, qkv)?;
            let mut a = self.attend(i, &qkv, time)?;
            if i + 1 == c.num_hidden_layers
                && let Some(at) = &at
            {
                // No later layer reads the other rows, so the last MLP skips them.
                a = a.index_select(at, 0)?;
                x = x.index_select(at, 0)?;
            }
            x = (x + self.linear(&a, &layer(i, "self_attn.o_proj"))?)?;
            let h = self.norm(&x, &layer(i, "post_attention_layernorm"))?;
            let gated = ops::swiglu(&self.linear(&h, &layer(i, "mlp.gate_up_proj"))?)?;
            x = (x + self.linear(&gated, &layer(i, "mlp.down_proj"))?)?;
        }
        self.norm_by(&x, self.expect(NORM)?)
    }

    fn attend(&self, i: usize, qkv: &Tensor, time: usize) -> Result<Tensor> {
        let c = &self.config;
        let attention = ops::Attention {
            time,
            heads: c.num_attention_heads,
            kv_heads: c.num_key_value_heads,
            head_dim: c.head_dim,
            pairs: c.rope.frequencies(c.head_dim).len(),
            window: c.windows.get(i).copied().flatten(),
            cos: Arc::clone(&self.cos),
            sin: Arc::clone(&self.sin),
        };
        Ok(ops::attention(qkv, attention)?)
    }

    /// Normalises queries and keys head by head if the family does so, as Qwen3.
    fn norm_heads(&self, i: usize, qkv: Tensor) -> Result<Tensor> {
        let c = &self.config;
        if !c.qk_norm {
            return Ok(qkv);
        }
        let (q, kv) = (c.num_attention_heads, c.num_key_value_heads);
        let values = qkv.narrow(1, (q + kv) * c.head_dim, kv * c.head_dim)?;
        let queries = self.normed(&qkv, 0..q, &layer(i, "self_attn.q_norm"))?;
        let keys = self.normed(&qkv, q..q + kv, &layer(i, "self_attn.k_norm"))?;
        Ok(Tensor::cat(&[&queries, &keys, &values], 1)?)
    }

    /// Normalises the given heads of the rows `[rows, heads * head_dim]`, each head separately.
    fn normed(&self, qkv: &Tensor, heads: Range<usize>, name: &str) -> Result<Tensor> {
        let (rows, width) = (qkv.dim(0)?, self.config.head_dim);
        let part = qkv.narrow(1, heads.start * width, heads.len() * width)?;
        let part = part.contiguous()?.reshape((rows * heads.len(), width))?;
        Ok(self
            .norm(&part, name)?
            .reshape((rows, heads.len() * width))?)
    }

    fn norm(&self, x: &Tensor, name: &str) -> Result<Tensor> {
        self.norm_by(x, self.expect(&format!("{name}.weight"))?)
    }

    fn norm_by(&self, x: &Tensor, weight: &Tensor) -> Result<Tensor> {
        Ok(ops::rms_norm(x, weight, self.config.rms_norm_eps)?)
    }

    /// Returns `x W^T + b` plus the output of the adapters, for the tensors `NAME.weight` and `NAME.bias`. The bias
    /// may be absent.
    pub(super) fn linear(&self, x: &Tensor, name: &str) -> Result<Tensor> {
        let weight = format!("{name}.weight");
        let mut y = match self.vars.get(&weight) {
            Some(trained) => x.matmul(&trained.t()?)?,
            None => x.apply_op1(ops::FrozenLinear {
                weight: self.expect(&weight)?.clone(),
            })?,
        };
        if let Some(bias) = self.tensor(&format!("{name}.bias")) {
            y = y.broadcast_add(bias)?;
        }
        match self.adapted(x, name)? {
            Some(change) => Ok((y + change)?),
            None => Ok(y),
        }
    }

    /// Returns the trained tensors with the names and shapes of the checkpoint. Adapters are merged into their
    /// matrices, and fused matrices are split.
    ///
    /// # Errors
    /// A merge or a split fails in candle.
    pub fn tensors(&self) -> Result<BTreeMap<String, Tensor>> {
        let split = matrices(&self.config);
        let mut all = self.merged()?;
        for (name, var) in self.vars.iter().filter(|(name, _)| !self.is_adapter(name)) {
            all.insert(name.clone(), var.as_tensor().detach());
        }
        let mut out = BTreeMap::new();
        for (name, tensor) in &all {
            // Names with a fused part are split into the names of the checkpoint.
            let fused = split.iter().find_map(|(fused, parts, ..)| {
                let (before, suffix) = name.split_once(&format!("{fused}."))?;
                Some((before, suffix, parts))
            });
            let Some((before, suffix, parts)) = fused else {
                out.insert(name.clone(), tensor.clone());
                continue;
            };
            let mut from = 0;
            for (part, size) in parts {
                let rows = tensor.narrow(0, from, *size)?.contiguous()?;
                out.insert(format!("{before}{part}.{suffix}"), rows);
                from += size;
            }
        }
        Ok(out)
    }
}

/// A fused matrix of a layer: its name, the stacked matrices with their numbers of outputs, the number of inputs, and
/// whether it has a bias.
type Stack = (&'static str, Vec<(&'static str, usize)>, usize, bool);

fn matrices(c: &ModelConfig) -> [Stack; 4] {
    let q = c.num_attention_heads * c.head_dim;
    let kv = c.num_key_value_heads * c.head_dim;
    let (hidden, wide) = (c.hidden_size, c.intermediate_size);
    let (qkv, gate_up) = if c.fused_projections {
        (
            vec![("self_attn.qkv_proj", q + 2 * kv)],
            vec![("mlp.gate_up_proj", 2 * wide)],
        )
    } else {
        (
            vec![
                ("self_attn.q_proj", q),
                ("self_attn.k_proj", kv),
                ("self_attn.v_proj", kv),
            ],
            vec![("mlp.gate_proj", wide), ("mlp.up_proj", wide)],
        )
    };
    let o = vec![("self_attn.o_proj", hidden)];
    let down = vec![("mlp.down_proj", hidden)];
    [
        ("self_attn.qkv_proj", qkv, hidden, c.qkv_bias),
        ("self_attn.o_proj", o, q, c.o_bias),
        ("mlp.gate_up_proj", gate_up, hidden, c.mlp_bias),
        ("mlp.down_proj", down, wide, c.mlp_bias),
    ]
}

/// Stacks tensors along their outputs, in float32. `parts` are names with their numbers of outputs. `inputs` is
/// `None` for biases, which are vectors.
fn stacked(weights: &Weights, parts: &[(String, usize)], inputs: Option<usize>) -> Result<Tensor> {
    let mut data = Vec::new();
    for (name, size) in parts {
        // Checkpoints of a bare decoder, such as `LlamaModel`, lack the prefix `model.`.
        let own = match name.strip_prefix("model.") {
            Some(bare) if !weights.contains(EMBEDDING) => bare,
            _ => name,
        };
        let shape: Vec<usize> = std::iter::once(*size).chain(inputs).collect();
        data.extend(weights.values(own, &shape)?);
    }
    let rows: usize = parts.iter().map(|(_, size)| size).sum();
    let shape: Vec<usize> = std::iter::once(rows).chain(inputs).collect();
    Ok(Tensor::from_vec(data, shape, &Device::Cpu)?.to_dtype(DType::F32)?)
}
