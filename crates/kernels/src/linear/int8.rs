//! Weights of 8 bits in groups of 32 with a scale, and inputs quantised the same way.

use super::int8_tile::{Quantize, Tile};
use super::out::Out;
use super::{PANEL, packing_work};
use crate::Cpu;
use crate::buffer::AlignedBuf;
use crate::parallel::{Parallel, SharedOut};

/// Values that share a scale.
pub(super) const GROUP: usize = 32;

/// Bytes of a group of inputs in a panel: 32 scales, one for each output, then for each four inputs
/// four bytes of each output.
pub(super) const GROUP_BYTES: usize = 2 * PANEL + GROUP * PANEL;

/// 32 neighbouring weights of an output: `scale * values`. The same numbers as in a block of
/// GGUF's Q8_0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Q8Block {
    /// float16 of IEEE 754, as bits.
    pub scale: u16,
    /// The values.
    pub values: [i8; GROUP],
}

impl Q8Block {
    /// The block nearest to 32 weights: the scale is the largest magnitude / 127, rounded to
    /// float16 (infinite where that is out of range), the values are rounded to the nearest multiple of *that*,
    /// ties to even, within -127..=127.
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

    /// Whether the scale is a finite number.
    #[must_use]
    pub fn is_finite(&self) -> bool {
        half::f16::from_bits(self.scale).is_finite()
    }

    /// Writes the weights.
    ///
    /// # Panics
    /// If there is not room for 32.
    pub fn widen(&self, weights: &mut [f32]) {
        assert_eq!(weights.len(), GROUP);
        let scale = half::f16::from_bits(self.scale).to_f32();
        for (w, value) in weights.iter_mut().zip(self.values) {
            *w = f32::from(value) * scale;
        }
    }
}

/// 32 neighbouring inputs of a row, quantised.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub(super) struct InputBlock {
    /// Four signed bytes each, in -127..=127.
    pub(super) words: [i32; GROUP / 4],
    pub(super) scale: f32,
    /// -128 times the sum of the bytes.
    pub(super) offset: i32,
}

const EMPTY: InputBlock = InputBlock {
    words: [0; GROUP / 4],
    scale: 0.0,
    offset: 0,
};

/// Where int8 layers keep their quantised inputs during a call. It grows to the largest call.
#[derive(Debug, Default)]
pub struct LinearScratch(Vec<InputBlock>);

impl LinearScratch {
    /// One that calls of up to `rows` rows of `inputs` values need not enlarge.
    #[must_use]
    pub fn new(rows: usize, inputs: usize) -> Self {
        Self(vec![EMPTY; rows * inputs.div_ceil(GROUP)])
    }

    /// Bytes for so many rows of so many values.
    #[must_use]
    pub fn bytes_for(rows: usize, inputs: usize) -> usize {
        (size_of::<InputBlock>() * inputs.div_ceil(GROUP)).saturating_mul(rows)
    }

    /// Bytes that it holds.
    #[must_use]
    pub fn bytes(&self) -> usize {
        size_of::<InputBlock>() * self.0.len()
    }
}

/// Bytes of the panels of a layer.
pub(super) fn bytes_for(inputs: usize, outputs: usize) -> usize {
    outputs.div_ceil(PANEL) * (inputs / GROUP) * GROUP_BYTES
}

/// Where byte `k` of output `n` of a panel lies in its group.
fn place(n: usize, k: usize) -> usize {
    2 * PANEL + k / 4 * (4 * PANEL) + 4 * n + k % 4
}

pub(super) fn pack(
    parallel: Parallel<'_>,
    inputs: usize,
    outputs: usize,
    row: impl Fn(usize, &mut [Q8Block]) + Sync,
) -> AlignedBuf<u8> {
    assert!(inputs.is_multiple_of(GROUP), "rows of whole groups");
    let groups = inputs / GROUP;
    let mut panels = AlignedBuf::zeroed(bytes_for(inputs, outputs));
    let panel_bytes = (groups * GROUP_BYTES).max(1);
    let work = packing_work(inputs, outputs);
    parallel.for_pieces(&mut panels, panel_bytes, work, |p, panel| {
        let empty = Q8Block {
            scale: 0,
            values: [0; GROUP],
        };
        let mut blocks = vec![empty; groups];
        for n in 0..PANEL.min(outputs - p * PANEL) {
            row(p * PANEL + n, &mut blocks);
            for (block, group) in blocks.iter().zip(panel.chunks_exact_mut(GROUP_BYTES)) {
                group[2 * n..][..2].copy_from_slice(&block.scale.to_ne_bytes());
                for (k, value) in block.values.iter().enumerate() {
                    group[place(n, k)] = value.cast_unsigned() ^ 0x80;
                }
            }
        }
    });
    panels
}

/// Row `n` of the weights of a layer of `inputs`.
pub(super) fn unpack(panels: &[u8], inputs: usize, n: usize, row: &mut [f32]) {
    let panel_bytes = inputs / GROUP * GROUP_BYTES;
    let (panel, n) = (&panels[n / PANEL * panel_bytes..][..panel_bytes], n % PANEL);
    let groups = panel.chunks_exact(GROUP_BYTES);
    for (weights, group) in row.chunks_exact_mut(GROUP).zip(groups) {
        Q8Block {
            scale: u16::from_ne_bytes([group[2 * n], group[2 * n + 1]]),
            values: std::array::from_fn(|k| (group[place(n, k)] ^ 0x80).cast_signed()),
        }
        .widen(weights);
    }
}

/// A layer's weights, to be multiplied.
pub(super) struct Layer<'a> {
    pub(super) inputs: usize,
    pub(super) panels: &'a [u8],
}

/// How rows are cut into register blocks: evenly, so that 16 rows are 6, 5 and 5.
#[derive(Clone, Copy)]
pub(super) struct Blocks {
    rows: usize,
    count: usize,
}

impl Blocks {
    fn new(rows: usize, most: usize) -> Self {
        Self {
            rows,
            count: rows.div_ceil(most),
        }
    }

    /// The first row of block `b`; one more than the last block gives the end.
    #[inline(always)]
    pub(super) fn first(self, b: usize) -> usize {
        b * self.rows / self.count
    }
}

impl Layer<'_> {
    /// `x: [rows, inputs]` to `out`, with lengths that the caller has checked; there is at least
    /// one row and one output.
    pub(super) fn forward(&self, cpu: Cpu, scratch: &mut LinearScratch, x: &[f32], out: Out<'_>) {
        let groups = self.inputs / GROUP;
        let rows = out.rows;
        let needed = rows * groups;
        if scratch.0.len() < needed {
            scratch.0.resize(needed, EMPTY);
        }
        let blocks = Blocks::new(rows, cpu.isa.int8_rows());
        let quantized = SharedOut::new(&mut scratch.0[..needed]);
        // Ten operations a value.
        let work = 10 * (rows * self.inputs) as u64;
        let tasks = cpu.parallel.tasks_for(work).min(blocks.count);
        cpu.parallel.for_each(tasks, work, |task| {
            cpu.isa.run_int8(Quantize {
                groups,
                x,
                to: quantized,
                blocks,
                range: task * blocks.count / tasks..(task + 1) * blocks.count / tasks,
            });
        });

        let panels = out.outputs.div_ceil(PANEL);
        // About four times as fast as float32's.
        let work = (rows * self.inputs * out.outputs / 2) as u64;
        let row_tasks = cpu
            .parallel
            .row_tasks(rows, self.panels.len(), work)
            .min(blocks.count);
        let panel_tasks = cpu.parallel.tasks_for(work).div_ceil(row_tasks).min(panels);
        let quantized = &scratch.0[..needed];
        cpu.parallel
            .for_each(row_tasks * panel_tasks, work, |task| {
                let (r, p) = (task / panel_tasks, task % panel_tasks);
                cpu.isa.run_int8(Tile {
                    groups,
                    weights: self.panels,
                    x: quantized,
                    out,
                    blocks,
                    range: r * blocks.count / row_tasks..(r + 1) * blocks.count / row_tasks,
                    panels: p * panels / panel_tasks..(p + 1) * panels / panel_tasks,
                });
            });
    }
}
