use beamgen_kernels::cuda::{Buffer, Device, LinearShape, LinearWorkspace, Number};

use super::lists::capacity;
use crate::{Error, ModelConfig};

/// The activations of the largest chunk, which has `R` rows. All buffers hold float32, except that
/// inputs of matrices have the matrix's number type; a narrower type uses the front of the buffer.
#[derive(Debug)]
pub(super) struct Activations {
    /// Residual stream `[R, hidden]`.
    pub(super) residual: Buffer,
    /// Residual stream of the wanted rows only `[R, hidden]`.
    pub(super) kept: Buffer,
    /// Normalised residual `[R, hidden]`.
    pub(super) normed: Buffer,
    /// Queries, keys and values side by side `[R, q_width + 2 * kv_width]`.
    pub(super) qkv: Buffer,
    /// Queries of the wanted rows `[R, queries]`.
    pub(super) queries: Buffer,
    /// Output of attention `[R, heads * head_dim]`.
    pub(super) attended: Buffer,
    /// Gate and up of the feed-forward block side by side `[R, 2 * intermediate]`.
    pub(super) gate_up: Buffer,
    /// `silu(gate) * up` of the feed-forward block `[R, intermediate]`.
    pub(super) gated: Buffer,
    /// Cosines, then sines, of the rows' positions `[R, 2 * pairs]`.
    pub(super) angles: Buffer,
    /// Partial results of attention, one per row and segment: `[partials, heads, head_dim + 2]`.
    pub(super) parts: Buffer,
    /// Partial sums of matrices whose inputs are split between blocks of threads.
    pub(super) workspace: LinearWorkspace,
    /// The frequencies of the rotary embedding, float32 `[pairs]`.
    pub(super) frequencies: Buffer,
    /// The factor on cosines and sines (`YaRN`'s attention factor, otherwise 1).
    pub(super) scale: f32,
    /// The bytes of all activations, without `workspace` and `frequencies`.
    pub(super) bytes: usize,
}

/// The bytes of each buffer, in the order of the fields of [`Activations`], without `workspace` and
/// `frequencies`.
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

/// The shapes of a decoder's matrices, as bfloat16, which needs the most workspace.
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
        // Every size gets a name, so that no buffer is allocated with another buffer's size.
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
