//! The number formats of weights, and their conversion to float32 in registers.

use crate::buffer::{AlignedBuf, Number};
use crate::simd::{LANES, Simd};

use super::PANEL;
use super::blocks::GROUP;
use super::int8::Q8Block;

/// The number format of a layer's weights. Formats of floats are multiplied as float32 in one
/// order. Values that all three formats represent exactly therefore give the same bits in each.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum WeightFormat {
    /// float32, which represents every weight exactly.
    F32,
    /// bfloat16: the upper half of a float32.
    Bf16,
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
            WeightFormat::F32 | WeightFormat::Bf16 | WeightFormat::F16 => $other,
        }
    }};
}
pub(super) use with_blocks;

impl WeightFormat {
    /// Whether weights are in quantised blocks. The inputs are then quantised, too, before they are
    /// multiplied.
    #[must_use]
    pub fn is_blocks(self) -> bool {
        !matches!(self, Self::F32 | Self::Bf16 | Self::F16)
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
    F16(AlignedBuf<u16>),
    /// Quantised blocks; the first value is their format.
    Blocks(WeightFormat, AlignedBuf<u8>),
}

/// A format of floats that is known at compile time.
pub(super) trait Stored {
    type Word: Number;

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

/// Converts row `n` of a layer with `inputs` inputs to float32.
pub(super) fn unpack<W: Stored>(words: &[W::Word], inputs: usize, n: usize, row: &mut [f32]) {
    let panel = &words[n / PANEL * PANEL * inputs..][..PANEL * inputs];
    for (w, words) in row.iter_mut().zip(panel.chunks_exact(PANEL)) {
        *w = W::widen(words[W::place(n % PANEL)]);
    }
}
