use super::{LANES, Simd};
use std::arch::x86_64::*;

/// Proof that AVX-512 F, VL, DQ and BW may be executed, and AVX512-BF16 if `BF16`.
#[derive(Clone, Copy)]
pub(crate) struct Avx512<const BF16: bool = false>(());

impl Avx512 {
    #[inline]
    #[target_feature(enable = "avx512f,avx512vl,avx512dq,avx512bw")]
    pub(crate) fn new() -> Self {
        Self(())
    }
}

impl Avx512<true> {
    #[inline]
    #[target_feature(enable = "avx512f,avx512vl,avx512dq,avx512bw,avx512bf16")]
    pub(crate) fn with_bf16() -> Self {
        Self(())
    }
}

// SAFETY of every block below: `Avx512` is made only inside a function compiled for these
// features, which `Isa` calls only on machines that have them. Loads and stores rest on the
// caller's promise about the pointer.
impl<const BF16: bool> Simd for Avx512<BF16> {
    type V = __m512;
    type D = (__m512d, __m512d);
    const WIDE: bool = true;

    #[inline(always)]
    fn call<T: crate::isa::Task>(self, task: T) -> T::Output {
        // SAFETY: see above the impl.
        unsafe {
            if BF16 {
                crate::isa::run_avx512_bf16(task)
            } else {
                crate::isa::run_avx512(task)
            }
        }
    }
    #[inline(always)]
    fn splat(self, x: f32) -> __m512 {
        // SAFETY: see above the impl.
        unsafe { _mm512_set1_ps(x) }
    }
    #[inline(always)]
    unsafe fn load(self, p: *const f32) -> __m512 {
        // SAFETY: see above the impl.
        unsafe { _mm512_loadu_ps(p) }
    }
    #[inline(always)]
    unsafe fn load_bf16(self, p: *const u16, odd: bool) -> __m512 {
        // SAFETY: see above the impl.
        unsafe {
            let pairs = _mm512_loadu_si512(p.cast());
            _mm512_castsi512_ps(if odd {
                _mm512_and_si512(pairs, _mm512_set1_epi32(!0xffff))
            } else {
                _mm512_slli_epi32::<16>(pairs)
            })
        }
    }
    #[inline(always)]
    fn dot_pairs(self, a: __m512, b: __m512, sum: __m512) -> __m512 {
        if !BF16 {
            return super::dot_pairs_plainly(self, a, b, sum);
        }
        // SAFETY: see above the impl; both types are 512 bits of bfloat16.
        unsafe {
            let [a, b] = [a, b].map(|v| std::mem::transmute::<__m512, __m512bh>(v));
            _mm512_dpbf16_ps(sum, a, b)
        }
    }
    #[inline(always)]
    unsafe fn load_f16(self, p: *const u16) -> __m512 {
        // SAFETY: see above the impl.
        unsafe { _mm512_cvtph_ps(_mm256_loadu_si256(p.cast())) }
    }
    #[inline(always)]
    unsafe fn store(self, p: *mut f32, v: __m512) {
        // SAFETY: see above the impl.
        unsafe { _mm512_storeu_ps(p, v) }
    }
    #[inline(always)]
    fn add(self, a: __m512, b: __m512) -> __m512 {
        // SAFETY: see above the impl.
        unsafe { _mm512_add_ps(a, b) }
    }
    #[inline(always)]
    fn sub(self, a: __m512, b: __m512) -> __m512 {
        // SAFETY: see above the impl.
        unsafe { _mm512_sub_ps(a, b) }
    }
    #[inline(always)]
    fn mul(self, a: __m512, b: __m512) -> __m512 {
        // SAFETY: see above the impl.
        unsafe { _mm512_mul_ps(a, b) }
    }
    #[inline(always)]
    fn div(self, a: __m512, b: __m512) -> __m512 {
        // SAFETY: see above the impl.
        unsafe { _mm512_div_ps(a, b) }
    }
    #[inline(always)]
    fn max(self, a: __m512, b: __m512) -> __m512 {
        // SAFETY: see above the impl.
        unsafe { _mm512_max_ps(a, b) }
    }
    #[inline(always)]
    fn min(self, a: __m512, b: __m512) -> __m512 {
        // SAFETY: see above the impl.
        unsafe { _mm512_min_ps(a, b) }
    }
    #[inline(always)]
    fn fma(self, a: __m512, b: __m512, c: __m512) -> __m512 {
        // SAFETY: see above the impl.
        unsafe { _mm512_fmadd_ps(a, b, c) }
    }
    #[inline(always)]
    fn scale(self, v: __m512, n: __m512) -> __m512 {
        // SAFETY: see above the impl.
        unsafe { _mm512_scalef_ps(v, n) }
    }
    #[inline(always)]
    fn widen(self, v: __m512) -> Self::D {
        // SAFETY: see above the impl.
        unsafe {
            (
                _mm512_cvtps_pd(_mm512_castps512_ps256(v)),
                _mm512_cvtps_pd(_mm512_extractf32x8_ps::<1>(v)),
            )
        }
    }
    #[inline(always)]
    fn add_wide(self, a: Self::D, b: Self::D) -> Self::D {
        // SAFETY: see above the impl.
        unsafe { (_mm512_add_pd(a.0, b.0), _mm512_add_pd(a.1, b.1)) }
    }
    #[inline(always)]
    fn add_where(self, sum: Self::D, wide: Self::D, v: __m512, limit: __m512) -> Self::D {
        // SAFETY: see above the impl.
        unsafe {
            let keep = _mm512_cmp_ps_mask::<_CMP_GE_OQ>(v, limit);
            (
                _mm512_mask_add_pd(sum.0, keep as u8, sum.0, wide.0),
                _mm512_mask_add_pd(sum.1, (keep >> 8) as u8, sum.1, wide.1),
            )
        }
    }
    #[inline(always)]
    fn wide_array(self, d: Self::D) -> [f64; LANES] {
        let mut a = [0.0; LANES];
        // SAFETY: see above the impl; `a` is sixteen doubles.
        unsafe {
            _mm512_storeu_pd(a.as_mut_ptr(), d.0);
            _mm512_storeu_pd(a.as_mut_ptr().add(8), d.1);
        }
        a
    }
    #[inline(always)]
    fn at_least(self, a: __m512, b: __m512) -> u16 {
        // SAFETY: see above the impl.
        unsafe { _mm512_cmp_ps_mask::<_CMP_GE_OQ>(a, b) }
    }
    #[inline(always)]
    unsafe fn compress(self, p: *mut f32, v: __m512, mask: u16) {
        // The form that writes to memory is slow on some machines.
        // SAFETY: see above the impl.
        unsafe { _mm512_storeu_ps(p, _mm512_maskz_compress_ps(mask, v)) }
    }
    #[inline(always)]
    fn round_bf16(self, v: __m512) -> __m512 {
        // SAFETY: see above the impl.
        unsafe {
            let half = _mm512_add_epi32(_mm512_castps_si512(v), _mm512_set1_epi32(0x8000));
            _mm512_castsi512_ps(_mm512_and_si512(half, _mm512_set1_epi32(!0xffff)))
        }
    }
    #[inline(always)]
    fn add_exponent(self, v: __m512, n: __m512) -> __m512 {
        // SAFETY: see above the impl.
        unsafe {
            let n = _mm512_slli_epi32::<23>(_mm512_castps_si512(n));
            _mm512_castsi512_ps(_mm512_add_epi32(_mm512_castps_si512(v), n))
        }
    }
    #[inline(always)]
    unsafe fn store_bf16(self, p: *mut u16, v: __m512) {
        // SAFETY: see above the impl.
        unsafe {
            let words = _mm512_srli_epi32::<16>(_mm512_castps_si512(v));
            _mm256_storeu_si256(p.cast(), _mm512_cvtepi32_epi16(words));
        }
    }
    #[inline(always)]
    fn sum(self, v: __m512) -> f32 {
        // The sum is a tree over halves, like in the default method, so that all tiers give the
        // same bits.
        // SAFETY: see above the impl.
        unsafe {
            let v = _mm256_add_ps(_mm512_castps512_ps256(v), _mm512_extractf32x8_ps::<1>(v));
            let v = _mm_add_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps::<1>(v));
            let v = _mm_add_ps(v, _mm_movehl_ps(v, v));
            _mm_cvtss_f32(_mm_add_ss(v, _mm_movehdup_ps(v)))
        }
    }
    #[inline(always)]
    fn largest(self, v: [__m512; 2]) -> u32 {
        // SAFETY: see above the impl.
        unsafe {
            let [a, b] = v.map(|v| _mm512_castps_si512(_mm512_abs_ps(v)));
            _mm512_reduce_max_epu32(_mm512_max_epu32(a, b))
        }
    }
    #[inline(always)]
    fn to_bytes(self, v: __m512) -> ([u8; LANES], i32) {
        // SAFETY: see above the impl. Sixteen bytes are 128 bits. The conversion rounds as floating
        // point does by default, and nothing here changes that.
        unsafe {
            let whole = _mm512_cvtps_epi32(v);
            let bytes = std::mem::transmute::<__m128i, [u8; LANES]>(_mm512_cvtepi32_epi8(whole));
            (bytes, _mm512_reduce_add_epi32(whole))
        }
    }
    #[inline(always)]
    fn max_lane(self, v: __m512) -> f32 {
        // SAFETY: see above the impl.
        unsafe {
            let v = _mm256_max_ps(_mm512_castps512_ps256(v), _mm512_extractf32x8_ps::<1>(v));
            let v = _mm_max_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps::<1>(v));
            let v = _mm_max_ps(v, _mm_movehl_ps(v, v));
            _mm_cvtss_f32(_mm_max_ss(v, _mm_movehdup_ps(v)))
        }
    }
    #[inline(always)]
    fn zero_below(self, v: __m512, x: __m512, limit: f32) -> __m512 {
        // SAFETY: see above the impl.
        unsafe {
            let keep = _mm512_cmp_ps_mask::<_CMP_GE_OQ>(x, _mm512_set1_ps(limit));
            _mm512_maskz_mov_ps(keep, v)
        }
    }
}
