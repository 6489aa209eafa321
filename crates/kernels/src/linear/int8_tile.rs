//! The register blocks of int8 layers.

use super::PANEL;
use super::int8::{Blocks, GROUP, GROUP_BYTES, InputBlock};
use super::out::Out;
use crate::isa::Int8Task;
use crate::parallel::SharedOut;
use crate::simd::{Int8, LANES, Simd, prefetch};

/// Bytes of a cache line.
const LINE: usize = 64;

/// Rows of float32 to blocks of bytes. The blocks of a register block's rows lie together, for each
/// group of inputs one row after the other, so that the inner loop reads at constant distances.
pub(super) struct Quantize<'a> {
    pub(super) groups: usize,
    /// All rows.
    pub(super) x: &'a [f32],
    /// Room for the blocks of all rows. Tasks write different rows.
    pub(super) to: SharedOut<InputBlock>,
    pub(super) blocks: Blocks,
    /// The register blocks of this task.
    pub(super) range: std::ops::Range<usize>,
}

impl Int8Task for Quantize<'_> {
    #[inline(always)]
    fn run<I: Int8>(self, _: I) {
        for b in self.range {
            let (first, end) = (self.blocks.first(b), self.blocks.first(b + 1));
            for row in first..end {
                let x = &self.x[row * self.groups * GROUP..][..self.groups * GROUP];
                for (g, values) in x.as_chunks().0.iter().enumerate() {
                    let at = first * self.groups + g * (end - first) + row - first;
                    // SAFETY: one of `rows * groups` blocks, and of a row of this task.
                    unsafe { self.to.get().add(at).write(quantize(values)) };
                }
            }
        }
    }
}

/// The scale is the largest magnitude / 127, the bytes are rounded to the nearest, ties to even. A
/// group with a value that is not finite becomes NaN.
#[inline(always)]
fn quantize(x: &[f32; GROUP]) -> InputBlock {
    // Magnitudes are ordered as their bits are, NaN above all.
    let mut largest = 0;
    for x in x {
        largest = largest.max(x.to_bits() & 0x7fff_ffff);
    }
    let largest = f32::from_bits(largest);
    let (scale, inverse) = if !largest.is_finite() {
        (f32::NAN, 0.0)
    } else if largest < f32::MIN_POSITIVE * 128.0 {
        // The inverse would be infinite; nothing of that size is felt.
        (0.0, 0.0)
    } else {
        (largest / 127.0, 127.0 / largest)
    };
    // Adding it rounds to an integer, which stays in the low bits.
    const ROUND: f32 = 12_582_912.0;
    let mut bytes = [0u8; GROUP];
    let mut sum = 0i32;
    for (byte, x) in bytes.iter_mut().zip(x) {
        *byte = (x * inverse + ROUND).to_bits() as u8;
        sum += i32::from(byte.cast_signed());
    }
    let mut words = [0; GROUP / 4];
    for (word, bytes) in words.iter_mut().zip(bytes.as_chunks().0) {
        *word = i32::from_ne_bytes(*bytes);
    }
    InputBlock {
        words,
        scale,
        offset: -128 * sum,
    }
}

/// Some register blocks of rows by some panels of a layer.
pub(super) struct Tile<'a> {
    pub(super) groups: usize,
    /// The whole layer's.
    pub(super) weights: &'a [u8],
    /// All rows'.
    pub(super) x: &'a [InputBlock],
    /// All rows'.
    pub(super) out: Out<'a>,
    pub(super) blocks: Blocks,
    /// The register blocks of this task.
    pub(super) range: std::ops::Range<usize>,
    pub(super) panels: std::ops::Range<usize>,
}

impl Int8Task for Tile<'_> {
    #[inline(always)]
    fn run<I: Int8>(self, i: I) {
        // Lines of the next panel that a block fetches for each group, so that the first block need
        // not wait for memory. A block alone reads everything once: the machine sees that itself.
        let lines = match self.range.len() {
            1 => 0,
            blocks => (GROUP_BYTES / LINE).div_ceil(blocks),
        };
        for panel in self.panels.clone() {
            for b in self.range.clone() {
                let (first, end) = (self.blocks.first(b), self.blocks.first(b + 1));
                let next = (panel + 1) * GROUP_BYTES + (b - self.range.start) * lines * LINE;
                let ahead = Ahead {
                    from: self.weights.as_ptr().wrapping_add(next * self.groups),
                    lines,
                };
                if I::Floats::WIDE {
                    match end - first {
                        1 => self.block::<I, 1, 2, 0>(i, first, panel, ahead),
                        2 => self.block::<I, 2, 2, 0>(i, first, panel, ahead),
                        3 => self.block::<I, 3, 2, 0>(i, first, panel, ahead),
                        4 => self.block::<I, 4, 2, 0>(i, first, panel, ahead),
                        5 => self.block::<I, 5, 2, 0>(i, first, panel, ahead),
                        _ => self.block::<I, 6, 2, 0>(i, first, panel, ahead),
                    }
                } else {
                    match end - first {
                        1 => self.block::<I, 1, 2, 0>(i, first, panel, ahead),
                        2 => self.halves::<I, 2>(i, first, panel, ahead),
                        _ => self.halves::<I, 3>(i, first, panel, ahead),
                    }
                }
            }
        }
    }
}

/// Memory to fetch: so many lines for each group.
#[derive(Clone, Copy)]
struct Ahead {
    from: *const u8,
    lines: usize,
}

impl Tile<'_> {
    #[inline(always)]
    fn halves<I: Int8, const MR: usize>(&self, i: I, first: usize, panel: usize, ahead: Ahead) {
        self.block::<I, MR, 1, 0>(i, first, panel, ahead);
        self.block::<I, MR, 1, 1>(i, first, panel, Ahead { lines: 0, ..ahead });
    }

    /// `MR` rows from `first`, which are a register block, by `NV` vectors of outputs from vector
    /// `HALF` of `panel` on. Every output is a sum over the groups in their order, of `scale of
    /// weights * scale of inputs` (rounded) times the exact sum of the products of bytes.
    #[inline(always)]
    fn block<I: Int8, const MR: usize, const NV: usize, const HALF: usize>(
        &self,
        i: I,
        first: usize,
        panel: usize,
        mut ahead: Ahead,
    ) {
        let f = i.floats();
        let mut sum = [[f.splat(0.0); NV]; MR];
        // SAFETY: rows `first..first + MR` are a register block of this task, whose quantised
        // inputs lie together; the vectors lie in a panel of this task, which exists, and holds
        // `groups` groups.
        unsafe {
            let mut x = self.x.as_ptr().add(first * self.groups);
            let mut w = self.weights.as_ptr().add(panel * self.groups * GROUP_BYTES);
            // A number that the compiler does not know: it would unroll the steps, begin with all
            // that belongs to a row, and run out of registers.
            let steps = std::hint::black_box(GROUP / 4);
            for _ in 0..self.groups {
                for _ in 0..ahead.lines {
                    prefetch(ahead.from);
                    ahead.from = ahead.from.wrapping_add(LINE);
                }
                let mut dots = [[i.start(0); NV]; MR];
                for (r, dots) in dots.iter_mut().enumerate() {
                    *dots = [i.start((*x.add(r)).offset); NV];
                }
                for step in 0..steps {
                    let bytes = w.add(2 * PANEL + step * 4 * PANEL + HALF * 4 * LANES);
                    let mut weights = [i.load_bytes(bytes); NV];
                    for (v, weights) in weights.iter_mut().enumerate() {
                        *weights = i.load_bytes(bytes.add(v * 4 * LANES));
                    }
                    for (r, dots) in dots.iter_mut().enumerate() {
                        let x = *(*x.add(r)).words.get_unchecked(step);
                        for (dot, weights) in dots.iter_mut().zip(weights) {
                            *dot = i.dot(*dot, weights, x);
                        }
                    }
                }
                let mut scales = [f.splat(0.0); NV];
                for (v, scale) in scales.iter_mut().enumerate() {
                    *scale = f.load_f16(w.cast::<u16>().add((HALF + v) * LANES));
                }
                for (r, (sum, dots)) in sum.iter_mut().zip(dots).enumerate() {
                    let x = f.splat((*x.add(r)).scale);
                    for ((sum, dot), scale) in sum.iter_mut().zip(dots).zip(scales) {
                        *sum = f.fma(f.mul(scale, x), i.to_floats(dot), *sum);
                    }
                }
                x = x.add(MR);
                w = w.add(GROUP_BYTES);
            }
            // Rows and panels of this task; tasks have different rows or different panels.
            self.out.finish(f, sum, first, panel * PANEL + HALF * LANES);
        }
    }
}
