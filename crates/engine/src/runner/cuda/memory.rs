use beamgen_kernels::cuda::{Buffer, Device, LinearShape, LinearWorkspace, Number};

use super::lists::capacity;
use crate::{Error, ModelConfig};

/// Activations of the largest chunk, `R` rows. All float32 but for the inputs of matrices, which
/// have room for that.
#[derive(Debug)]
pub(super) struct Activations {
    /// Residual stream `[R, hidden]`.
    pub(super) residual: Buffer,
    /// That of the wanted rows.
    pub(super) kept: Buffer,
    /// Normalised residual `[R, hidden]`.
    pub(super) normed: Buffer,
    /// `[R, queries | keys | values]`.
    pub(super) qkv: Buffer,
    /// Queries of the wanted rows `[R, queries]`.
    pub(super) queries: Buffer,
    /// Output of attention `[R, heads * head_dim]`.
    pub(super) attended: Buffer,
    /// `[R, gate | up]`.
    pub(super) gate_up: Buffer,
    /// `[R, intermediate]`.
    pub(super) gated: Buffer,
    /// `[R, cos | sin]`.
    pub(super) angles: Buffer,
    /// What attention makes of a row's segments: `[partials, heads, head_dim + 2]`.
    pub(super) parts: Buffer,
    /// Sums of matrices that several blocks share.
    pub(super) workspace: LinearWorkspace,
    /// The rotation's frequencies, float32.
    pub(super) frequencies: Buffer,
    /// The factor of its cosines and sines.
    pub(super) scale: f32,
    /// Bytes of all but the workspace of matrices and the frequencies.
    pub(super) bytes: usize,
}

/// Bytes of each buffer.
fn sizes(c: &ModelConfig, rows: usize) -> [usize; 10] {
    let pairs = c.rope.pairs(c.head_dim);
    let row = |values: usize| 4 * rows * values;
    [
        row(c.hidden_size),
        row(c.hidden_size),
        row(c.hidden_size),
        row(c.qkv_width()),
        row(c.q_width()),
        row(c.q_width()),
        row(2 * c.intermediate_size),
        row(c.intermediate_size),
        row(2 * pairs),
        capacity(c, rows).partial_bytes(c.num_attention_heads, c.head_dim),
    ]
}

/// The matrices of a decoder, in the type that takes most workspace.
fn matrices(c: &ModelConfig) -> [LinearShape; 5] {
    [
        (c.hidden_size, c.qkv_width()),
        (c.q_width(), c.hidden_size),
        (c.hidden_size, 2 * c.intermediate_size),
        (c.intermediate_size, c.hidden_size),
        (c.hidden_size, c.vocab_size),
    ]
    .map(|(inputs, outputs)| LinearShape {
        inputs,
        outputs,
        number: Number::Bf16,
    })
}

impl Activations {
    pub(super) fn bytes_for(c: &ModelConfig, rows: usize) -> usize {
        let workspace = LinearWorkspace::bytes(&matrices(c), rows);
        sizes(c, rows)
            .iter()
            .fold(workspace, |sum, bytes| sum.saturating_add(*bytes))
    }

    pub(super) fn new(device: &Device, c: &ModelConfig, rows: usize) -> Result<Self, Error> {
        let frequencies = c.rope.frequencies(c.head_dim);
        let frequencies: Vec<f32> = frequencies.iter().map(|f| *f as f32).collect();
        let sizes = sizes(c, rows);
        let [
            residual,
            kept,
            normed,
            qkv,
            queries,
            attended,
            gate_up,
            gated,
            angles,
            parts,
        ] = sizes;
        let alloc = |bytes| device.alloc(bytes);
        Ok(Self {
            residual: alloc(residual)?,
            kept: alloc(kept)?,
            normed: alloc(normed)?,
            qkv: alloc(qkv)?,
            queries: alloc(queries)?,
            attended: alloc(attended)?,
            gate_up: alloc(gate_up)?,
            gated: alloc(gated)?,
            angles: alloc(angles)?,
            parts: alloc(parts)?,
            workspace: LinearWorkspace::new(device, &matrices(c), rows)?,
            frequencies: device.upload(&frequencies)?,
            scale: c.rope.attention_factor() as f32,
            bytes: sizes.iter().sum(),
        })
    }
}
