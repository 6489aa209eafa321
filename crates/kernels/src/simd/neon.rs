//! Dot products of bytes on aarch64: the extension `dotprod`, whose intrinsic is not stable yet.

use std::arch::aarch64::*;
use std::arch::asm;

use super::{Int8, LANES, Portable};

/// Proof that `dotprod` may be executed.
#[derive(Clone, Copy)]
pub(crate) struct Dotprod(());

impl Dotprod {
    #[inline]
    #[target_feature(enable = "neon,dotprod")]
    pub(crate) fn new() -> Self {
        Self(())
    }
}

// SAFETY of every block below: values of this type are made only inside functions compiled for its
// features, which `Isa` calls only on machines that have them. Loads rest on the caller's promise
// about the pointer.
impl Int8 for Dotprod {
    type Floats = Portable;
    type Bytes = [int8x16_t; 4];
    type Ints = [int32x4_t; 4];

    #[inline(always)]
    fn call<T: crate::isa::Int8Task>(self, task: T) {
        // SAFETY: see above the impl.
        unsafe { crate::isa::run_dotprod(task) }
    }
    #[inline(always)]
    fn floats(self) -> Portable {
        Portable
    }
    #[inline(always)]
    fn start(self, _: i32) -> Self::Ints {
        // SAFETY: see above the impl.
        [unsafe { vdupq_n_s32(0) }; 4]
    }
    #[inline(always)]
    unsafe fn load_bytes(self, p: *const u8) -> Self::Bytes {
        // SAFETY: see above the impl.
        [0, 16, 32, 48].map(|at| unsafe { vld1q_s8(p.add(at).cast()) })
    }
    #[inline(always)]
    fn dot(self, mut sum: Self::Ints, weights: Self::Bytes, x: i32) -> Self::Ints {
        // SAFETY: see above the impl.
        unsafe {
            let x = vreinterpretq_s8_s32(vdupq_n_s32(x));
            for (sum, weights) in sum.iter_mut().zip(weights) {
                asm!(
                    ".arch_extension dotprod",
                    "sdot {sum:v}.4s, {weights:v}.16b, {x:v}.16b",
                    sum = inout(vreg) *sum,
                    weights = in(vreg) weights,
                    x = in(vreg) x,
                    options(pure, nomem, nostack, preserves_flags),
                );
            }
        }
        sum
    }
    #[inline(always)]
    unsafe fn load_ints(self, p: *const i32) -> Self::Ints {
        // SAFETY: see above the impl.
        [0, 4, 8, 12].map(|at| unsafe { vld1q_s32(p.add(at)) })
    }
    #[inline(always)]
    fn to_floats(self, sum: Self::Ints) -> [f32; LANES] {
        let mut floats = [0.0; LANES];
        for (floats, sum) in floats.as_chunks_mut::<4>().0.iter_mut().zip(sum) {
            // SAFETY: see above the impl; four floats.
            unsafe { vst1q_f32(floats.as_mut_ptr(), vcvtq_f32_s32(sum)) };
        }
        floats
    }
}
