use beamgen_kernels::cuda::{Buffer, Device, LinearShape, LinearWorkspace, Number};

use super::lists::capacity;
use crate::{Error, ModelConfig};

/// Activations of the largest chunk, `R` rows. Inputs of matrices may be narrower than float32 and
/// use the front of their buffer then; all else is float32.
#[derive(Debug)]
pub(super) struct Activations {
    /// Residual stream `[R, hidden]`.
    pub(super) residual: Buffer,
    /// Residual stream of the wanted rows `[R, hidden]`.
    pub(super) kept: Buffer,
    /// Normalised residual `[R, hidden]`.
    pub(super) normed: Buffer,
    /// Queries, keys and values `[R, queries | keys | values]`.
    pub(super) qkv: Buffer,
    /// Queries of the wanted rows `[R, queries]`.
    pub(super) queries: Buffer,
    /// Output of attention `[R, heads * head_dim]`.
    pub(super) attended: Buffer,
    /// Outputs of the feed-forward network's first matrix `[R, gate | up]`.
    pub(super) gate_up: Buffer,
    /// Inputs of the feed-forward network's second matrix `[R, intermediate]`.
    pub(super) gated: Buffer,
    /// Cosines and sines of the rows' positions `[R, cos | sin]`.
    pub(super) angles: Buffer,
    /// Partial results of attention, one for each segment: `[partials, heads, head_dim + 2]`.
    pub(super) parts: Buffer,
    /// Partial sums of matrices whose inputs are split among blocks.
    pub(super) workspace: LinearWorkspace,
    /// The frequencies of the rotary embedding, float32.
    pub(super) frequencies: Buffer,
    /// The factor of the rotary embedding's cosines and sines.
    pub(super) scale: f32,
    /// Bytes of the activations, without `workspace` and `frequencies`.
    pub(super) bytes: usize,
}

/// The sizes of the buffers in bytes, in the order of the fields of [`Activations`], without
/// `workspace` and `frequencies`.
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

/// The matrices of a decoder, in the number type that needs the most workspace.
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
        // Destructured by name, so that no buffer can get another's size.
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
        Ok(Self {
            residual: device.alloc(residual)?,
            kept: device.alloc(kept)?,
            normed: device.alloc(normed)?,
            qkv: device.alloc(qkv)?,
            queries: device.alloc(queries)?,
            attended: device.alloc(attended)?,
            gate_up: device.alloc(gate_up)?,
            gated: device.alloc(gated)?,
            angles: device.alloc(angles)?,
            parts: device.alloc(parts)?,
            workspace: LinearWorkspace::new(device, &matrices(c), rows)?,
            frequencies: device.upload(&frequencies)?,
            scale: c.rope.attention_factor() as f32,
            bytes: sizes.iter().sum(),
        })
    }
}
