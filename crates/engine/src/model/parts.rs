//! Which tensors a decoder is made of: the one list that loading and counting go by.

use beamgen_kernels::WeightFormat;

use super::WeightType;
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
    /// Nothing is multiplied by it; its rows are looked up.
    pub(super) only_looked_up: bool,
}

impl Matrix {
    fn new(prefix: &str, tensors: &[(&str, usize)], inputs: usize, bias: bool) -> Self {
        let named = |(name, outputs): &(&str, usize)| (format!("{prefix}{name}"), *outputs);
        Self {
            tensors: tensors.iter().map(named).collect(),
            inputs,
            bias,
            only_looked_up: false,
        }
    }

    /// How it is stored.
    pub(super) fn format(&self, weight_type: WeightType, views: &[View<'_>]) -> WeightFormat {
        let weight_type = if self.only_looked_up {
            weight_type.of_lookups()
        } else {
            weight_type
        };
        weight_type.format(self.inputs, views)
    }

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

    pub(super) fn layer(&self, i: usize) -> LayerParts {
        let c = self.config;
        let (hidden, intermediate) = (c.hidden_size, c.intermediate_size);
        let (q, kv) = (c.q_width(), c.kv_width());
        let prefix = format!("{}layers.{i}.", self.prefix);
        let matrix = |tensors, inputs, bias| Matrix::new(&prefix, tensors, inputs, bias);
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
            qkv: matrix(qkv, hidden, c.qkv_bias),
            attention_out: matrix(&[("self_attn.o_proj", hidden)], q, c.o_bias),
            gate_up: matrix(gate_up, hidden, c.mlp_bias),
            down: matrix(&[("mlp.down_proj", hidden)], intermediate, c.mlp_bias),
        }
    }

    pub(super) fn embedding(&self) -> Matrix {
        let c = self.config;
        let tensors = [("embed_tokens", c.vocab_size)];
        Matrix {
            only_looked_up: !c.tie_word_embeddings,
            ..Matrix::new(self.prefix, &tensors, c.hidden_size, false)
        }
    }

    pub(super) fn head(&self, weights: &Weights) -> HeadParts {
        let c = self.config;
        if c.tie_word_embeddings {
            HeadParts::Tied
        } else if c.causal_lm || weights.contains("lm_head.weight") {
            let tensors = [("lm_head", c.vocab_size)];
            HeadParts::Own(Matrix::new("", &tensors, c.hidden_size, false))
        } else {
            HeadParts::None
        }
    }
}
