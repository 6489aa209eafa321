//! The activations of a pass on the processor.

use beamgen_kernels::{LinearScratch, WidestInputs};

use crate::ModelConfig;

/// Activations of the largest chunk (a chunk is the rows of one pass). A chunk of `R` rows uses the
/// front of each buffer.
#[derive(Debug)]
pub(crate) struct Buffers {
    /// Residual stream `[R, hidden]`.
    pub(crate) residual: Vec<f32>,
    /// Normalised residual `[R, hidden]`.
    pub(crate) normed: Vec<f32>,
    /// Queries, keys and values side by side `[R, q_width + 2 * kv_width]`.
    pub(crate) qkv: Vec<f32>,
    /// Output of attention `[R, heads * head_dim]`.
    pub(crate) attended: Vec<f32>,
    /// Gate and up of the feed-forward block side by side `[R, 2 * intermediate]`.
    pub(crate) gate_up: Vec<f32>,
    /// `silu(gate) * up` of the feed-forward block `[R, intermediate]`.
    pub(crate) gated: Vec<f32>,
    /// Inputs of one matrix at a time, quantised or rounded row by row.
    pub(crate) scratch: LinearScratch,
}

impl Buffers {
    pub(crate) fn new(c: &ModelConfig, widest: WidestInputs, rows: usize) -> Self {
        Self {
            residual: vec![0.0; rows * c.hidden_size],
            normed: vec![0.0; rows * c.hidden_size],
            qkv: vec![0.0; rows * c.qkv_width()],
            attended: vec![0.0; rows * c.q_width()],
            gate_up: vec![0.0; rows * 2 * c.intermediate_size],
            gated: vec![0.0; rows * c.intermediate_size],
            scratch: LinearScratch::new(rows, widest),
        }
    }

    /// Returns the bytes of [`Buffers::new`] with the same arguments.
    pub(crate) fn bytes_for(c: &ModelConfig, widest: WidestInputs, rows: usize) -> usize {
        let row = 2 * c.hidden_size + c.qkv_width() + c.q_width() + 3 * c.intermediate_size;
        let scratch = LinearScratch::bytes_for(rows, widest);
        (4 * row).saturating_mul(rows).saturating_add(scratch)
    }

    pub(crate) fn bytes(&self) -> usize {
        let all = [
            &self.residual,
            &self.normed,
            &self.qkv,
            &self.attended,
            &self.gate_up,
            &self.gated,
        ];
        self.scratch.bytes() + 4 * all.iter().map(|buffer| buffer.len()).sum::<usize>()
    }
}
