//! The number formats of weights, and their conversion to float32 in registers.

use crate::Isa;
use crate::buffer::{AlignedBuf, Number};
use crate::isa::Task;
use crate::kv::nearest_bf16;
use crate::simd::{LANES, Simd};

use super::PANEL;
use super::blocks::GROUP;
use super::int8::Q8Block;

/// Pairs of inputs in a partial sum of [`WeightFormat::Bf16Tiles`]; a tile multiplies as many at
/// once.
pub(super) const TILE_PAIRS: usize = 16;

/// The number format of a layer's weights. `F32`, `Bf16` and `F16` are multiplied as float32 in one
/// order. Values that all three represent exactly therefore give the same bits in each.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum WeightFormat {
    /// float32, which represents every weight exactly.
    F32,
    /// bfloat16: the upper half of a float32.
    Bf16,
    /// bfloat16 that is multiplied as bfloat16: the inputs are rounded to it, too. Products are
    /// summed in float32 in the order of the instruction VDPBF16PS, pair by pair of inputs, the
    /// second product of a pair first. Weights and inputs below 2⁻⁵⁰ in magnitude count as 0.
    Bf16Pairs,
    /// bfloat16 that is multiplied as bfloat16 in the order of AMX's instruction TDPBF16PS. Inputs
    /// are taken 32 at a time: the products of the first numbers of their pairs and of the second
    /// ones are summed apart, and both sums are added to the output. Rounding is that of
    /// `Bf16Pairs`.
    Bf16Tiles,
    /// float16 of IEEE 754.
    F16,
    /// 8 bits, with a float16 scale for every 32 inputs of an output ([`Q8Block`]). The inputs are
    /// also quantised in groups of 32, with a float32 scale. Products of bytes are summed exactly
    /// within a group, and the groups are summed in float32. The number of inputs must be a
    /// multiple of 32.
    Int8,
    /// GGUF's blocks of 32 values of 4 bits with a scale, kept as they are. Inputs are quantised as
    /// for [`Int8`](Self::Int8), in all formats of blocks.
    Q4_0,
    /// GGUF's blocks of 32 values of 4 bits with a scale and a minimum, which is multiplied by the
    /// sum of the quantised inputs.
    Q4_1,
    /// GGUF's blocks of 256 values of 4 bits with 8 scales and minima. For inputs in multiples of
    /// 256.
    Q4K,
    /// GGUF's blocks of 256 values of 6 bits with 16 scales. For inputs in multiples of 256.
    Q6K,
}

/// `$body` with `$F` as the [`Blocks`](super::blocks::Blocks) of a format, or `$other` for floats.
macro_rules! with_blocks {
    ($format:expr, $F:ident => $body:expr, $other:expr) => {{
        use $crate::linear::blocks;
        match $format {
            WeightFormat::Int8 => {
                type $F = blocks::Q8_0;
                $body
            }
            WeightFormat::Q4_0 => {
                type $F = blocks::Q4_0;
                $body
            }
            WeightFormat::Q4_1 => {
                type $F = blocks::Q4_1;
                $body
            }
            WeightFormat::Q4K => {
                type $F = blocks::Q4K;
                $body
            }
            WeightFormat::Q6K => {
                type $F = blocks::Q6K;
                $body
            }
            WeightFormat::F32
            | WeightFormat::Bf16
            | WeightFormat::Bf16Pairs
            | WeightFormat::Bf16Tiles
            | WeightFormat::F16 => $other,
        }
    }};
}
pub(super) use with_blocks;

impl WeightFormat {
    /// Whether weights are in quantised blocks. The inputs are then quantised, too, before they are
    /// multiplied.
    #[must_use]
    pub fn is_blocks(self) -> bool {
        !matches!(
            self,
            Self::F32 | Self::Bf16 | Self::Bf16Pairs | Self::Bf16Tiles | Self::F16
        )
    }

    /// Whether inputs are rounded to bfloat16 as well, and multiplied pair by pair.
    #[must_use]
    pub fn is_pairs(self) -> bool {
        matches!(self, Self::Bf16Pairs | Self::Bf16Tiles)
    }

    /// The pairs of an input row with its padding.
    pub(super) fn pairs(self, inputs: usize) -> usize {
        let pairs = inputs.div_ceil(2);
        match self {
            Self::Bf16Tiles => pairs.next_multiple_of(TILE_PAIRS),
            _ => pairs,
        }
    }

    /// Rounds a row of weights to the nearest values of the format (ties to even). A value out of
    /// range becomes infinite or NaN.
    ///
    /// # Panics
    /// If the format is int8 and the row is not a multiple of 32, or if the format is one of GGUF's
    /// that cannot be made from floats.
    pub fn round(self, row: &mut [f32]) {
        match self {
            Self::F32 => {}
            Self::Bf16 => row
                .iter_mut()
                .for_each(|x| *x = Bf16::widen(Bf16::narrow(*x))),
            Self::Bf16Pairs | Self::Bf16Tiles => row.iter_mut().for_each(|x| *x = nearest_bf16(*x)),
            Self::F16 => row
                .iter_mut()
                .for_each(|x| *x = F16::widen(F16::narrow(*x))),
            Self::Int8 => {
                assert!(row.len().is_multiple_of(GROUP), "rows of whole groups");
                for group in row.chunks_exact_mut(GROUP) {
                    Q8Block::quantize(group).widen(group);
                }
            }
            Self::Q4_0 | Self::Q4_1 | Self::Q4K | Self::Q6K => {
                panic!("{self:?} cannot be made from floats: pack the blocks of a file")
            }
        }
    }
}

/// Weights in one of the formats, in panels.
#[derive(Debug)]
pub(super) enum Panels {
    F32(AlignedBuf<f32>),
    Bf16(AlignedBuf<u16>),
    /// Words of two inputs, in panels `[N/32][pairs][32]`; the first value is their format.
    Pairs(WeightFormat, AlignedBuf<u32>),
    F16(AlignedBuf<u16>),
    /// Quantised blocks; the first value is their format.
    Blocks(WeightFormat, AlignedBuf<u8>),
}

/// The product of a word of weights with a word of inputs, as a register block computes it.
pub(super) trait Product {
    /// A word of the weights.
    type Word: Number;
    /// A word of the inputs.
    type Input: Copy + Sync;
    /// The multiply-adds of a word, one after the other.
    const STEPS: usize = 1;
    /// Whether weights are converted to float32. With 32 registers, this is done once for all rows
    /// of a task.
    const WIDENS: bool = false;
    /// The most rows of a register block with 32 registers: 12 or 8.
    const ROWS: usize = 12;

    /// Loads the outputs `16 * half .. 16 * half + 16` of a multiply-add from an input's words.
    ///
    /// # Safety
    /// `words` must be valid for reading 32 of them.
    unsafe fn load<S: Simd>(s: S, words: *const Self::Word, half: usize, step: usize) -> S::V;
    /// # Safety
    /// `input` must be valid for reading.
    unsafe fn splat<S: Simd>(s: S, input: *const Self::Input, step: usize) -> S::V;
    #[inline(always)]
    fn multiply<S: Simd>(s: S, x: S::V, weights: S::V, sum: S::V) -> S::V {
        s.fma(x, weights, sum)
    }

    /// Runs `task` with the instructions of the tier for these products.
    fn run<T: Task>(isa: Isa, task: T) -> T::Output {
        isa.run(task)
    }
}

/// Pairs of bfloat16, multiplied by an instruction for them.
pub(super) struct Pairs;

impl Product for Pairs {
    type Word = u32;
    type Input = u32;

    #[inline(always)]
    unsafe fn load<S: Simd>(s: S, words: *const u32, half: usize, _: usize) -> S::V {
        // SAFETY: the caller's promise.
        unsafe { s.load(words.add(half * LANES).cast()) }
    }
    #[inline(always)]
    unsafe fn splat<S: Simd>(s: S, input: *const u32, _: usize) -> S::V {
        // SAFETY: the caller's promise.
        s.splat(f32::from_bits(unsafe { *input }))
    }
    #[inline(always)]
    fn multiply<S: Simd>(s: S, x: S::V, weights: S::V, sum: S::V) -> S::V {
        s.dot_pairs(x, weights, sum)
    }
    fn run<T: Task>(isa: Isa, task: T) -> T::Output {
        isa.run_bf16(task)
    }
}

/// Pairs of bfloat16, multiplied as float32 in the order of [`Simd::dot_pairs`]: the second product
/// of a pair comes first.
pub(super) struct WidePairs;

impl Product for WidePairs {
    type Word = u32;
    type Input = [f32; 2];
    const STEPS: usize = 2;
    const WIDENS: bool = true;
    // With more rows, the compiler overlaps the steps and runs out of registers.
    const ROWS: usize = 8;

    #[inline(always)]
    unsafe fn load<S: Simd>(s: S, words: *const u32, half: usize, step: usize) -> S::V {
        // SAFETY: the caller's promise: sixteen words are thirty-two bfloat16.
        unsafe { s.load_bf16(words.add(half * LANES).cast(), step == 0) }
    }
    #[inline(always)]
    unsafe fn splat<S: Simd>(s: S, input: *const [f32; 2], step: usize) -> S::V {
        // SAFETY: the caller's promise; one of two floats.
        s.splat(unsafe { *input.cast::<f32>().add(1 - step) })
    }
}

/// A pair of rounded inputs.
pub(super) trait Pair: Copy {
    const ZERO: Self;

    /// Rounds a pair of inputs for each of `pairs`.
    fn round(inputs: &[[f32; 2]], pairs: &mut [Self]);
}

impl Pair for u32 {
    const ZERO: Self = 0;

    #[inline(always)]
    fn round(inputs: &[[f32; 2]], pairs: &mut [Self]) {
        for ([first, second], pair) in inputs.iter().zip(pairs) {
            *pair = nearest_bf16(*first).to_bits() >> 16 | nearest_bf16(*second).to_bits();
        }
    }
}

impl Pair for [f32; 2] {
    const ZERO: Self = [0.0; 2];

    #[inline(always)]
    fn round(inputs: &[[f32; 2]], pairs: &mut [Self]) {
        let inputs = inputs.as_flattened().iter();
        for (input, rounded) in inputs.zip(pairs.as_flattened_mut()) {
            *rounded = nearest_bf16(*input);
        }
    }
}

/// Rounds a row to pairs, and fills up the rest of `pairs` with zeros.
#[inline(always)]
pub(super) fn round_pairs<P: Pair>(row: &[f32], pairs: &mut [P]) {
    let (whole, last) = row.as_chunks::<2>();
    let (rounded, rest) = pairs.split_at_mut(whole.len());
    P::round(whole, rounded);
    rest.fill(P::ZERO);
    if let [last] = last {
        P::round(&[[*last, 0.0]], rest);
    }
}

/// Rounds the inputs of some rows to pairs.
pub(super) struct RoundPairs<'a, P> {
    /// Values of a row.
    pub(super) inputs: usize,
    /// Pairs of a row.
    pub(super) width: usize,
    pub(super) x: &'a [f32],
    pub(super) pairs: &'a mut [P],
}

impl<P: Pair> Task for RoundPairs<'_, P> {
    type Output = ();
    #[inline(always)]
    fn run<S: Simd>(self, _: S) {
        let rows = self.x.chunks_exact(self.inputs);
        for (row, pairs) in rows.zip(self.pairs.chunks_exact_mut(self.width)) {
            round_pairs(row, pairs);
        }
    }
}

/// A format of floats that is known at compile time.
pub(super) trait Stored {
    type Word: Number;
    /// Whether a word must be converted.
    const WIDENS: bool;

    fn narrow(x: f32) -> Self::Word;
    fn widen(word: Self::Word) -> f32;

    /// The index of output `n` of a panel in an input's 32 words.
    #[inline(always)]
    fn place(n: usize) -> usize {
        n
    }

    /// Loads the outputs `16 * half .. 16 * half + 16` from an input's words.
    ///
    /// # Safety
    /// `words` must be valid for reading 32 of them.
    unsafe fn load<S: Simd>(s: S, words: *const Self::Word, half: usize) -> S::V;
}

pub(super) struct F32;

impl Stored for F32 {
    type Word = f32;
    const WIDENS: bool = false;

    fn narrow(x: f32) -> f32 {
        x
    }
    fn widen(word: f32) -> f32 {
        word
    }
    #[inline(always)]
    unsafe fn load<S: Simd>(s: S, words: *const f32, half: usize) -> S::V {
        // SAFETY: the caller's promise.
        unsafe { s.load(words.add(half * LANES)) }
    }
}

/// The words of outputs `n` and `n + 16` are adjacent. A single load then reads both, and a shift
/// or a mask converts sixteen of them.
pub(super) struct Bf16;

impl Stored for Bf16 {
    type Word = u16;
    const WIDENS: bool = true;

    fn narrow(x: f32) -> u16 {
        half::bf16::from_f32(x).to_bits()
    }
    fn widen(word: u16) -> f32 {
        half::bf16::from_bits(word).to_f32()
    }
    #[inline(always)]
    fn place(n: usize) -> usize {
        n % LANES * 2 + n / LANES
    }
    #[inline(always)]
    unsafe fn load<S: Simd>(s: S, words: *const u16, half: usize) -> S::V {
        // SAFETY: the caller's promise.
        unsafe { s.load_bf16(words, half == 1) }
    }
}

pub(super) struct F16;

impl Stored for F16 {
    type Word = u16;
    const WIDENS: bool = true;

    fn narrow(x: f32) -> u16 {
        half::f16::from_f32(x).to_bits()
    }
    fn widen(word: u16) -> f32 {
        half::f16::from_bits(word).to_f32()
    }
    #[inline(always)]
    unsafe fn load<S: Simd>(s: S, words: *const u16, half: usize) -> S::V {
        // SAFETY: the caller's promise.
        unsafe { s.load_f16(words.add(half * LANES)) }
    }
}

impl<W: Stored> Product for W {
    type Word = W::Word;
    type Input = f32;
    const WIDENS: bool = <W as Stored>::WIDENS;

    #[inline(always)]
    unsafe fn load<S: Simd>(s: S, words: *const W::Word, half: usize, _: usize) -> S::V {
        // SAFETY: the caller's promise.
        unsafe { <W as Stored>::load(s, words, half) }
    }
    #[inline(always)]
    unsafe fn splat<S: Simd>(s: S, input: *const f32, _: usize) -> S::V {
        // SAFETY: the caller's promise.
        s.splat(unsafe { *input })
    }
}

/// Converts row `n` of a layer with `width` pairs of inputs to float32.
pub(super) fn unpack_pairs(words: &[u32], width: usize, n: usize, row: &mut [f32]) {
    let panel = &words[n / PANEL * PANEL * width..][..PANEL * width];
    for (values, words) in row.chunks_mut(2).zip(panel.chunks_exact(PANEL)) {
        let word = words[n % PANEL];
        for (value, half) in values.iter_mut().zip([word << 16, word & !0xffff]) {
            *value = f32::from_bits(half);
        }
    }
}

/// Converts row `n` of a layer with `inputs` inputs to float32.
pub(super) fn unpack<W: Stored>(words: &[W::Word], inputs: usize, n: usize, row: &mut [f32]) {
    let panel = &words[n / PANEL * PANEL * inputs..][..PANEL * inputs];
    for (w, words) in row.iter_mut().zip(panel.chunks_exact(PANEL)) {
        *w = W::widen(words[W::place(n % PANEL)]);
    }
}
