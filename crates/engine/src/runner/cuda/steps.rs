//! Queues the kernels of a pass, in the order in which they run.

use beamgen_kernels::cuda::{
    Buffer, Gather, HeadColumns, KvLayout, Number, QkvRows, attention, attention_merge, embed,
    gather_rows, rmsnorm, rmsnorm_heads, rope_angles, rope_kv, silu_mul,
};
use beamgen_kernels::{AttentionShape, Epilogue};

use super::lists::Lists;
use super::memory::Activations;
use crate::model::CudaDecoder;
use crate::{Error, ModelConfig, Output};

/// A pass whose lists are already on the device.
pub(super) struct Steps<'a> {
    pub(super) config: &'a ModelConfig,
    pub(super) decoder: &'a CudaDecoder,
    pub(super) kv: &'a Buffer,
    pub(super) layout: KvLayout,
    pub(super) activations: &'a Activations,
    pub(super) lists: &'a Lists,
}

/// The rows that a layer computes after it has stored the keys and values of all rows.
struct Stream<'a> {
    /// Whether the rows are only the wanted ones, gathered from all rows of the pass.
    wanted: bool,
    rows: usize,
    queries: &'a Buffer,
    /// The number of float32 values from one row of queries to the next.
    stride: usize,
    residual: &'a Buffer,
}

/// Returns a second handle to the same memory, so that a kernel can write to it while `buffer` is
/// borrowed. This is safe because all kernels run on one stream, in the order of their launches.
fn into(buffer: &Buffer) -> Buffer {
    buffer.from(0)
}

impl Steps<'_> {
    /// Queues all layers. The residual of the wanted rows is then in `residual` if all rows are
    /// wanted, otherwise in `kept`.
    pub(super) fn layers(&self) -> Result<(), Error> {
        let (c, a, lists) = (self.config, self.activations, self.lists);
        let (now, hidden) = (&lists.now, c.hidden_size);
        let table = &self.decoder.embedding;
        let residual = &mut into(&a.residual);
        embed(
            residual,
            table.number(),
            &table.weight,
            &lists.at(|places| places.tokens),
            now.rows,
            hidden,
        )?;
        let (angles, pairs) = (&mut into(&a.angles), c.rope.pairs(c.head_dim));
        let positions = lists.at(|places| places.positions);
        rope_angles(angles, &positions, &a.frequencies, a.scale, now.rows, pairs)?;
        let every = Stream {
            wanted: false,
            rows: now.rows,
            queries: &a.qkv,
            stride: c.qkv_width(),
            residual: &a.residual,
        };
        let last = self.decoder.layers.len() - 1;
        for i in 0..=last {
            self.project(i)?;
            // Every layer but the last computes all rows. The last does so only if all rows are
            // wanted.
            if i < last || now.all {
                self.attend(i, &every)?;
                self.feed_forward(i, &every)?;
            }
        }
        if now.all || now.wanted == 0 {
            return Ok(());
        }
        // Only the wanted rows matter once the last layer's keys and values are stored.
        let wanted = Stream {
            wanted: true,
            rows: now.wanted,
            queries: &a.queries,
            stride: c.q_width(),
            residual: &a.kept,
        };
        self.gather(&a.kept, &a.residual, hidden, hidden)?;
        self.gather(&a.queries, &a.qkv, c.q_width(), c.qkv_width())?;
        self.attend(last, &wanted)?;
        self.feed_forward(last, &wanted)
    }

    /// Copies the first `width` columns of the wanted rows from `x` to `out`. Rows of `x` are
    /// `stride` values apart.
    fn gather(&self, out: &Buffer, x: &Buffer, width: usize, stride: usize) -> Result<(), Error> {
        let shape = Gather {
            width,
            x_stride: stride,
            out_stride: width,
        };
        let rows = self.lists.at(|places| places.wanted);
        let count = self.lists.now.wanted;
        Ok(gather_rows(&mut into(out), x, &rows, count, shape)?)
    }

    /// Queues the final norm and, for logits, the head, for the `rows` wanted rows.
    pub(super) fn output(
        &self,
        output: Output,
        rows: usize,
        out: &mut Buffer,
    ) -> Result<(), Error> {
        let a = self.activations;
        let norm = &self.decoder.norm;
        // If all rows are wanted, nothing was gathered, and `residual` has the result.
        let residual = if self.lists.now.all {
            &a.residual
        } else {
            &a.kept
        };
        match output {
            Output::Residual => unreachable!("refused before the pass"),
            Output::Hidden => self.norm(out, Number::F32, residual, norm, rows)?,
            Output::Logits => {
                let head = self.decoder.head().expect("checked before the pass");
                let normed = &mut into(&a.normed);
                self.norm(normed, head.number(), residual, norm, rows)?;
                head.forward(normed, out, rows, Epilogue::Store, &a.workspace)?;
            }
        }
        Ok(())
    }

    /// Normalises `rows` rows of `x`, and writes them as `number`, the type that the next matrix
    /// reads.
    fn norm(
        &self,
        out: &mut Buffer,
        number: Number,
        x: &Buffer,
        weight: &Buffer,
        rows: usize,
    ) -> Result<(), Error> {
        let (hidden, eps) = (self.config.hidden_size, self.config.rms_norm_eps);
        Ok(rmsnorm(out, number, x, weight, rows, hidden, eps)?)
    }

    /// Queues the projection of layer `i` to queries, keys and values, and stores keys and values
    /// in pages.
    fn project(&self, i: usize) -> Result<(), Error> {
        let (c, a, lists) = (self.config, self.activations, self.lists);
        let (layer, rows) = (&self.decoder.layers[i], lists.now.rows);
        let (stride, eps) = (c.qkv_width(), c.rms_norm_eps);
        let (normed, qkv) = (&mut into(&a.normed), &mut into(&a.qkv));
        let number = layer.qkv.number();
        self.norm(normed, number, &a.residual, &layer.attention_norm, rows)?;
        layer
            .qkv
            .forward(normed, qkv, rows, Epilogue::Store, &a.workspace)?;
        let (heads, kv_heads) = (c.num_attention_heads, c.num_key_value_heads);
        // The norm comes before the rotation, as in Qwen3: the norm has a weight per dimension, and
        // the rotation mixes dimensions.
        if let Some((q_norm, k_norm)) = &layer.qk_norm {
            let columns = |offset, heads| HeadColumns {
                stride,
                offset,
                heads,
                head_dim: c.head_dim,
            };
            rmsnorm_heads(qkv, rows, columns(0, heads), q_norm, eps)?;
            rmsnorm_heads(qkv, rows, columns(c.q_width(), kv_heads), k_norm, eps)?;
        }
        let shape = QkvRows {
            rows,
            stride,
            heads,
        };
        let (kv, pairs) = (&mut into(self.kv), c.rope.pairs(c.head_dim));
        let slots = lists.at(|places| places.slots);
        rope_kv(qkv, shape, kv, &self.layout, i, &a.angles, pairs, &slots)?;
        Ok(())
    }

    /// Queues the attention of layer `i`, and adds the output to the residual.
    fn attend(&self, i: usize, stream: &Stream<'_>) -> Result<(), Error> {
        let (c, a) = (self.config, self.activations);
        let out = &self.decoder.layers[i].attention_out;
        let shape = AttentionShape {
            heads: c.num_attention_heads,
            stride: stream.stride,
            scale: 1.0 / (c.head_dim as f32).sqrt(),
            window: c.window(i),
        };
        let reaching = if stream.wanted {
            &self.lists.last
        } else {
            self.lists.every(shape.window)
        };
        let (lists, items) = (&reaching.lists, reaching.items);
        let staging = &self.lists.staging;
        let (parts, attended) = (&mut into(&a.parts), &mut into(&a.attended));
        attention(
            parts,
            stream.queries,
            &shape,
            self.kv,
            &self.layout,
            i,
            staging,
            lists,
            items,
        )?;
        let heads = (c.num_attention_heads, c.head_dim);
        attention_merge(
            attended,
            out.number(),
            parts,
            staging,
            lists,
            stream.rows,
            heads,
        )?;
        out.forward(
            &a.attended,
            &mut into(stream.residual),
            stream.rows,
            Epilogue::Add,
            &a.workspace,
        )
    }

    fn feed_forward(&self, i: usize, stream: &Stream<'_>) -> Result<(), Error> {
        let (c, a, rows) = (self.config, self.activations, stream.rows);
        let layer = &self.decoder.layers[i];
        let (gate_up, down) = (&layer.gate_up, &layer.down);
        let (normed, both, gated) = (
            &mut into(&a.normed),
            &mut into(&a.gate_up),
            &mut into(&a.gated),
        );
        let number = gate_up.number();
        self.norm(normed, number, stream.residual, &layer.mlp_norm, rows)?;
        // If both matrices have the same number type, one kernel computes the product, SiLU and the
        // gate, and the wide rows of `gate_up` are never written.
        if gate_up.gates(down.number()) {
            gate_up.gated(normed, gated, rows, &a.workspace)?;
        } else {
            gate_up.forward(normed, both, rows, Epilogue::Store, &a.workspace)?;
            silu_mul(gated, down.number(), both, rows, c.intermediate_size)?;
        }
        down.forward(
            gated,
            &mut into(stream.residual),
            rows,
            Epilogue::Add,
            &a.workspace,
        )
    }
}
