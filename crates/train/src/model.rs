//! The trainable decoder: a Llama (RMSNorm, rotary embedding, SwiGLU, tied head) in candle, saved
//! in the Hugging Face layout that the engine and `transformers` read.

use crate::ops::{self, composed};
use candle_core::{DType, Device, Result, Tensor, Var};
use rand::Rng;
use serde::{Deserialize, Serialize};
use std::{collections::BTreeMap, sync::Arc};

/// Shape of a model. Heads have no grouping: the models are too small to need it.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Shape {
    /// Width of the hidden states.
    pub hidden: usize,
    /// Decoder layers.
    pub layers: usize,
    /// Attention heads.
    pub heads: usize,
    /// Width inside the feed-forward block.
    pub feed_forward: usize,
}

/// Of the RMS norms.
pub const EPS: f32 = 1e-5;
/// Base of the rotary positions.
pub const ROPE_THETA: f32 = 10_000.0;
/// Tokens of context.
pub const MAX_POSITIONS: usize = 512;

/// Trainable weights by their Hugging Face names.
pub struct Model {
    /// Widths and depths.
    pub shape: Shape,
    /// Tokens of the vocabulary.
    pub vocab: usize,
    vars: BTreeMap<String, Var>,
    device: Device,
    cos: Arc<Vec<f32>>,
    sin: Arc<Vec<f32>>,
}

fn layer(i: usize, name: &str) -> String {
    format!("model.layers.{i}.{name}.weight")
}

impl Model {
    /// Fresh weights: normal of deviation 0.02, output projections scaled down by depth.
    pub fn new(shape: Shape, vocab: usize, rng: &mut impl Rng, device: &Device) -> Result<Self> {
        let mut m = Self::empty(shape, vocab, device);
        let d = shape.hidden;
        m.add(rng, "model.embed_tokens.weight".into(), &[vocab, d], 0.02)?;
        for i in 0..shape.layers {
            m.add_layer(rng, i, 0.02 / (2.0 * shape.layers as f32).sqrt())?;
        }
        m.ones("model.norm.weight".into(), d)?;
        Ok(m)
    }

    fn empty(shape: Shape, vocab: usize, device: &Device) -> Self {
        let half = shape.hidden / shape.heads / 2;
        let angle = |i: usize| {
            let (t, j) = (i / half, i % half);
            t as f32 / ROPE_THETA.powf(j as f32 / half as f32)
        };
        let table =
            |f: fn(f32) -> f32| Arc::new((0..MAX_POSITIONS * half).map(|i| f(angle(i))).collect());
        Self {
            shape,
            vocab,
            vars: BTreeMap::new(),
            device: device.clone(),
            cos: table(f32::cos),
            sin: table(f32::sin),
        }
    }

    fn add(&mut self, rng: &mut impl Rng, name: String, dims: &[usize], std: f32) -> Result<()> {
        let n: usize = dims.iter().product();
        let data: Vec<f32> = (0..n).map(|_| normal(rng) * std).collect();
        self.put(name, Tensor::from_vec(data, dims, &self.device)?)
    }

    fn ones(&mut self, name: String, n: usize) -> Result<()> {
        self.put(name, Tensor::ones(n, DType::F32, &self.device)?)
    }

    fn put(&mut self, name: String, t: Tensor) -> Result<()> {
        self.vars.insert(name, Var::from_tensor(&t)?);
        Ok(())
    }

    fn add_layer(&mut self, rng: &mut impl Rng, i: usize, out_std: f32) -> Result<()> {
        let (d, f) = (self.shape.hidden, self.shape.feed_forward);
        // q, k and v are one matrix while training (one product), and so are gate and up
        self.add(rng, layer(i, "self_attn.qkv_proj"), &[3 * d, d], 0.02)?;
        self.add(rng, layer(i, "self_attn.o_proj"), &[d, d], out_std)?;
        self.add(rng, layer(i, "mlp.gate_up_proj"), &[2 * f, d], 0.02)?;
        self.add(rng, layer(i, "mlp.down_proj"), &[d, f], out_std)?;
        self.ones(layer(i, "input_layernorm"), d)?;
        self.ones(layer(i, "post_attention_layernorm"), d)
    }

    /// A deeper copy: `extra` new last layers whose output projections are zero, so that it
    /// computes what this model computes until it is trained.
    pub fn deeper(&self, extra: usize, rng: &mut impl Rng) -> Result<Self> {
        let shape = Shape {
            layers: self.shape.layers + extra,
            ..self.shape
        };
        let mut m = Self::empty(shape, self.vocab, &self.device);
        for (name, v) in &self.vars {
            m.put(name.clone(), v.as_tensor().copy()?)?;
        }
        for i in self.shape.layers..shape.layers {
            m.add_layer(rng, i, 0.0)?;
        }
        Ok(m)
    }

    /// Adds a linear head `[1, hidden]` with bias, both zero (`score.weight`, `score.bias`).
    pub fn add_score_head(&mut self) -> Result<()> {
        let d = self.shape.hidden;
        self.put(
            "score.weight".into(),
            Tensor::zeros((1, d), DType::F32, &self.device)?,
        )?;
        self.put(
            "score.bias".into(),
            Tensor::zeros(1, DType::F32, &self.device)?,
        )
    }

    /// All weights with their names, in the order of the names.
    pub fn vars(&self) -> impl Iterator<Item = (&str, &Var)> + Clone {
        self.vars.iter().map(|(n, v)| (n.as_str(), v))
    }

    /// A weight by its name; panics if there is none.
    pub fn var(&self, name: &str) -> &Tensor {
        self.vars[name].as_tensor()
    }

    /// Final hidden states (after the last norm) of padded rows: `ids` is `[batch * time]`,
    /// the result `[batch * time, hidden]`. Rows after a sequence's end are meaningless.
    pub fn hidden(&self, ids: &[u32], time: usize) -> Result<Tensor> {
        let ids = Tensor::new(ids, &self.device)?;
        let mut x = self
            .var("model.embed_tokens.weight")
            .index_select(&ids, 0)?;
        let attention = ops::Attention {
            time,
            heads: self.shape.heads,
            kv_heads: self.shape.heads,
            head_dim: self.shape.hidden / self.shape.heads,
            pairs: self.shape.hidden / self.shape.heads / 2,
            window: None,
            cos: self.cos.clone(),
            sin: self.sin.clone(),
        };
        for i in 0..self.shape.layers {
            let h = self.norm(&x, &layer(i, "input_layernorm"))?;
            let qkv = self.linear(&h, &layer(i, "self_attn.qkv_proj"))?;
            let a = if self.device.is_cpu() {
                qkv.apply_op1(attention.clone())?
            } else {
                composed::attention(&attention, &qkv)?
            };
            x = (x + self.linear(&a, &layer(i, "self_attn.o_proj"))?)?;
            let h = self.norm(&x, &layer(i, "post_attention_layernorm"))?;
            let gu = self.linear(&h, &layer(i, "mlp.gate_up_proj"))?;
            let a = if self.device.is_cpu() {
                gu.apply_op1(ops::SwiGlu)?
            } else {
                composed::swiglu(&gu)?
            };
            x = (x + self.linear(&a, &layer(i, "mlp.down_proj"))?)?;
        }
        self.norm(&x, "model.norm.weight")
    }

    fn norm(&self, x: &Tensor, name: &str) -> Result<Tensor> {
        if self.device.is_cpu() {
            x.apply_op2(self.var(name), ops::RmsNorm { eps: EPS })
        } else {
            composed::rms_norm(x, self.var(name), EPS)
        }
    }

    fn linear(&self, x: &Tensor, name: &str) -> Result<Tensor> {
        x.matmul(&self.var(name).t()?)
    }

    /// Weighted next-token cross-entropy of hidden rows `at` against `targets`, summed.
    pub fn lm_loss(
        &self,
        hidden: &Tensor,
        at: &[u32],
        targets: Vec<u32>,
        weights: Vec<f32>,
    ) -> Result<Tensor> {
        let rows = hidden.index_select(&Tensor::new(at, &self.device)?, 0)?;
        let logits = rows.matmul(&self.var("model.embed_tokens.weight").t()?)?;
        if self.device.is_cpu() {
            logits.apply_op1(ops::CrossEntropy { targets, weights })
        } else {
            composed::cross_entropy(&logits, &targets, &weights)
        }
    }

    /// Weighted binary cross-entropy of the score head at hidden rows `at`, summed.
    pub fn score_loss(
        &self,
        hidden: &Tensor,
        at: &[u32],
        labels: &[f32],
        weights: &[f32],
    ) -> Result<Tensor> {
        let z = self.scores(hidden, at)?;
        let y = Tensor::new(labels, &self.device)?;
        let w = Tensor::new(weights, &self.device)?;
        // softplus(z) - y z, in the form that cannot overflow
        let soft = ((z.abs()?.neg()?.exp()? + 1.0)?.log()? + z.relu()?)?;
        ((soft - (y * z)?)? * w)?.sum_all()
    }

    /// Score logits (before the sigmoid) at hidden rows `at`.
    pub fn scores(&self, hidden: &Tensor, at: &[u32]) -> Result<Tensor> {
        hidden
            .index_select(&Tensor::new(at, &self.device)?, 0)?
            .matmul(&self.var("score.weight").t()?)?
            .broadcast_add(self.var("score.bias"))?
            .squeeze(1)
    }

    /// Where the weights are.
    pub fn device(&self) -> &Device {
        &self.device
    }

    /// Numbers in all weights.
    pub fn parameters(&self) -> usize {
        self.vars.values().map(|v| v.elem_count()).sum()
    }

    /// Copies every value of a saved state (names as in [`Model::vars`]) into this model.
    pub fn restore(&mut self, state: &std::collections::HashMap<String, Tensor>) -> Result<()> {
        for (name, var) in &self.vars {
            let t = state
                .get(name)
                .ok_or_else(|| candle_core::Error::Msg(format!("checkpoint lacks {name}")))?;
            var.set(t)?;
        }
        Ok(())
    }

    /// Tensors under the names and shapes of a Hugging Face Llama checkpoint.
    pub fn hugging_face_tensors(&self) -> Result<BTreeMap<String, Tensor>> {
        let (d, f) = (self.shape.hidden, self.shape.feed_forward);
        let mut out = BTreeMap::new();
        for (name, var) in &self.vars {
            let t = var.as_tensor().detach();
            if let Some(stem) = name.strip_suffix("qkv_proj.weight") {
                for (i, part) in ["q_proj", "k_proj", "v_proj"].iter().enumerate() {
                    out.insert(
                        format!("{stem}{part}.weight"),
                        t.narrow(0, i * d, d)?.contiguous()?,
                    );
                }
            } else if let Some(stem) = name.strip_suffix("gate_up_proj.weight") {
                for (i, part) in ["gate_proj", "up_proj"].iter().enumerate() {
                    out.insert(
                        format!("{stem}{part}.weight"),
                        t.narrow(0, i * f, f)?.contiguous()?,
                    );
                }
            } else {
                out.insert(name.clone(), t);
            }
        }
        Ok(out)
    }
}

/// A standard normal draw (Box-Muller).
pub(crate) fn normal(rng: &mut impl Rng) -> f32 {
    let u: f32 = rng.random_range(f32::MIN_POSITIVE..1.0);
    let v: f32 = rng.random_range(0.0..std::f32::consts::TAU);
    (-2.0 * u.ln()).sqrt() * v.cos()
}
