//! Packed weights.

use std::collections::HashSet;

use beamgen_kernels::PackedLinear;

use crate::weights::View;
use crate::{Checkpoint, Error, ModelConfig, Weights};

/// A decoder ready to run: weights packed for this machine, immutable.
#[derive(Debug)]
pub struct Model {
    config: ModelConfig,
    embedding: Embedding,
    pub(crate) layers: Vec<Layer>,
    pub(crate) norm: Vec<f32>,
    head: Head,
}

#[derive(Debug)]
enum Embedding {
    /// `[vocab, hidden]`.
    Rows(Vec<f32>),
    /// The head's weights.
    Tied,
}

#[derive(Debug)]
enum Head {
    None,
    Linear(PackedLinear),
}

#[derive(Debug)]
pub(crate) struct Layer {
    pub(crate) attention_norm: Vec<f32>,
    /// Outputs are queries, keys, values.
    pub(crate) qkv: PackedLinear,
    /// Norms of a head's queries and of its keys.
    pub(crate) qk_norm: Option<(Vec<f32>, Vec<f32>)>,
    pub(crate) attention_out: PackedLinear,
    pub(crate) mlp_norm: Vec<f32>,
    /// Outputs are gate, up.
    pub(crate) gate_up: PackedLinear,
    pub(crate) down: PackedLinear,
}

impl Model {
    /// Loads a Hugging Face checkpoint (a directory, or files in memory): `config.json` and
    /// safetensors in float32, float16 or bfloat16.
    ///
    /// # Errors
    /// Says which file, field or tensor is missing, corrupt or not supported.
    pub fn load(checkpoint: impl Into<Checkpoint>) -> Result<Self, Error> {
        let checkpoint = checkpoint.into();
        Self::from_weights(
            ModelConfig::load(checkpoint.clone())?,
            &Weights::load(checkpoint)?,
        )
    }

    /// Packs the decoder's tensors among `weights`. Tensors that are not the decoder's (a reward
    /// model's head) stay there for the caller.
    ///
    /// # Errors
    /// [`Error::MissingTensor`], [`Error::Shape`], [`Error::Dtype`], or
    /// [`Error::UnexpectedTensor`] for decoder weights that `config` does not know.
    pub fn from_weights(config: ModelConfig, weights: &Weights) -> Result<Self, Error> {
        // A checkpoint of the bare decoder has no `model.` before its names.
        let bare = !weights.contains("model.embed_tokens.weight")
            && weights.contains("embed_tokens.weight");
        let mut loader = Loader {
            weights,
            prefix: if bare { "" } else { "model." },
            used: HashSet::new(),
        };
        let c = &config;
        let vocabulary = [c.vocab_size, c.hidden_size];
        let layers = (0..c.num_hidden_layers)
            .map(|i| loader.layer(c, i))
            .collect::<Result<Vec<_>, _>>()?;
        let norm = loader.vector("norm.weight", c.hidden_size)?;
        let name = loader.name("embed_tokens.weight");
        let (embedding, head) = if c.tie_word_embeddings {
            let head = pack(c.hidden_size, &[weights.shaped(&name, &vocabulary)?]);
            (Embedding::Tied, Head::Linear(head))
        } else {
            let head = if c.causal_lm || weights.contains("lm_head.weight") {
                Head::Linear(pack(
                    c.hidden_size,
                    &[weights.shaped("lm_head.weight", &vocabulary)?],
                ))
            } else {
                Head::None
            };
            (Embedding::Rows(weights.values(&name, &vocabulary)?), head)
        };
        loader.used.insert(name);
        loader.refuse_unused()?;
        Ok(Self {
            config,
            embedding,
            layers,
            norm,
            head,
        })
    }

    /// What the model computes.
    #[must_use]
    pub fn config(&self) -> &ModelConfig {
        &self.config
    }

    /// Whether the model gives logits, not only hidden states.
    #[must_use]
    pub fn has_head(&self) -> bool {
        self.head().is_some()
    }

    /// Weights of the language-model head for one token, `[hidden]`; `None` without a head or
    /// outside the vocabulary.
    #[must_use]
    pub fn head_row(&self, token: u32) -> Option<Vec<f32>> {
        let (head, token) = (self.head()?, token as usize);
        (token < self.config.vocab_size).then(|| {
            let mut row = vec![0.0; self.config.hidden_size];
            head.weight_row(token, &mut row);
            row
        })
    }

    /// Bytes of the packed weights.
    #[must_use]
    pub fn bytes(&self) -> usize {
        let layers: usize = self
            .layers
            .iter()
            .map(|l| l.qkv.bytes() + l.attention_out.bytes() + l.gate_up.bytes() + l.down.bytes())
            .sum();
        let embedding = match &self.embedding {
            Embedding::Rows(rows) => 4 * rows.len(),
            Embedding::Tied => 0,
        };
        layers + embedding + self.head().map_or(0, PackedLinear::bytes)
    }

    pub(crate) fn head(&self) -> Option<&PackedLinear> {
        match &self.head {
            Head::Linear(head) => Some(head),
            Head::None => None,
        }
    }

    /// Writes the embedding of each token to a row of `out: [tokens, hidden]`.
    pub(crate) fn embed(&self, tokens: &[u32], out: &mut [f32]) {
        let width = self.config.hidden_size;
        for (token, out) in tokens.iter().zip(out.chunks_exact_mut(width)) {
            let token = *token as usize;
            match (&self.embedding, &self.head) {
                (Embedding::Rows(rows), _) => {
                    out.copy_from_slice(&rows[token * width..][..width]);
                }
                (Embedding::Tied, Head::Linear(head)) => head.weight_row(token, out),
                (Embedding::Tied, Head::None) => unreachable!("a tied model has a head"),
            }
        }
    }

    /// Floating-point operations of one row through the layers, without attention to others.
    pub(crate) fn row_work(&self) -> u64 {
        let weights: usize = self
            .layers
            .iter()
            .flat_map(|l| [&l.qkv, &l.attention_out, &l.gate_up, &l.down])
            .map(|l| l.inputs() * l.outputs())
            .sum();
        2 * weights as u64
    }
}

/// Reads decoder tensors and remembers which.
struct Loader<'a> {
    weights: &'a Weights,
    prefix: &'static str,
    used: HashSet<String>,
}

impl<'a> Loader<'a> {
    fn name(&self, name: &str) -> String {
        format!("{}{name}", self.prefix)
    }

    fn vector(&mut self, name: &str, len: usize) -> Result<Vec<f32>, Error> {
        let name = self.name(name);
        let values = self.weights.values(&name, &[len])?;
        self.used.insert(name);
        Ok(values)
    }

    /// Linear layers that read the same input, packed as one: each name with its outputs.
    fn linear(
        &mut self,
        parts: &[(String, usize)],
        inputs: usize,
        bias: bool,
    ) -> Result<PackedLinear, Error> {
        let views = parts
            .iter()
            .map(|(name, outputs)| {
                let name = self.name(&format!("{name}.weight"));
                let view = self.weights.shaped(&name, &[*outputs, inputs])?;
                self.used.insert(name);
                Ok(view)
            })
            .collect::<Result<Vec<View<'a>>, Error>>()?;
        let layer = pack(inputs, &views);
        if !bias {
            return Ok(layer);
        }
        let mut values = Vec::new();
        for (name, outputs) in parts {
            values.extend(self.vector(&format!("{name}.bias"), *outputs)?);
        }
        Ok(layer.with_bias(&values))
    }

    fn layer(&mut self, c: &ModelConfig, i: usize) -> Result<Layer, Error> {
        let name = |part: &str| format!("layers.{i}.{part}");
        let (hidden, intermediate) = (c.hidden_size, c.intermediate_size);
        let qk_norm = if c.qk_norm {
            let q = self.vector(&name("self_attn.q_norm.weight"), c.head_dim)?;
            let k = self.vector(&name("self_attn.k_norm.weight"), c.head_dim)?;
            Some((q, k))
        } else {
            None
        };
        let (qkv, gate_up) = if c.fused_projections {
            (
                vec![(name("self_attn.qkv_proj"), c.qkv_width())],
                vec![(name("mlp.gate_up_proj"), 2 * intermediate)],
            )
        } else {
            (
                vec![
                    (name("self_attn.q_proj"), c.q_width()),
                    (name("self_attn.k_proj"), c.kv_width()),
                    (name("self_attn.v_proj"), c.kv_width()),
                ],
                vec![
                    (name("mlp.gate_proj"), intermediate),
                    (name("mlp.up_proj"), intermediate),
                ],
            )
        };
        let out = [(name("self_attn.o_proj"), hidden)];
        let down = [(name("mlp.down_proj"), hidden)];
        Ok(Layer {
            attention_norm: self.vector(&name("input_layernorm.weight"), hidden)?,
            qkv: self.linear(&qkv, hidden, c.qkv_bias)?,
            qk_norm,
            attention_out: self.linear(&out, c.q_width(), c.o_bias)?,
            mlp_norm: self.vector(&name("post_attention_layernorm.weight"), hidden)?,
            gate_up: self.linear(&gate_up, hidden, c.mlp_bias)?,
            down: self.linear(&down, intermediate, c.mlp_bias)?,
        })
    }

    /// A bias or a layer that the configuration does not mention would silently be left out.
    fn refuse_unused(&self) -> Result<(), Error> {
        let decoders = |name: &str| match name.strip_prefix(self.prefix) {
            Some(rest) => ["layers.", "embed_tokens.", "norm."]
                .iter()
                .any(|p| rest.starts_with(p)),
            None => name.starts_with("lm_head.") && name != "lm_head.weight",
        };
        // Old checkpoints carry the rotary frequencies, which the configuration implies.
        let unused = self.weights.names().find(|name| {
            decoders(name) && !self.used.contains(*name) && !name.ends_with("rotary_emb.inv_freq")
        });
        match unused {
            Some(name) => Err(Error::UnexpectedTensor { name: name.into() }),
            None => Ok(()),
        }
    }
}

/// Packs `[outputs, inputs]` matrices one after the other as one layer.
fn pack(inputs: usize, views: &[View<'_>]) -> PackedLinear {
    let outputs = views.iter().map(View::rows).sum();
    PackedLinear::pack(inputs, outputs, |mut n, row| {
        for view in views {
            if n < view.rows() {
                return view.widen(n * inputs, row);
            }
            n -= view.rows();
        }
    })
}
