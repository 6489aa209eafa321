//! The forward pass of one chunk of rows on the processor, without any allocation.

use beamgen_kernels::{
    AttentionRow, AttentionShape, Cpu, Epilogue, KvPages, RopeTable, attention, kv_store, rmsnorm,
    rmsnorm_heads, rope, silu_mul,
};

use crate::account::{Clock, Operation, Work};
use crate::buffers::Buffers;
use crate::chunk::Chunk;
use crate::model::CpuDecoder;
use crate::{ModelConfig, Output};

/// Everything that a forward pass reads or writes besides the chunk itself.
pub(crate) struct Pass<'a> {
    pub(crate) config: &'a ModelConfig,
    pub(crate) decoder: &'a CpuDecoder,
    pub(crate) rope: &'a RopeTable,
    pub(crate) kv: &'a mut KvPages,
    pub(crate) buffers: &'a mut Buffers,
    /// Page tables that [`Chunk::attends`] points into.
    pub(crate) tables: &'a [u32],
    pub(crate) clock: &'a mut Clock,
}

impl Pass<'_> {
    /// Computes the rows of `chunk`: stores their keys and values, and writes the wanted rows'
    /// outputs to `out`.
    pub(crate) fn run(&mut self, cpu: Cpu, chunk: &mut Chunk, output: Output, out: &mut [f32]) {
        let c = self.config;
        let mut rows = chunk.len();
        self.clock
            .activations(Operation::Embed, 2 * rows * c.hidden_size, || {
                self.decoder
                    .embed(&chunk.tokens, &mut self.buffers.residual);
            });
        let last = self.decoder.layers.len() - 1;
        for i in 0..=last {
            self.project(cpu, i, chunk, rows);
            if i == last {
                // Only the wanted rows matter once the last layer's keys and values are stored. In
                // prefill this saves the last layer's attention and feed-forward for all other
                // rows.
                rows = self.keep_wanted(chunk);
                if rows == 0 {
                    return;
                }
            }
            // The keys and values of the whole chunk are stored before attention, so that its rows
            // see each other.
            self.attend(cpu, i, &chunk.attends, rows);
            self.feed_forward(cpu, i, rows);
        }

        let residual = &self.buffers.residual[..rows * c.hidden_size];
        match output {
            Output::Residual => out.copy_from_slice(residual),
            Output::Hidden => {
                self.clock
                    .activations(Operation::Norm, 2 * residual.len(), || {
                        rmsnorm(cpu, residual, &self.decoder.norm, c.rms_norm_eps, out);
                    });
            }
            Output::Logits => {
                let normed = &mut self.buffers.normed[..residual.len()];
                self.clock
                    .activations(Operation::Norm, 2 * residual.len(), || {
                        rmsnorm(cpu, residual, &self.decoder.norm, c.rms_norm_eps, normed);
                    });
                let head = self.decoder.head().expect("checked before the pass");
                let (scratch, work) = (&mut self.buffers.scratch, || Work::of_matrix(head, rows));
                self.clock.measure(Operation::Head, work, || {
                    head.forward(cpu, scratch, normed, out, Epilogue::Store);
                });
            }
        }
    }

    /// Computes queries, keys and values of layer `i`, and stores the keys and values in their
    /// pages.
    fn project(&mut self, cpu: Cpu, i: usize, chunk: &Chunk, rows: usize) {
        let (c, layer) = (self.config, &self.decoder.layers[i]);
        let (stride, eps) = (c.qkv_width(), c.rms_norm_eps);
        let normed = &mut self.buffers.normed[..rows * c.hidden_size];
        let qkv = &mut self.buffers.qkv[..rows * stride];
        let residual = &self.buffers.residual[..rows * c.hidden_size];
        self.clock
            .activations(Operation::Norm, 2 * residual.len(), || {
                rmsnorm(cpu, residual, &layer.attention_norm, eps, normed);
            });
        let scratch = &mut self.buffers.scratch;
        let work = || Work::of_matrix(&layer.qkv, rows);
        self.clock.measure(Operation::Qkv, work, || {
            layer
                .qkv
                .forward(cpu, scratch, normed, qkv, Epilogue::Store);
        });

        let (heads, kv_heads) = (c.num_attention_heads, c.num_key_value_heads);
        let (keys, values) = (c.q_width(), c.q_width() + c.kv_width());
        // The norm comes before the rotation, as in Qwen3: the norm has a weight per dimension, and
        // the rotation mixes dimensions.
        if let Some((q_norm, k_norm)) = &layer.qk_norm {
            self.clock
                .activations(Operation::Norm, 2 * rows * values, || {
                    rmsnorm_heads(cpu, qkv, stride, 0, heads, q_norm, eps);
                    rmsnorm_heads(cpu, qkv, stride, keys, kv_heads, k_norm, eps);
                });
        }
        // The columns of queries and keys are adjacent, so one call rotates both.
        let turning = heads + kv_heads;
        self.clock
            .activations(Operation::Rope, 2 * rows * values, || {
                rope(cpu, self.rope, qkv, stride, turning, &chunk.positions);
            });
        let (stored, format) = (2 * rows * c.kv_width(), self.kv.format());
        let work = || Work::of_store(stored, format);
        self.clock.measure(Operation::Store, work, || {
            kv_store(cpu, self.kv, i, qkv, stride, keys, values, &chunk.slots);
        });
    }

    fn attend(&mut self, cpu: Cpu, i: usize, attends: &[AttentionRow], rows: usize) {
        let c = self.config;
        let shape = AttentionShape {
            // Queries stay in the rows of the projection, which also hold keys and values.
            heads: c.num_attention_heads,
            stride: c.qkv_width(),
            scale: 1.0 / (c.head_dim as f32).sqrt(),
            window: c.window(i),
        };
        let qkv = &self.buffers.qkv[..rows * c.qkv_width()];
        let attended = &mut self.buffers.attended[..rows * c.q_width()];
        let (kv, tables, attends) = (&*self.kv, self.tables, &attends[..rows]);
        let work = || Work::of_attention(kv, shape, tables, attends);
        self.clock.measure(Operation::Attention, work, || {
            attention(cpu, kv, i, shape, qkv, tables, attends, attended);
        });
        let residual = &mut self.buffers.residual[..rows * c.hidden_size];
        let (matrix, scratch) = (
            &self.decoder.layers[i].attention_out,
            &mut self.buffers.scratch,
        );
        let work = || Work::of_matrix(matrix, rows);
        self.clock.measure(Operation::AttentionOut, work, || {
            matrix.forward(cpu, scratch, attended, residual, Epilogue::Add);
        });
    }

    fn feed_forward(&mut self, cpu: Cpu, i: usize, rows: usize) {
        let (c, layer) = (self.config, &self.decoder.layers[i]);
        let residual = &mut self.buffers.residual[..rows * c.hidden_size];
        let normed = &mut self.buffers.normed[..rows * c.hidden_size];
        let gate_up = &mut self.buffers.gate_up[..rows * 2 * c.intermediate_size];
        let gated = &mut self.buffers.gated[..rows * c.intermediate_size];
        let (clock, scratch) = (&mut *self.clock, &mut self.buffers.scratch);
        clock.activations(Operation::Norm, 2 * residual.len(), || {
            rmsnorm(cpu, residual, &layer.mlp_norm, c.rms_norm_eps, normed);
        });
        let work = || Work::of_matrix(&layer.gate_up, rows);
        clock.measure(Operation::GateUp, work, || {
            layer
                .gate_up
                .forward(cpu, scratch, normed, gate_up, Epilogue::Store);
        });
        clock.activations(Operation::Silu, 3 * gated.len(), || {
            silu_mul(cpu, gate_up, c.intermediate_size, gated);
        });
        let work = || Work::of_matrix(&layer.down, rows);
        clock.measure(Operation::Down, work, || {
            layer
                .down
                .forward(cpu, scratch, gated, residual, Epilogue::Add);
        });
    }

    /// Moves the wanted rows to the front of the buffers. Returns the number of wanted rows.
    fn keep_wanted(&mut self, chunk: &mut Chunk) -> usize {
        let c = self.config;
        let (hidden, qkv) = (c.hidden_size, c.qkv_width());
        // Indices rise, so `to <= from`: no row is overwritten before it has moved.
        for (to, from) in chunk.wanted.iter().map(|w| *w as usize).enumerate() {
            if to != from {
                let (to_row, from_row) = (to * hidden, from * hidden);
                self.buffers
                    .residual
                    .copy_within(from_row..from_row + hidden, to_row);
                self.buffers
                    .qkv
                    .copy_within(from * qkv..from * qkv + c.q_width(), to * qkv);
                chunk.attends[to] = chunk.attends[from];
            }
        }
        chunk.wanted.len()
    }
}
