//! Register blocks of layers whose weights and inputs are multiplied as bytes.

use std::marker::PhantomData;

use super::PANEL;
#[cfg(target_arch = "x86_64")]
use super::amx_tile::Sums;
use super::blocks::{self, Blocks, CHUNK, GROUP, Scales, WIDE};
use super::int8::RowBlocks;
use super::out::Out;
use super::scratch::{InputBytes, InputScale};
use crate::isa::Int8Task;
use crate::parallel::{SharedOut, TASK_ROWS};
#[cfg(target_arch = "x86_64")]
use crate::simd::amx::Tiles;
use crate::simd::{Int8, LANES, Simd, prefetch};

/// Bytes of a cache line.
const LINE: usize = 64;

/// Quantises rows of float32 into groups of bytes. The groups of a register block are adjacent:
/// first the first group of each row, then the second group of each row. The inner loop therefore
/// reads at constant distances.
pub(super) struct Quantize<'a> {
    pub(super) groups: usize,
    pub(super) x: &'a [f32],
    /// Room for the groups of all rows. Tasks write different rows.
    pub(super) bytes: SharedOut<InputBytes>,
    pub(super) scales: SharedOut<InputScale>,
    pub(super) blocks: RowBlocks,
    /// The register blocks of this task.
    pub(super) range: std::ops::Range<usize>,
}

impl Int8Task for Quantize<'_> {
    #[inline(always)]
    fn run<I: Int8>(self, i: I) {
        let s = i.floats();
        for b in self.range {
            let (first, end) = (self.blocks.first(b), self.blocks.first(b + 1));
            for row in first..end {
                let x = &self.x[row * self.groups * GROUP..][..self.groups * GROUP];
                for (g, values) in x.as_chunks().0.iter().enumerate() {
                    let at = first * self.groups + g * (end - first) + row - first;
                    let (bytes, scale) = quantize(s, values);
                    // SAFETY: one of `rows * groups` groups, and of a row of this task.
                    unsafe {
                        self.bytes.get().add(at).write(bytes);
                        self.scales.get().add(at).write(scale);
                    }
                }
            }
        }
    }
}

/// Quantises a group of inputs. The scale is the largest magnitude / 127, and the bytes are rounded
/// to the nearest (ties to even). A group with an infinite or NaN value gets the scale NaN.
#[inline(always)]
fn quantize<S: Simd>(s: S, x: &[f32; GROUP]) -> (InputBytes, InputScale) {
    // SAFETY: two vectors of sixteen.
    let x = unsafe { [s.load(x.as_ptr()), s.load(x.as_ptr().add(LANES))] };
    let largest = f32::from_bits(s.largest(x));
    if !largest.is_finite() {
        let scales = InputScale {
            scale: f32::NAN,
            sum: f32::NAN,
            ..InputScale::default()
        };
        return (InputBytes([0; GROUP / 4]), scales);
    }
    let (scale, inverse) = if largest < f32::MIN_POSITIVE * 128.0 {
        // The inverse could be infinite. Values of this size do not matter, so they become 0.
        (0.0, 0.0)
    } else {
        (largest / 127.0, 127.0 / largest)
    };
    let inverse = s.splat(inverse);
    let (low, first) = s.to_bytes(s.mul(x[0], inverse));
    let (high, second) = s.to_bytes(s.mul(x[1], inverse));
    let mut words = [0; GROUP / 4];
    let (lower, upper) = words.split_at_mut(GROUP / 8);
    for (words, bytes) in [(lower, low), (upper, high)] {
        for (word, bytes) in words.iter_mut().zip(bytes.as_chunks().0) {
            *word = i32::from_ne_bytes(*bytes);
        }
    }
    let scales = InputScale {
        scale,
        sum: scale * (first + second) as f32,
        offset: -128 * (first + second),
        first_offset: -128 * first,
    };
    (InputBytes(words), scales)
}

/// Some register blocks of rows by some panels of a layer.
pub(super) struct Tile<'a, F: Blocks> {
    pub(super) groups: usize,
    pub(super) weights: &'a [u8],
    /// The quantised inputs of all rows, and 16 more groups that a tile may read.
    pub(super) bytes: &'a [InputBytes],
    pub(super) scales: &'a [InputScale],
    pub(super) out: Out<'a>,
    /// Whether register blocks are multiplied by tiles of AMX, which this machine has.
    #[cfg_attr(not(target_arch = "x86_64"), allow(dead_code))]
    pub(super) tiles: bool,
    pub(super) blocks: RowBlocks,
    /// The register blocks of this task: up to `TASK_ROWS` rows.
    pub(super) range: std::ops::Range<usize>,
    pub(super) panels: std::ops::Range<usize>,
    pub(super) format: PhantomData<F>,
}

/// Some groups of a panel as bytes and float32.
struct Chunk {
    scales: [Scales; CHUNK],
    bytes: [[u8; WIDE]; CHUNK],
}

/// The address of a chunk's weights as bytes, and the distance from group to group.
#[derive(Clone, Copy)]
pub(super) struct Bytes {
    first: *const u8,
    stride: usize,
}

impl Bytes {
    #[inline(always)]
    pub(super) fn group(self, g: usize) -> *const u8 {
        self.first.wrapping_add(g * self.stride)
    }
}

/// One register block of rows, and the chunk by which it is multiplied.
pub(super) struct Part<'a> {
    /// The first row of the block, and its number of rows.
    pub(super) first: usize,
    pub(super) rows: usize,
    /// The first output of the panel.
    pub(super) output: usize,
    /// The first group of the chunk, and the group after the last.
    pub(super) from: usize,
    pub(super) to: usize,
    pub(super) bytes: Bytes,
    pub(super) scales: &'a [Scales; CHUNK],
    /// Sums over the groups before `from`; after the multiplication, over the groups before `to`.
    pub(super) partial: &'a mut [[f32; PANEL]],
    pub(super) ahead: Ahead,
}

/// The memory to prefetch. Each group of a part prefetches `lines` cache lines.
#[derive(Clone, Copy)]
pub(super) struct Ahead {
    from: *const u8,
    lines: usize,
}

impl Ahead {
    #[inline(always)]
    pub(super) fn fetch(&mut self) {
        for _ in 0..self.lines {
            prefetch(self.from);
            self.from = self.from.wrapping_add(LINE);
        }
    }
}

impl Chunk {
    /// Unpacks groups of a panel.
    #[inline(always)]
    fn fill<F: Blocks, S: Simd>(&mut self, s: S, panel: &[u8], from: usize, to: usize) -> Bytes {
        for g in from..to {
            let (group, header) = blocks::place::<F>(g);
            let group = &panel[group..][..F::GROUP];
            F::scales(s, &panel[header..], group, &mut self.scales[g - from]);
            if F::IN_PLACE.is_none() {
                F::bytes(group, &mut self.bytes[g - from]);
            }
        }
        match F::IN_PLACE {
            Some(at) => Bytes {
                // Formats that are used in place have no headers, so all groups are equally far
                // apart.
                first: panel.as_ptr().wrapping_add(from * F::GROUP + at),
                stride: F::GROUP,
            },
            None => Bytes {
                first: self.bytes.as_ptr().cast(),
                stride: WIDE,
            },
        }
    }
}

impl<F: Blocks> Int8Task for Tile<'_, F> {
    #[inline(always)]
    fn run<I: Int8>(self, i: I) {
        // SAFETY: `tiles` is set only on machines that have tiles.
        #[cfg(target_arch = "x86_64")]
        let tiles = self
            .tiles
            .then(|| unsafe { Tiles::new(self.blocks.most(), GROUP / F::HALVES) });
        #[cfg(target_arch = "x86_64")]
        let mut sums = [Sums::ZERO; 2];
        let mut chunk = Chunk {
            scales: [Scales::EMPTY; CHUNK],
            bytes: [[0; WIDE]; CHUNK],
        };
        let mut partial = [[0.0; PANEL]; TASK_ROWS];
        let task = self.blocks.first(self.range.start);
        let panel_bytes = blocks::panel_bytes::<F>(self.groups);
        let turns = self.range.len();
        // Each turn prefetches an equal share of the next chunk, because a core can wait for only a
        // few lines at a time.
        let lines = (F::GROUP / LINE).div_ceil(turns);
        for panel in self.panels.clone() {
            let weights = &self.weights[panel * panel_bytes..][..panel_bytes];
            let mut from = 0;
            loop {
                let to = self.groups.min(from + CHUNK);
                let bytes = chunk.fill::<F, _>(i.floats(), weights, from, to);
                for (turn, b) in self.range.clone().enumerate() {
                    let (first, end) = (self.blocks.first(b), self.blocks.first(b + 1));
                    let next = to * F::GROUP + turn * lines * LINE * (to - from);
                    let part = Part {
                        first,
                        rows: end - first,
                        output: panel * PANEL,
                        from,
                        to,
                        bytes,
                        scales: &chunk.scales,
                        partial: &mut partial[first - task..end - task],
                        ahead: Ahead {
                            from: weights.as_ptr().wrapping_add(next),
                            lines,
                        },
                    };
                    #[cfg(target_arch = "x86_64")]
                    if I::TILES
                        && let Some(tiles) = &tiles
                    {
                        match end - first {
                            0..=8 => self.tile_block::<I, 8>(i, tiles, &mut sums, part),
                            9..=12 => self.tile_block::<I, 12>(i, tiles, &mut sums, part),
                            _ => self.tile_block::<I, 16>(i, tiles, &mut sums, part),
                        }
                        continue;
                    }
                    self.registers(i, part);
                }
                if to == self.groups {
                    break;
                }
                from = to;
            }
        }
    }
}

/// `MR` rows by a panel.
struct Panel<'a, F: Blocks, const MR: usize>(&'a Tile<'a, F>, Part<'a>);

impl<F: Blocks, const MR: usize> Int8Task for Panel<'_, F, MR> {
    #[inline(always)]
    fn run<I: Int8>(mut self, i: I) {
        self.0.block::<I, MR, 2, 0>(i, &mut self.1);
    }
}

/// `MR` rows by one half of a panel, then by the other.
struct Halves<'a, F: Blocks, const MR: usize>(&'a Tile<'a, F>, Part<'a>);

impl<F: Blocks, const MR: usize> Int8Task for Halves<'_, F, MR> {
    #[inline(always)]
    fn run<I: Int8>(mut self, i: I) {
        self.0.block::<I, MR, 1, 0>(i, &mut self.1);
        // The first half of the panel has already prefetched everything.
        self.1.ahead.lines = 0;
        self.0.block::<I, MR, 1, 1>(i, &mut self.1);
    }
}

impl<F: Blocks> Tile<'_, F> {
    #[inline(always)]
    fn registers<I: Int8>(&self, i: I, part: Part<'_>) {
        if I::Floats::WIDE {
            // With 16 registers, a whole panel fits only for one row. For more rows, the two halves
            // of a panel are multiplied one after the other.
            match part.rows {
                1 => i.call(Panel::<F, 1>(self, part)),
                2 => i.call(Panel::<F, 2>(self, part)),
                3 => i.call(Panel::<F, 3>(self, part)),
                4 => i.call(Panel::<F, 4>(self, part)),
                5 => i.call(Panel::<F, 5>(self, part)),
                _ => i.call(Panel::<F, 6>(self, part)),
            }
        } else {
            match part.rows {
                1 => i.call(Panel::<F, 1>(self, part)),
                2 => i.call(Halves::<F, 2>(self, part)),
                _ => i.call(Halves::<F, 3>(self, part)),
            }
        }
    }

    /// Multiplies a register block of `MR` rows by `NV` vectors of outputs, from vector `HALF` of
    /// the panel on. Every output is a sum over the groups in their order. A term is the product of
    /// both scales (rounded) times the exact sum of the products of bytes. If weights have a
    /// minimum, the minimum times the scaled sum of the inputs is added.
    #[inline(always)]
    fn block<I: Int8, const MR: usize, const NV: usize, const HALF: usize>(
        &self,
        i: I,
        part: &mut Part<'_>,
    ) {
        let f = i.floats();
        let mut sum = [[f.splat(0.0); NV]; MR];
        let partial: &mut [[f32; PANEL]; MR] = (&mut *part.partial)
            .try_into()
            .expect("a row of sums for each row");
        let lane = |v: usize| (HALF + v) * LANES;
        if part.from > 0 {
            for (sum, partial) in sum.iter_mut().zip(partial.iter()) {
                for (v, sum) in sum.iter_mut().enumerate() {
                    // SAFETY: 16 of 32 floats.
                    unsafe { *sum = f.load(partial.as_ptr().add(lane(v))) };
                }
            }
        }
        // SAFETY: the rows are a register block of this task, whose quantised inputs are adjacent;
        // the chunk has these groups.
        unsafe {
            let at = part.first * self.groups + part.from * MR;
            let (mut x, mut xs) = (self.bytes.as_ptr().add(at), self.scales.as_ptr().add(at));
            // `black_box` hides this number from the compiler. Otherwise it would unroll the steps,
            // start with everything that belongs to a row, and run out of registers.
            let steps = std::hint::black_box(GROUP / 4 / F::HALVES);
            for g in 0..part.to - part.from {
                part.ahead.fetch();
                let scales = part.scales.get_unchecked(g);
                let mut whole = [[f.splat(0.0); NV]; MR];
                for h in 0..F::HALVES {
                    let mut dots = [[i.start(0); NV]; MR];
                    for (r, dots) in dots.iter_mut().enumerate() {
                        let x = &*xs.add(r);
                        let offset = match (F::HALVES, h) {
                            (1, _) => x.offset,
                            (_, 0) => x.first_offset,
                            _ => x.offset - x.first_offset,
                        };
                        *dots = [i.start(offset); NV];
                    }
                    for step in h * steps..(h + 1) * steps {
                        let bytes = part.bytes.group(g).add(step * 4 * PANEL + HALF * 4 * LANES);
                        let mut weights = [i.load_bytes(bytes); NV];
                        for (v, weights) in weights.iter_mut().enumerate() {
                            *weights = i.load_bytes(bytes.add(v * 4 * LANES));
                        }
                        for (r, dots) in dots.iter_mut().enumerate() {
                            let x = *(*x.add(r)).0.get_unchecked(step);
                            for (dot, weights) in dots.iter_mut().zip(weights) {
                                *dot = i.dot(*dot, weights, x);
                            }
                        }
                    }
                    for (whole, dots) in whole.iter_mut().zip(dots) {
                        for (v, (whole, dot)) in whole.iter_mut().zip(dots).enumerate() {
                            let dot = i.to_floats(dot);
                            *whole = if F::HALVES == 1 {
                                dot
                            } else {
                                // Whole numbers below 2^24: exact.
                                let sub = f.load(scales.sub[h].as_ptr().add(lane(v)));
                                f.fma(sub, dot, *whole)
                            };
                        }
                    }
                }
                for v in 0..NV {
                    let scale = f.load(scales.scale.as_ptr().add(lane(v)));
                    let min = f.load(scales.min.as_ptr().add(lane(v)));
                    for r in 0..MR {
                        let x = &*xs.add(r);
                        let scale = f.mul(scale, f.splat(x.scale));
                        sum[r][v] = f.fma(scale, whole[r][v], sum[r][v]);
                        if F::MIN {
                            sum[r][v] = f.fma(min, f.splat(x.sum), sum[r][v]);
                        }
                    }
                }
                (x, xs) = (x.add(MR), xs.add(MR));
            }
            if part.to == self.groups {
                // The task has these rows and panels, and no other task has both, as `finish`
                // requires.
                self.out
                    .finish(f, sum, part.first, part.output + HALF * LANES);
                return;
            }
            for (sum, partial) in sum.iter().zip(partial.iter_mut()) {
                for (v, sum) in sum.iter().enumerate() {
                    f.store(partial.as_mut_ptr().add(lane(v)), *sum);
                }
            }
        }
    }
}
