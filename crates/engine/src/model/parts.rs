//! Which tensors a decoder is made of: the one list that loading and counting go by.

use crate::weights::View;
use crate::{Error, ModelConfig, Weights};

/// The names of a decoder's tensors.
pub(super) struct Parts<'a> {
    config: &'a ModelConfig,
    /// A checkpoint of the bare decoder has no `model.` before its names.
    pub(super) prefix: &'static str,
}

/// Tensors that read the same input and are packed one after the other as one matrix.
pub(super) struct Matrix {
    /// Names without `.weight` and `.bias`, each with its outputs.
    pub(super) tensors: Vec<(String, usize)>,
    pub(super) inputs: usize,
    pub(super) bias: bool,
}

impl Matrix {
    pub(super) fn outputs(&self) -> usize {
        self.tensors.iter().map(|(_, outputs)| outputs).sum()
    }

    /// The weights, not read yet.
    ///
    /// # Errors
    /// One is missing or has another shape.
    pub(super) fn views<'w>(&self, weights: &'w Weights) -> Result<Vec<View<'w>>, Error> {
        self.tensors
            .iter()
            .map(|(name, outputs)| {
                weights.shaped(&format!("{name}.weight"), &[*outputs, self.inputs])
            })
            .collect()
    }
}

/// The matrices of a layer.
pub(super) struct LayerParts {
    /// Outputs are queries, keys, values.
    pub(super) qkv: Matrix,
    pub(super) attention_out: Matrix,
    /// Outputs are gate, up.
    pub(super) gate_up: Matrix,
    pub(super) down: Matrix,
}

/// Where the logits come from.
pub(super) enum HeadParts {
    None,
    Tied,
    Own(Matrix),
}

impl<'a> Parts<'a> {
    pub(super) fn new(config: &'a ModelConfig, weights: &Weights) -> Self {
        let bare = !weights.contains("model.embed_tokens.weight")
            && weights.contains("embed_tokens.weight");
        Self {
            config,
            prefix: if bare { "" } else { "model." },
        }
    }

    /// A norm's name.
    pub(super) fn vector(&self, name: &str) -> String {
        format!("{}{name}.weight", self.prefix)
    }

    /// A norm of layer `i`.
    pub(super) fn layer_vector(&self, i: usize, name: &str) -> String {
        self.vector(&format!("layers.{i}.{name}"))
    }

    fn matrix(&self, tensors: &[(&str, usize)], inputs: usize, bias: bool) -> Matrix {
        let named = |(name, outputs): &(&str, usize)| (format!("{}{name}", self.prefix), *outputs);
        Matrix {
            tensors: tensors.iter().map(named).collect(),
            inputs,
            bias,
        }
    }

    pub(super) fn layer(&self, i: usize) -> LayerParts {
        let c = self.config;
        let (hidden, intermediate) = (c.hidden_size, c.intermediate_size);
        let (q, kv) = (c.q_width(), c.kv_width());
        let of_layer = |tensors: &[(&str, usize)], inputs, bias| {
            let names: Vec<String> = tensors
                .iter()
                .map(|(name, _)| format!("layers.{i}.{name}"))
                .collect();
            let tensors: Vec<(&str, usize)> = names
                .iter()
                .zip(tensors)
                .map(|(name, (_, outputs))| (name.as_str(), *outputs))
                .collect();
            self.matrix(&tensors, inputs, bias)
        };
        let (qkv, gate_up): (&[_], &[_]) = if c.fused_projections {
            (
                &[("self_attn.qkv_proj", q + 2 * kv)],
                &[("mlp.gate_up_proj", 2 * intermediate)],
            )
        } else {
            (
                &[
                    ("self_attn.q_proj", q),
                    ("self_attn.k_proj", kv),
                    ("self_attn.v_proj", kv),
                ],
                &[
                    ("mlp.gate_proj", intermediate),
                    ("mlp.up_proj", intermediate),
                ],
            )
        };
        LayerParts {
            qkv: of_layer(qkv, hidden, c.qkv_bias),
            attention_out: of_layer(&[("self_attn.o_proj", hidden)], q, c.o_bias),
            gate_up: of_layer(gate_up, hidden, c.mlp_bias),
            down: of_layer(&[("mlp.down_proj", hidden)], intermediate, c.mlp_bias),
        }
    }

    pub(super) fn embedding(&self) -> Matrix {
        let c = self.config;
        self.matrix(&[("embed_tokens", c.vocab_size)], c.hidden_size, false)
    }

    pub(super) fn head(&self, weights: &Weights) -> HeadParts {
        let c = self.config;
        if c.tie_word_embeddings {
            HeadParts::Tied
        } else if c.causal_lm || weights.contains("lm_head.weight") {
            HeadParts::Own(Matrix {
                tensors: vec![("lm_head".into(), c.vocab_size)],
                inputs: c.hidden_size,
                bias: false,
            })
        } else {
            HeadParts::None
        }
    }
}
