use super::{LANES, Simd};

/// Plain arrays; the compiler picks the instructions.
#[derive(Clone, Copy)]
pub(crate) struct Portable;

#[inline(always)]
fn zip(a: [f32; LANES], b: [f32; LANES], f: impl Fn(f32, f32) -> f32) -> [f32; LANES] {
    std::array::from_fn(|i| f(a[i], b[i]))
}

/// Converts a float16 with the results of the crate `half`, but without a branch, so that the
/// compiler can use vector instructions.
#[inline(always)]
fn widen_f16(word: u16) -> f32 {
    let (sign, rest) = (u32::from(word & 0x8000) << 16, u32::from(word & 0x7fff));
    // The exponent's bias grows from 15 to 127; this holds for subnormal numbers, too.
    let scaled = (f32::from_bits(rest << 13) * f32::from_bits((127 + 112) << 23)).to_bits();
    let infinite = if rest >= 0x7c00 { 0x7f80_0000 } else { 0 };
    f32::from_bits(scaled | infinite | sign)
}

impl Simd for Portable {
    type V = [f32; LANES];
    type D = [f64; LANES];
    const WIDE: bool = false;

    #[inline(always)]
    fn call<T: crate::isa::Task>(self, task: T) -> T::Output {
        crate::isa::run_portable(task)
    }
    #[inline(always)]
    fn splat(self, x: f32) -> Self::V {
        [x; LANES]
    }
    #[inline(always)]
    unsafe fn load(self, p: *const f32) -> Self::V {
        // SAFETY: the caller's promise; `read_unaligned` needs no alignment of the array.
        unsafe { p.cast::<[f32; LANES]>().read_unaligned() }
    }
    #[inline(always)]
    unsafe fn load_bf16(self, p: *const u16, odd: bool) -> Self::V {
        // SAFETY: the caller promises `LANES` pairs, in any alignment.
        let words = unsafe { p.cast::<[[u16; 2]; LANES]>().read_unaligned() };
        words.map(|pair| f32::from_bits(u32::from(pair[usize::from(odd)]) << 16))
    }
    #[inline(always)]
    unsafe fn load_f16(self, p: *const u16) -> Self::V {
        // SAFETY: the caller promises `LANES` numbers, in any alignment.
        unsafe { p.cast::<[u16; LANES]>().read_unaligned() }.map(widen_f16)
    }
    #[inline(always)]
    unsafe fn store(self, p: *mut f32, v: Self::V) {
        // SAFETY: the caller's promise: there is room for `LANES` numbers, in any alignment.
        unsafe { p.cast::<[f32; LANES]>().write_unaligned(v) }
    }
    #[inline(always)]
    fn add(self, a: Self::V, b: Self::V) -> Self::V {
        zip(a, b, |a, b| a + b)
    }
    #[inline(always)]
    fn sub(self, a: Self::V, b: Self::V) -> Self::V {
        zip(a, b, |a, b| a - b)
    }
    #[inline(always)]
    fn mul(self, a: Self::V, b: Self::V) -> Self::V {
        zip(a, b, |a, b| a * b)
    }
    #[inline(always)]
    fn div(self, a: Self::V, b: Self::V) -> Self::V {
        zip(a, b, |a, b| a / b)
    }
    #[inline(always)]
    fn max(self, a: Self::V, b: Self::V) -> Self::V {
        zip(a, b, |a, b| if a > b { a } else { b })
    }
    #[inline(always)]
    fn min(self, a: Self::V, b: Self::V) -> Self::V {
        zip(a, b, |a, b| if a < b { a } else { b })
    }
    #[inline(always)]
    fn fma(self, a: Self::V, b: Self::V, c: Self::V) -> Self::V {
        // Without the instruction a fused multiply-add is a library call per lane.
        if cfg!(any(target_arch = "aarch64", target_feature = "fma")) {
            std::array::from_fn(|i| a[i].mul_add(b[i], c[i]))
        } else {
            std::array::from_fn(|i| a[i] * b[i] + c[i])
        }
    }
    #[inline(always)]
    fn scale(self, v: Self::V, n: Self::V) -> Self::V {
        zip(v, n, |v, n| {
            v * f32::from_bits(((n as i32 + 127) as u32) << 23)
        })
    }
    #[inline(always)]
    fn widen(self, v: Self::V) -> Self::D {
        v.map(f64::from)
    }
    #[inline(always)]
    fn add_wide(self, a: Self::D, b: Self::D) -> Self::D {
        std::array::from_fn(|i| a[i] + b[i])
    }
    #[inline(always)]
    fn add_where(self, sum: Self::D, wide: Self::D, v: Self::V, limit: Self::V) -> Self::D {
        std::array::from_fn(|i| sum[i] + if v[i] >= limit[i] { wide[i] } else { 0.0 })
    }
    #[inline(always)]
    fn wide_array(self, d: Self::D) -> [f64; LANES] {
        d
    }
    #[inline(always)]
    fn at_least(self, a: Self::V, b: Self::V) -> u16 {
        (0..LANES).fold(0, |mask, i| mask | u16::from(a[i] >= b[i]) << i)
    }
    #[inline(always)]
    fn round_bf16(self, v: Self::V) -> Self::V {
        v.map(|v| f32::from_bits(v.to_bits().wrapping_add(0x8000) & !0xffff))
    }
    #[inline(always)]
    fn add_exponent(self, v: Self::V, n: Self::V) -> Self::V {
        zip(v, n, |v, n| {
            f32::from_bits(v.to_bits().wrapping_add(n.to_bits() << 23))
        })
    }
    #[inline(always)]
    fn zero_below(self, v: Self::V, x: Self::V, limit: f32) -> Self::V {
        zip(v, x, |v, x| if x >= limit { v } else { 0.0 })
    }
}
