//! Tensors to packed weights.

use std::sync::atomic::{AtomicUsize, Ordering};

use beamgen_kernels::{PackedLinear, Parallel, WeightFormat};

use super::parts::{Matrix, Parts};
use super::{Layer, WeightType};
use crate::{Error, ModelConfig, Weights};

/// Reads decoder tensors.
pub(super) struct Loader<'a> {
    pub(super) weights: &'a Weights,
    pub(super) parts: &'a Parts<'a>,
    pub(super) weight_type: WeightType,
    pub(super) parallel: Parallel<'a>,
}

impl Loader<'_> {
    pub(super) fn vector(&self, name: String, len: usize) -> Result<Vec<f32>, Error> {
        self.weights.values(&name, &[len])
    }

    pub(super) fn matrix(&self, matrix: &Matrix) -> Result<PackedLinear, Error> {
        let layer = self.pack(matrix)?;
        // Loading needs the packed weights and one unpacked matrix, not both of all.
        for (name, _) in &matrix.tensors {
            self.weights.set_aside(&format!("{name}.weight"));
        }
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
        let format = matrix.format(self.weight_type, &views);
        let (inputs, outputs) = (matrix.inputs, matrix.outputs());
        // The first tensor with a value out of the format's range.
        let out_of_range = AtomicUsize::new(usize::MAX);
        // Which tensor has row `n`, and which of its rows that is.
        let locate = |mut n: usize| {
            let mut i = 0;
            while n >= views[i].rows() {
                n -= views[i].rows();
                i += 1;
            }
            (i, n)
        };
        let layer = if format.is_blocks() {
            PackedLinear::pack_blocks(self.parallel, inputs, outputs, format, |n, blocks| {
                let (i, n) = locate(n);
                if !views[i].blocks(n, format, blocks) {
                    out_of_range.fetch_min(i, Ordering::Relaxed);
                }
            })
        } else {
            PackedLinear::pack(self.parallel, inputs, outputs, format, |n, row| {
                let (i, n) = locate(n);
                views[i].widen(n * inputs, row);
                if views[i].format() != format && overflows(format, row) {
                    out_of_range.fetch_min(i, Ordering::Relaxed);
                }
            })
        };
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
    row.iter().any(|x| {
        let mut rounded = [*x];
        format.round(&mut rounded);
        x.is_finite() && !rounded[0].is_finite()
    })
}
