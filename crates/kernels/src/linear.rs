//! `y = x Wᵀ + b`, with the weights packed once for the register block.

#[cfg(target_arch = "x86_64")]
mod amx_tile;
mod blocks;
mod format;
mod int8;
mod int8_tile;
mod out;
#[cfg(any(test, all(target_arch = "x86_64", target_os = "linux")))]
mod pair_amx;
mod pair_tile;
mod scratch;
mod tile;

use crate::Cpu;
use crate::buffer::AlignedBuf;
use crate::parallel::{Parallel, SharedOut};
#[cfg(all(target_arch = "x86_64", target_os = "linux"))]
use crate::simd::tiles::Amx;
pub use blocks::scale_min;
pub use format::WeightFormat;
use format::{
    Bf16, F16, F32, Pair, Pairs, Panels, Product, RoundPairs, Stored, WidePairs, round_pairs,
    unpack, unpack_pairs, with_blocks,
};
pub use int8::Q8Block;
use out::Out;
#[cfg(all(target_arch = "x86_64", target_os = "linux"))]
use pair_amx::ByTiles;
use pair_tile::TileOrder;
pub use scratch::{LinearScratch, WidestInputs};
use tile::Tile;

/// Outputs of a panel: two AVX-512 registers.
const PANEL: usize = 32;

/// Weights `[N, K]` of a linear layer as panels `[N/32][K][32]`, the last panel filled up with
/// zeros, and an optional bias `[N]`.
///
/// Weights in float32, bfloat16 or float16 become float32 on their way into registers. Every output
/// is a sum over `k = 0..K` in that order, one fused multiply-add after the other (where the
/// machine has it), then the bias. This holds for every number of rows and each of these formats.
/// Layers of pairs ([`WeightFormat::is_pairs`]) sum pair by pair of inputs, and layers in blocks
/// ([`WeightFormat::is_blocks`]) group by group, also in fixed orders.
#[derive(Debug)]
pub struct PackedLinear {
    inputs: usize,
    outputs: usize,
    panels: Panels,
    bias: Option<AlignedBuf>,
}

/// The way in which a finished output is written to `y`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Epilogue {
    /// Replaces the value in `y`.
    Store,
    /// Adds the output to the value in `y` (a residual connection).
    Add,
}

impl PackedLinear {
    /// Packs `outputs` rows of `inputs` weights; `row(n, buffer)` writes row `n`. Weights that
    /// `format` cannot represent are rounded ([`WeightFormat::round`]).
    ///
    /// # Panics
    /// If the format is int8 and `inputs` is not a multiple of 32, or if the format has blocks that
    /// only [`pack_blocks`](Self::pack_blocks) takes.
    #[must_use]
    pub fn pack(
        parallel: Parallel<'_>,
        inputs: usize,
        outputs: usize,
        format: WeightFormat,
        row: impl Fn(usize, &mut [f32]) + Sync,
    ) -> Self {
        let panels = match format {
            WeightFormat::F32 => Panels::F32(pack::<F32>(parallel, inputs, outputs, row)),
            WeightFormat::Bf16 => Panels::Bf16(pack::<Bf16>(parallel, inputs, outputs, row)),
            WeightFormat::F16 => Panels::F16(pack::<F16>(parallel, inputs, outputs, row)),
            WeightFormat::Bf16Pairs | WeightFormat::Bf16Tiles => Panels::Pairs(
                format,
                pack_pairs(parallel, inputs, format.pairs(inputs), outputs, row),
            ),
            WeightFormat::Int8 => {
                return Self::pack_blocks(parallel, inputs, outputs, format, |n, bytes| {
                    let mut weights = vec![0.0; inputs];
                    row(n, &mut weights);
                    for (block, weights) in
                        bytes.as_chunks_mut().0.iter_mut().zip(weights.chunks(32))
                    {
                        *block = Q8Block::quantize(weights).to_bytes();
                    }
                });
            }
            kept => panic!("{kept:?} cannot be made from floats: use `pack_blocks`"),
        };
        Self {
            inputs,
            outputs,
            panels,
            bias: None,
        }
    }

    /// Packs a layer in a format of quantised blocks; `row(n, bytes)` writes the blocks of row `n`
    /// as in a GGUF file. The blocks' numbers are kept unchanged.
    ///
    /// # Panics
    /// If `format` has no blocks, or `inputs` is not a multiple of the values in a block.
    #[must_use]
    pub fn pack_blocks(
        parallel: Parallel<'_>,
        inputs: usize,
        outputs: usize,
        format: WeightFormat,
        row: impl Fn(usize, &mut [u8]) + Sync,
    ) -> Self {
        let bytes = with_blocks!(format, F => int8::pack::<F>(parallel, inputs, outputs, row), {
            panic!("{format:?} has no blocks")
        });
        Self {
            inputs,
            outputs,
            panels: Panels::Blocks(format, bytes),
            bias: None,
        }
    }

    /// Packs row-major `weight: [outputs, inputs]` on the calling thread.
    ///
    /// # Panics
    /// If the length is not `outputs * inputs`.
    #[must_use]
    pub fn from_rows(weight: &[f32], inputs: usize, outputs: usize, format: WeightFormat) -> Self {
        assert_eq!(weight.len(), inputs * outputs);
        Self::pack(Parallel::serial(), inputs, outputs, format, |n, row| {
            row.copy_from_slice(&weight[n * inputs..][..inputs]);
        })
    }

    /// Adds a bias of one value per output. The bias is added to the sums before the epilogue.
    ///
    /// # Panics
    /// If `bias` does not have one value per output.
    #[must_use]
    pub fn with_bias(mut self, bias: &[f32]) -> Self {
        assert_eq!(bias.len(), self.outputs);
        // The kernels load the bias in whole vectors, so it is padded to whole panels.
        let mut padded = AlignedBuf::zeroed(self.outputs.div_ceil(PANEL) * PANEL);
        padded[..bias.len()].copy_from_slice(bias);
        self.bias = Some(padded);
        self
    }

    /// Values of an input row, `K`.
    #[must_use]
    pub fn inputs(&self) -> usize {
        self.inputs
    }

    /// Values of an output row, `N`.
    #[must_use]
    pub fn outputs(&self) -> usize {
        self.outputs
    }

    /// The format that the weights were packed in.
    #[must_use]
    pub fn format(&self) -> WeightFormat {
        match self.panels {
            Panels::F32(_) => WeightFormat::F32,
            Panels::Bf16(_) => WeightFormat::Bf16,
            Panels::F16(_) => WeightFormat::F16,
            Panels::Pairs(format, _) | Panels::Blocks(format, _) => format,
        }
    }

    /// The bytes of a packed layer of this shape. Outputs are padded to a multiple of 32.
    #[must_use]
    pub fn bytes_for(inputs: usize, outputs: usize, format: WeightFormat, bias: bool) -> usize {
        let padded = outputs.next_multiple_of(PANEL);
        let weights = match format {
            WeightFormat::F32 => 4 * padded * inputs,
            WeightFormat::Bf16 | WeightFormat::F16 => 2 * padded * inputs,
            WeightFormat::Bf16Pairs | WeightFormat::Bf16Tiles => 4 * padded * format.pairs(inputs),
            blocks => with_blocks!(blocks, F => int8::bytes_for::<F>(inputs, outputs), 0),
        };
        weights + if bias { 4 * padded } else { 0 }
    }

    /// The bytes of the packed weights and the bias, padding included.
    #[must_use]
    pub fn bytes(&self) -> usize {
        let weights = match &self.panels {
            Panels::F32(words) => size_of_val::<[f32]>(words),
            Panels::Bf16(words) | Panels::F16(words) => size_of_val::<[u16]>(words),
            Panels::Pairs(_, words) => size_of_val::<[u32]>(words),
            Panels::Blocks(_, bytes) => bytes.len(),
        };
        weights + 4 * self.bias.as_ref().map_or(0, |b| b.len())
    }

    /// The weights of output `n`, unpacked (an embedding row).
    ///
    /// # Panics
    /// If `n` is not an output or `row` is not `inputs` long.
    pub fn weight_row(&self, n: usize, row: &mut [f32]) {
        assert!(n < self.outputs && row.len() == self.inputs);
        match &self.panels {
            Panels::F32(words) => unpack::<F32>(words, self.inputs, n, row),
            Panels::Bf16(words) => unpack::<Bf16>(words, self.inputs, n, row),
            Panels::F16(words) => unpack::<F16>(words, self.inputs, n, row),
            Panels::Pairs(format, words) => {
                unpack_pairs(words, format.pairs(self.inputs), n, row);
            }
            Panels::Blocks(format, bytes) => {
                with_blocks!(*format, F => blocks::unpack::<F>(bytes, self.inputs, n, row), ());
            }
        }
    }

    /// Computes `y: [M, outputs]` from `x: [M, inputs]`, both row-major without gaps. Layers in
    /// blocks and in pairs use `scratch`, for their converted inputs.
    ///
    /// # Panics
    /// If the lengths disagree.
    pub fn forward(
        &self,
        cpu: Cpu,
        scratch: &mut LinearScratch,
        x: &[f32],
        y: &mut [f32],
        epilogue: Epilogue,
    ) {
        // Without outputs the number of rows is unknown, and the division below would panic.
        if self.outputs == 0 || y.is_empty() {
            assert!(y.is_empty());
            return;
        }
        assert!(y.len().is_multiple_of(self.outputs));
        let rows = y.len() / self.outputs;
        assert_eq!(x.len(), rows * self.inputs);
        let out = Out {
            y: SharedOut::new(y),
            rows,
            outputs: self.outputs,
            bias: self.bias.as_deref(),
            epilogue,
        };
        match &self.panels {
            Panels::F32(words) => self.run::<F32>(words, self.inputs, cpu, x, out),
            Panels::Bf16(words) => self.run::<Bf16>(words, self.inputs, cpu, x, out),
            Panels::F16(words) => self.run::<F16>(words, self.inputs, cpu, x, out),
            Panels::Pairs(format, words) => {
                let width = format.pairs(self.inputs);
                let count = rows * width;
                let isa = cpu.isa;
                match (*format, isa.tiles(), isa.bf16()) {
                    #[cfg(all(target_arch = "x86_64", target_os = "linux"))]
                    (WeightFormat::Bf16Tiles, true, _) => {
                        let pairs = self.round(cpu, x, width, scratch.pairs(count));
                        self.split(words, width, cpu, pairs, out, |tile| {
                            isa.run(ByTiles {
                                tile,
                                registers: Amx,
                            });
                        });
                    }
                    (WeightFormat::Bf16Tiles, ..) => {
                        let pairs = self.round(cpu, x, width, scratch.wide_pairs(count));
                        self.split(words, width, cpu, pairs, out, |tile| {
                            isa.run(TileOrder(tile));
                        });
                    }
                    (_, _, true) => {
                        let pairs = self.round(cpu, x, width, scratch.pairs(count));
                        self.run::<Pairs>(words, width, cpu, pairs, out);
                    }
                    (_, _, false) => {
                        let pairs = self.round(cpu, x, width, scratch.wide_pairs(count));
                        self.run::<WidePairs>(words, width, cpu, pairs, out);
                    }
                }
            }
            Panels::Blocks(format, bytes) => {
                let inputs = self.inputs;
                with_blocks!(*format, F => int8::forward::<F>(inputs, bytes, cpu, scratch, x, out), ());
            }
        }
    }

    /// Rounds all rows of inputs to pairs of bfloat16, `width` in a row. Returns `pairs`.
    fn round<'p, P: Pair + Send>(
        &self,
        cpu: Cpu,
        x: &[f32],
        width: usize,
        pairs: &'p mut [P],
    ) -> &'p [P] {
        let inputs = self.inputs;
        // Rounding a value takes as long as twenty operations.
        let work = 20 * x.len() as u64;
        let rows = pairs.len() / width.max(1);
        let run = rows.div_ceil(cpu.parallel.tasks_for(work)).max(1);
        cpu.parallel
            .for_pieces(pairs, (run * width).max(1), work, |i, pairs| {
                let x = &x[i * run * inputs..][..pairs.len() / width * inputs];
                cpu.isa.run(RoundPairs {
                    inputs,
                    width,
                    x,
                    pairs,
                });
            });
        pairs
    }

    /// Multiplies rows of `width` words.
    fn run<W: Product>(
        &self,
        words: &[W::Word],
        width: usize,
        cpu: Cpu,
        x: &[W::Input],
        out: Out<'_>,
    ) {
        self.split::<W>(words, width, cpu, x, out, |tile| W::run(cpu.isa, tile));
    }

    /// Calls `multiply` for parts of the product that differ in rows or in panels.
    fn split<W: Product>(
        &self,
        words: &[W::Word],
        width: usize,
        cpu: Cpu,
        x: &[W::Input],
        out: Out<'_>,
        multiply: impl Fn(Tile<'_, W>) + Sync,
    ) {
        let rows = out.rows;
        let panels = self.outputs.div_ceil(PANEL);
        let work = 2 * (rows * self.inputs * self.outputs) as u64;
        let row_tasks = cpu.parallel.row_tasks(rows, self.bytes(), work);
        // If the rows make too few tasks, the panels are split, too.
        let panel_tasks = cpu.parallel.tasks_for(work).div_ceil(row_tasks).min(panels);
        cpu.parallel
            .for_each(row_tasks * panel_tasks, work, |task| {
                let (r, p) = (task / panel_tasks, task % panel_tasks);
                multiply(Tile {
                    width,
                    weights: words,
                    x,
                    // Tasks have different rows or different panels.
                    out,
                    rows: r * rows / row_tasks..(r + 1) * rows / row_tasks,
                    panels: p * panels / panel_tasks..(p + 1) * panels / panel_tasks,
                });
            });
    }
}

impl WidestInputs {
    /// Returns the inputs of one layer.
    #[must_use]
    pub fn of(layer: &PackedLinear) -> Self {
        let mut widest = Self::default();
        widest.include(layer.format(), layer.inputs());
        widest
    }

    /// Takes a layer of this format and number of inputs into account.
    pub fn include(&mut self, format: WeightFormat, inputs: usize) {
        if format.is_pairs() {
            self.pairs = self.pairs.max(format.pairs(inputs));
        } else if format.is_blocks() {
            self.blocks = self.blocks.max(inputs);
        }
    }
}

/// The estimated operations of packing: 16 for reading, converting and placing each weight.
fn packing_work(inputs: usize, outputs: usize) -> u64 {
    16 * (inputs * outputs) as u64
}

fn pack<W: Stored>(
    parallel: Parallel<'_>,
    inputs: usize,
    outputs: usize,
    row: impl Fn(usize, &mut [f32]) + Sync,
) -> AlignedBuf<W::Word> {
    let mut panels = AlignedBuf::zeroed(outputs.div_ceil(PANEL) * PANEL * inputs);
    let work = packing_work(inputs, outputs);
    parallel.for_pieces(&mut panels, (PANEL * inputs).max(1), work, |p, panel| {
        let mut buffer = vec![0.0; inputs];
        for n in 0..PANEL.min(outputs - p * PANEL) {
            row(p * PANEL + n, &mut buffer);
            for (w, words) in buffer.iter().zip(panel.chunks_exact_mut(PANEL)) {
                words[W::place(n)] = W::narrow(*w);
            }
        }
    });
    panels
}

fn pack_pairs(
    parallel: Parallel<'_>,
    inputs: usize,
    width: usize,
    outputs: usize,
    row: impl Fn(usize, &mut [f32]) + Sync,
) -> AlignedBuf<u32> {
    let mut panels = AlignedBuf::zeroed(outputs.div_ceil(PANEL) * PANEL * width);
    let work = packing_work(inputs, outputs);
    parallel.for_pieces(&mut panels, (PANEL * width).max(1), work, |p, panel| {
        let (mut values, mut pairs) = (vec![0.0; inputs], vec![0u32; width]);
        for n in 0..PANEL.min(outputs - p * PANEL) {
            row(p * PANEL + n, &mut values);
            round_pairs(&values, &mut pairs);
            for (pair, words) in pairs.iter().zip(panel.chunks_exact_mut(PANEL)) {
                words[n] = *pair;
            }
        }
    });
    panels
}

/// Computes one row in float64 with row-major weights. [`PackedLinear::forward`] is within 1e-6
/// times the square root of `inputs` of this result, if `x` and `weight` are rounded as the format
/// rounds them.
#[must_use]
pub fn linear_reference(x: &[f32], weight: &[f32], bias: Option<&[f32]>) -> Vec<f64> {
    weight
        .chunks_exact(x.len())
        .enumerate()
        .map(|(n, w)| {
            let dot: f64 = x
                .iter()
                .zip(w)
                .map(|(x, w)| f64::from(*x) * f64::from(*w))
                .sum();
            dot + bias.map_or(0.0, |b| f64::from(b[n]))
        })
        .collect()
}

#[cfg(test)]
mod tests;
