//! Dot products of bytes.

use super::{LANES, Portable, Simd};
use crate::isa::Int8Task;

/// Sixteen int32 sums of products of bytes, exact in every tier.
///
/// Weights and inputs are signed bytes; inputs are in -127..=127. VNNI's instruction multiplies
/// unsigned by signed bytes, so VNNI tiers load weights with an offset of 128. The initial value of
/// the sum compensates the offset: it is -128 times the sum of the inputs, which their quantisation
/// computes. Tiers without VNNI start from zero.
pub(crate) trait Int8: Copy {
    type Floats: Simd;
    /// 64 weights: four for each lane.
    type Bytes: Copy;
    /// Sixteen int32.
    type Ints: Copy;

    /// Whether a machine with these instructions may have AMX's tiles.
    #[cfg_attr(not(target_arch = "x86_64"), allow(dead_code))]
    const TILES: bool = false;

    /// Runs `task` as a separate function, like [`Simd::call`].
    fn call<T: Int8Task>(self, task: T);
    /// The float32 lanes of the same registers.
    fn floats(self) -> Self::Floats;
    /// The first value of every sum; `offset` is `-128` times the sum of all inputs to come.
    fn start(self, offset: i32) -> Self::Ints;
    /// # Safety
    /// `p` must be valid for reading 64 bytes.
    unsafe fn load_bytes(self, p: *const u8) -> Self::Bytes;
    /// `sum` and, in each lane, the products of its four weights with the four bytes of `x`.
    fn dot(self, sum: Self::Ints, weights: Self::Bytes, x: i32) -> Self::Ints;
    /// # Safety
    /// `p` must be valid for reading 16 numbers.
    #[cfg_attr(not(target_arch = "x86_64"), allow(dead_code))]
    unsafe fn load_ints(self, p: *const i32) -> Self::Ints;
    /// Converts to float32. The conversion is exact for magnitudes below 2^24.
    fn to_floats(self, sum: Self::Ints) -> <Self::Floats as Simd>::V;
}

impl Int8 for Portable {
    type Floats = Self;
    type Bytes = [[i8; 4]; LANES];
    type Ints = [i32; LANES];

    #[inline(always)]
    fn call<T: crate::isa::Int8Task>(self, task: T) {
        crate::isa::run_int8_portable(task);
    }
    #[inline(always)]
    fn floats(self) -> Self {
        self
    }
    #[inline(always)]
    fn start(self, _: i32) -> Self::Ints {
        [0; LANES]
    }
    #[inline(always)]
    unsafe fn load_bytes(self, p: *const u8) -> Self::Bytes {
        // SAFETY: the caller's promise; bytes need no alignment.
        unsafe { p.cast::<Self::Bytes>().read() }
    }
    #[inline(always)]
    fn dot(self, mut sum: Self::Ints, weights: Self::Bytes, x: i32) -> Self::Ints {
        let x = x.to_ne_bytes().map(|b| i32::from(b.cast_signed()));
        for (sum, w) in sum.iter_mut().zip(weights) {
            for (w, x) in w.into_iter().zip(x) {
                *sum += i32::from(w) * x;
            }
        }
        sum
    }
    #[inline(always)]
    unsafe fn load_ints(self, p: *const i32) -> Self::Ints {
        // SAFETY: the caller's promise.
        unsafe { p.cast::<Self::Ints>().read() }
    }
    #[inline(always)]
    fn to_floats(self, sum: Self::Ints) -> [f32; LANES] {
        sum.map(|i| i as f32)
    }
}
