//! The number formats of keys and values, and their layout in a page.

use half::slice::HalfFloatSliceExt;
use half::{bf16, f16};

use super::KvShape;
use crate::buffer::Number;
use crate::simd::Simd;

/// The number format of keys and values. 16-bit formats round to the nearest (ties to even), and
/// clamp to the largest finite number.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum KvFormat {
    /// float32, stored as computed.
    #[default]
    F32,
    /// bfloat16. Attention then rounds queries and weights, too, multiplies pairs of bfloat16 and
    /// sums in float32 (`attention/pairs.rs`); numbers below 2^-50 become 0.
    Bf16,
    /// float16. Values are converted to float32 when read, so the arithmetic is float32.
    F16,
}

/// Magnitude below which a bfloat16 operand of attention or of a layer of pairs becomes 0. Products
/// and their sums are then either 0 or far above the smallest normal float32. Units that flush
/// subnormal numbers (AMX, AVX512-BF16) therefore give the same bits as units that do not.
pub(crate) const TINY: f32 = 1.0 / (1u64 << 50) as f32;

/// The numbers that are rounded at a time; an even number, because bfloat16 keys are pairs.
const RUN: usize = 64;

impl KvFormat {
    /// The most values of a head in bfloat16, for which attention has working memory.
    pub const WIDEST_BF16: usize = 256;

    /// The bytes of a page: keys and values of all layers and heads.
    #[must_use]
    pub fn page_bytes(self, shape: KvShape) -> usize {
        shape.layers * shape.kv_heads * self.head_bytes(shape)
    }

    /// The bytes of one stored number: 4 or 2.
    #[must_use]
    pub fn number_bytes(self) -> usize {
        match self {
            Self::F32 => 4,
            Self::Bf16 | Self::F16 => 2,
        }
    }

    /// Returns `x` as it reads back after being stored.
    #[must_use]
    pub fn round(self, x: f32) -> f32 {
        match self {
            Self::F32 => x,
            Self::Bf16 => f32::from_bits(narrow_bf16(x) << 16),
            Self::F16 => f16::from_f32(within_f16(x)).to_f32(),
        }
    }

    /// The bytes of one head of one layer in a page, keys and values together. Bfloat16 stores
    /// pairs, so an odd head size or page size is rounded up.
    pub(crate) fn head_bytes(self, shape: KvShape) -> usize {
        self.key_bytes(shape) + self.value_bytes(shape)
    }

    /// The bytes of the keys in a head's region, which is also the offset of the values.
    pub(crate) fn key_bytes(self, shape: KvShape) -> usize {
        let words = match self {
            Self::F32 | Self::F16 => shape.head_dim,
            Self::Bf16 => shape.head_dim.div_ceil(2),
        };
        words * self.key_step(shape)
    }

    /// The bytes from one word of a key to the next.
    pub(crate) fn key_step(self, shape: KvShape) -> usize {
        match self {
            Self::F32 | Self::Bf16 => 4 * shape.page_size,
            Self::F16 => 2 * shape.page_size,
        }
    }

    fn value_bytes(self, shape: KvShape) -> usize {
        match self {
            Self::F32 => 4 * shape.head_dim * shape.page_size,
            Self::Bf16 => 4 * shape.head_dim * shape.page_size.div_ceil(2),
            Self::F16 => 2 * shape.head_dim * shape.page_size,
        }
    }

    /// Writes a position's key and value into its head's region. Keys are `[head_dim, page_size]`,
    /// values `[page_size, head_dim]`. In bfloat16 two neighbours of the outer index are adjacent,
    /// as the instructions that multiply pairs require.
    #[inline(always)]
    pub(crate) fn write(
        self,
        region: &mut [u8],
        shape: KvShape,
        offset: usize,
        k: &[f32],
        v: &[f32],
    ) {
        let (d, p) = (shape.head_dim, shape.page_size);
        let (keys, values) = region.split_at_mut(self.key_bytes(shape));
        match self {
            Self::F32 => {
                scatter(words(keys), offset, p, k.iter().copied());
                words(values)[offset * d..][..d].copy_from_slice(v);
            }
            Self::F16 => {
                let (keys, values) = (words(keys), words(values));
                for (i, (k, v)) in k.chunks(RUN).zip(v.chunks(RUN)).enumerate() {
                    let first = i * RUN;
                    scatter(keys, first * p + offset, p, narrow_f16(k));
                    scatter(values, offset * d + first, 1, narrow_f16(v));
                }
            }
            Self::Bf16 => {
                let keys = words(keys);
                let row: &mut [u32] = &mut words(values)[offset / 2 * d..][..d];
                let shift = offset % 2 * 16;
                for (i, k) in k.chunks(RUN).enumerate() {
                    let k = k.iter().map(|k| narrow_bf16(*k));
                    let mut halves = [0; RUN];
                    halves.iter_mut().zip(k).for_each(|(half, k)| *half = k);
                    let pairs = halves.chunks_exact(2).map(|half| half[1] << 16 | half[0]);
                    let n = (d - i * RUN).min(RUN).div_ceil(2);
                    scatter(keys, i * RUN / 2 * p + offset, p, pairs.take(n));
                }
                for (word, v) in row.iter_mut().zip(v) {
                    *word = *word & !(0xffff << shift) | narrow_bf16(*v) << shift;
                }
            }
        }
    }

    /// Reads back a position's key and value.
    #[cfg(test)]
    pub(crate) fn read(self, region: &[u8], shape: KvShape, offset: usize) -> (Vec<f32>, Vec<f32>) {
        let (d, p) = (shape.head_dim, shape.page_size);
        let number = |first: usize, place: usize| {
            let at = |bytes: usize| &region[first + place * bytes..][..bytes];
            match self {
                Self::F32 => f32::from_ne_bytes(at(4).try_into().expect("four")),
                Self::Bf16 => bf16::from_ne_bytes(at(2).try_into().expect("two")).to_f32(),
                Self::F16 => f16::from_ne_bytes(at(2).try_into().expect("two")).to_f32(),
            }
        };
        let keys = (0..d).map(|i| match self {
            Self::Bf16 => number(0, (i / 2 * p + offset) * 2 + i % 2),
            _ => number(0, i * p + offset),
        });
        let values = (0..d).map(|i| match self {
            Self::Bf16 => number(self.key_bytes(shape), (offset / 2 * d + i) * 2 + offset % 2),
            _ => number(self.key_bytes(shape), offset * d + i),
        });
        (keys.collect(), values.collect())
    }
}

fn words<T: Number>(bytes: &mut [u8]) -> &mut [T] {
    // SAFETY: every bit pattern is a number (`Number`).
    let (before, words, _) = unsafe { bytes.align_to_mut::<T>() };
    assert!(before.is_empty(), "regions begin at whole numbers");
    words
}

/// Writes `from` to `to[first]`, `to[first + step]` and so on.
#[inline(always)]
fn scatter<T: Number>(to: &mut [T], first: usize, step: usize, from: impl Iterator<Item = T>) {
    for (to, from) in to[first..].iter_mut().step_by(step).zip(from) {
        *to = from;
    }
}

/// Rounds to bfloat16 (ties to even). Numbers below [`TINY`] become 0. There are no branches, so that
/// the compiler rounds many numbers at a time.
#[inline(always)]
pub(crate) fn nearest_bf16(x: f32) -> f32 {
    const QUIET: u32 = 0x40_0000;
    let (bits, magnitude) = (x.to_bits(), x.to_bits() & 0x7fff_ffff);
    let even = (bits >> 16) & 1;
    let rounded = if magnitude > f32::INFINITY.to_bits() {
        bits | QUIET
    } else {
        bits.wrapping_add(0x7fff + even)
    };
    if magnitude < TINY.to_bits() {
        0.0
    } else {
        f32::from_bits(rounded & !0xffff)
    }
}

/// Returns the sixteen bits of a finite bfloat16, or NaN, in the low half of a word.
#[inline(always)]
fn narrow_bf16(x: f32) -> u32 {
    let most = bf16::MAX.to_f32();
    nearest_bf16(x.clamp(-most, most)).to_bits() >> 16
}

#[inline(always)]
fn within_f16(x: f32) -> f32 {
    let most = f16::MAX.to_f32();
    x.clamp(-most, most)
}

/// Rounds at most [`RUN`] numbers.
#[inline(always)]
fn narrow_f16(from: &[f32]) -> impl Iterator<Item = u16> {
    let (mut within, mut narrow) = ([0.0; RUN], [f16::ZERO; RUN]);
    for (within, from) in within.iter_mut().zip(from) {
        *within = within_f16(*from);
    }
    narrow.convert_from_f32_slice(&within);
    narrow.into_iter().take(from.len()).map(f16::to_bits)
}

/// Numbers that are stored one by one (not in pairs) and converted to float32 when read.
pub(crate) trait Numbers {
    type Word;

    /// # Safety
    /// `p` must be valid for reading 16 words.
    unsafe fn load<S: Simd>(s: S, p: *const Self::Word) -> S::V;
}

pub(crate) struct F32;

impl Numbers for F32 {
    type Word = f32;

    #[inline(always)]
    unsafe fn load<S: Simd>(s: S, p: *const f32) -> S::V {
        // SAFETY: the caller's promise.
        unsafe { s.load(p) }
    }
}

pub(crate) struct F16;

impl Numbers for F16 {
    type Word = u16;

    #[inline(always)]
    unsafe fn load<S: Simd>(s: S, p: *const u16) -> S::V {
        // SAFETY: the caller's promise.
        unsafe { s.load_f16(p) }
    }
}
