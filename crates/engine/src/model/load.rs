//! Tensors to packed weights.

use std::sync::atomic::{AtomicUsize, Ordering};

use beamgen_kernels::{PackedLinear, WeightFormat};

use super::parts::{Matrix, Parts};
use super::{Layer, WeightType};
use crate::{Error, ModelConfig, Weights};

/// Reads decoder tensors.
pub(super) struct Loader<'a> {
    pub(super) weights: &'a Weights,
    pub(super) parts: &'a Parts<'a>,
    pub(super) weight_type: WeightType,
}

impl<'a> Loader<'a> {
    pub(super) fn new(weights: &'a Weights, parts: &'a Parts<'a>, weight_type: WeightType) -> Self {
        Self {
            weights,
            parts,
            weight_type,
        }
    }

    pub(super) fn vector(&self, name: String, len: usize) -> Result<Vec<f32>, Error> {
        self.weights.values(&name, &[len])
    }

    pub(super) fn matrix(&self, matrix: &Matrix) -> Result<PackedLinear, Error> {
        let layer = self.pack(matrix)?;
        let mut bias = Vec::new();
        for (name, outputs) in &matrix.tensors {
            if matrix.bias {
                bias.extend(self.vector(format!("{name}.bias"), *outputs)?);
            }
        }
        Ok(if matrix.bias {
            layer.with_bias(&bias)
        } else {
            layer
        })
    }

    fn pack(&self, matrix: &Matrix) -> Result<PackedLinear, Error> {
        let views = matrix.views(self.weights)?;
        let format = self.weight_type.format(&views);
        let inputs = matrix.inputs;
        // The first tensor with a value out of the format's range.
        let out_of_range = AtomicUsize::new(usize::MAX);
        let layer = PackedLinear::pack(inputs, matrix.outputs(), format, |mut n, row| {
            for (i, view) in views.iter().enumerate() {
                if n < view.rows() {
                    view.widen(n * inputs, row);
                    if view.format() != format && overflows(format, row) {
                        out_of_range.fetch_min(i, Ordering::Relaxed);
                    }
                    return;
                }
                n -= view.rows();
            }
        });
        match matrix.tensors.get(out_of_range.into_inner()) {
            Some((name, _)) => Err(Error::WeightRange {
                name: format!("{name}.weight"),
                weight_type: self.weight_type,
            }),
            None => Ok(layer),
        }
    }

    pub(super) fn layer(&self, c: &ModelConfig, i: usize) -> Result<Layer, Error> {
        let parts = self.parts;
        let matrices = parts.layer(i);
        let norm = |name| parts.layer_vector(i, name);
        Ok(Layer {
            attention_norm: self.vector(norm("input_layernorm"), c.hidden_size)?,
            qkv: self.matrix(&matrices.qkv)?,
            qk_norm: if c.qk_norm {
                let q = self.vector(norm("self_attn.q_norm"), c.head_dim)?;
                let k = self.vector(norm("self_attn.k_norm"), c.head_dim)?;
                Some((q, k))
            } else {
                None
            },
            attention_out: self.matrix(&matrices.attention_out)?,
            mlp_norm: self.vector(norm("post_attention_layernorm"), c.hidden_size)?,
            gate_up: self.matrix(&matrices.gate_up)?,
            down: self.matrix(&matrices.down)?,
        })
    }
}

fn overflows(format: WeightFormat, row: &[f32]) -> bool {
    row.iter()
        .any(|x| x.is_finite() && !format.round(*x).is_finite())
}
