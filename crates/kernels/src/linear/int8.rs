//! Weights of 8 bits in groups of 32 with a scale, and inputs quantised the same way.

use std::marker::PhantomData;

use super::blocks::{self, Blocks, GROUP};
use super::int8_tile::{Quantize, Tile};
use super::out::Out;
use super::scratch::LinearScratch;
use super::{PANEL, packing_work};
use crate::Cpu;
use crate::buffer::AlignedBuf;
use crate::parallel::{Parallel, SharedOut};

/// 32 neighbouring weights of an output: `scale * values`. The same numbers as in a block of
/// GGUF's `Q8_0`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Q8Block {
    /// float16 of IEEE 754, as bits.
    pub scale: u16,
    /// The weights divided by the scale; -127 to 127 if made by [`quantize`](Self::quantize).
    pub values: [i8; GROUP],
}

impl Q8Block {
    /// Quantises 32 weights. The scale is the largest magnitude / 127, rounded to float16 (infinite
    /// if out of range). The values are the weights divided by the rounded scale, rounded to the
    /// nearest integer (ties to even) and clamped to -127..=127.
    ///
    /// # Panics
    /// If there are not 32 weights.
    #[must_use]
    pub fn quantize(weights: &[f32]) -> Self {
        assert_eq!(weights.len(), GROUP);
        // `max` would pass over a NaN.
        let largest = weights
            .iter()
            .fold(0.0f32, |max, w| if w.abs() <= max { max } else { w.abs() });
        let scale = half::f16::from_f32(largest / 127.0);
        let wide = scale.to_f32();
        let mut values = [0; GROUP];
        if wide > 0.0 {
            for (value, w) in values.iter_mut().zip(weights) {
                *value = (w / wide).round_ties_even().clamp(-127.0, 127.0) as i8;
            }
        }
        Self {
            scale: scale.to_bits(),
            values,
        }
    }

    /// Returns the block as in a GGUF file: the scale in two bytes, then the values.
    #[must_use]
    pub fn to_bytes(&self) -> [u8; 34] {
        let mut bytes = [0; 34];
        bytes[..2].copy_from_slice(&self.scale.to_le_bytes());
        for (byte, value) in bytes[2..].iter_mut().zip(self.values) {
            *byte = value.cast_unsigned();
        }
        bytes
    }

    /// Whether the scale is a finite number.
    #[must_use]
    pub fn is_finite(&self) -> bool {
        half::f16::from_bits(self.scale).is_finite()
    }

    /// Writes the 32 weights `scale * values` as float32.
    ///
    /// # Panics
    /// If `weights` does not have 32 places.
    pub fn widen(&self, weights: &mut [f32]) {
        assert_eq!(weights.len(), GROUP);
        let scale = half::f16::from_bits(self.scale).to_f32();
        for (w, value) in weights.iter_mut().zip(self.values) {
            *w = f32::from(value) * scale;
        }
    }
}

/// Bytes of the panels of a layer.
pub(super) fn bytes_for<F: Blocks>(inputs: usize, outputs: usize) -> usize {
    outputs.div_ceil(PANEL) * blocks::panel_bytes::<F>(inputs / GROUP)
}

/// Packs the blocks of a layer; `row(n, bytes)` writes the blocks of row `n` as in a GGUF file.
pub(super) fn pack<F: Blocks>(
    parallel: Parallel<'_>,
    inputs: usize,
    outputs: usize,
    row: impl Fn(usize, &mut [u8]) + Sync,
) -> AlignedBuf<u8> {
    assert!(
        inputs.is_multiple_of(GROUP * F::SUPER),
        "rows of whole blocks"
    );
    let supers = inputs / (GROUP * F::SUPER);
    let mut panels = AlignedBuf::zeroed(bytes_for::<F>(inputs, outputs));
    let panel_bytes = blocks::panel_bytes::<F>(inputs / GROUP).max(1);
    let work = packing_work(inputs, outputs);
    parallel.for_pieces(&mut panels, panel_bytes, work, |p, panel| {
        let mut buffer = vec![0; supers * F::FILE];
        for n in 0..PANEL.min(outputs - p * PANEL) {
            row(p * PANEL + n, &mut buffer);
            let supers = panel.chunks_exact_mut(blocks::super_bytes::<F>());
            for (block, to) in buffer.chunks_exact(F::FILE).zip(supers) {
                F::pack(block, n, to);
            }
        }
    });
    panels
}

/// A split of rows into register blocks of nearly equal size. With at most 6 rows per block, 16
/// rows become 5, 5 and 6.
#[derive(Clone, Copy)]
pub(super) struct RowBlocks {
    rows: usize,
    count: usize,
}

impl RowBlocks {
    fn new(rows: usize, most: usize) -> Self {
        Self {
            rows,
            count: rows.div_ceil(most),
        }
    }

    /// The most rows of any block, by which tiles are configured.
    #[inline(always)]
    #[cfg_attr(not(target_arch = "x86_64"), allow(dead_code))]
    pub(super) fn most(self) -> usize {
        self.rows.div_ceil(self.count)
    }

    /// The first row of block `b`. For the number of blocks, this is the number of rows.
    #[inline(always)]
    pub(super) fn first(self, b: usize) -> usize {
        b * self.rows / self.count
    }
}

/// Rows from which tiles of AMX are faster: 1.1 times VNNI at 16, 1.25 at 64, 0.8 at 8.
const AMX_ROWS: usize = 13;

/// Multiplies `x: [rows, inputs]` by the weights into `out`. The caller has checked the lengths,
/// and there are at least one row and one output.
pub(super) fn forward<F: Blocks>(
    inputs: usize,
    weights: &[u8],
    cpu: Cpu,
    scratch: &mut LinearScratch,
    x: &[f32],
    out: Out<'_>,
) {
    let groups = inputs / GROUP;
    let rows = out.rows;
    scratch.reserve_groups(rows, inputs);
    let tiles = cpu.isa.tiles() && rows >= AMX_ROWS;
    let isa = cpu.isa;
    let most = if tiles { 16 } else { isa.int8_rows() };
    let blocks = RowBlocks::new(rows, most);
    let (bytes, scales) = (&mut scratch.bytes[..], &mut scratch.scales[..]);
    let (bytes, scales) = (SharedOut::new(bytes), SharedOut::new(scales));
    // Quantising takes about ten operations per value.
    let work = 10 * (rows * inputs) as u64;
    let tasks = cpu.parallel.tasks_for(work).min(blocks.count);
    cpu.parallel.for_each(tasks, work, |task| {
        isa.run_int8(Quantize {
            groups,
            x,
            bytes,
            scales,
            blocks,
            range: task * blocks.count / tasks..(task + 1) * blocks.count / tasks,
        });
    });

    let panels = out.outputs.div_ceil(PANEL);
    // Bytes are multiplied about four times as fast as float32, so their work counts a quarter.
    let work = (rows * inputs * out.outputs / 2) as u64;
    let row_tasks = cpu
        .parallel
        .row_tasks(rows, weights.len(), work)
        .min(blocks.count);
    let panel_tasks = cpu.parallel.tasks_for(work).div_ceil(row_tasks).min(panels);
    let (bytes, scales) = (&scratch.bytes[..], &scratch.scales[..]);
    cpu.parallel
        .for_each(row_tasks * panel_tasks, work, |task| {
            let (r, p) = (task / panel_tasks, task % panel_tasks);
            isa.run_int8(Tile::<F> {
                groups,
                weights,
                bytes,
                scales,
                out,
                tiles,
                blocks,
                range: r * blocks.count / row_tasks..(r + 1) * blocks.count / row_tasks,
                panels: p * panels / panel_tasks..(p + 1) * panels / panel_tasks,
                format: PhantomData,
            });
        });
}
