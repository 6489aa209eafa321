use super::{LANES, Simd};
use std::arch::x86_64::*;

/// Proof that AVX2, FMA and F16C may be executed.
#[derive(Clone, Copy)]
pub(crate) struct Avx2(());

impl Avx2 {
    #[inline]
    #[target_feature(enable = "avx2,fma,f16c")]
    pub(crate) fn new() -> Self {
        Self(())
    }
}

type V = (__m256, __m256);

// SAFETY of every block below: `Avx2` is made only inside a function compiled for these
// features, which `Isa` calls only on machines that have them. Loads and stores rest on the
// caller's promise about the pointer.
impl Simd for Avx2 {
    type V = V;
    type D = [__m256d; 4];
    const WIDE: bool = false;

    #[inline(always)]
    fn call<T: crate::isa::Task>(self, task: T) -> T::Output {
        // SAFETY: see above the impl.
        unsafe { crate::isa::run_avx2(task) }
    }
    #[inline(always)]
    fn splat(self, x: f32) -> V {
        // SAFETY: see above the impl.
        let v = unsafe { _mm256_set1_ps(x) };
        (v, v)
    }
    #[inline(always)]
    unsafe fn load(self, p: *const f32) -> V {
        // SAFETY: see above the impl.
        unsafe { (_mm256_loadu_ps(p), _mm256_loadu_ps(p.add(8))) }
    }
    #[inline(always)]
    unsafe fn load_bf16(self, p: *const u16, odd: bool) -> V {
        #[inline(always)]
        unsafe fn half(p: *const u16, odd: bool) -> __m256 {
            // SAFETY: see above the impl.
            unsafe {
                let pairs = _mm256_loadu_si256(p.cast());
                _mm256_castsi256_ps(if odd {
                    _mm256_and_si256(pairs, _mm256_set1_epi32(!0xffff))
                } else {
                    _mm256_slli_epi32::<16>(pairs)
                })
            }
        }
        // SAFETY: see above the impl.
        unsafe { (half(p, odd), half(p.add(16), odd)) }
    }
    #[inline(always)]
    unsafe fn load_f16(self, p: *const u16) -> V {
        // SAFETY: see above the impl.
        unsafe {
            (
                _mm256_cvtph_ps(_mm_loadu_si128(p.cast())),
                _mm256_cvtph_ps(_mm_loadu_si128(p.add(8).cast())),
            )
        }
    }
    #[inline(always)]
    unsafe fn store(self, p: *mut f32, v: V) {
        // SAFETY: see above the impl.
        unsafe {
            _mm256_storeu_ps(p, v.0);
            _mm256_storeu_ps(p.add(8), v.1);
        }
    }
    #[inline(always)]
    fn add(self, a: V, b: V) -> V {
        // SAFETY: see above the impl.
        unsafe { (_mm256_add_ps(a.0, b.0), _mm256_add_ps(a.1, b.1)) }
    }
    #[inline(always)]
    fn sub(self, a: V, b: V) -> V {
        // SAFETY: see above the impl.
        unsafe { (_mm256_sub_ps(a.0, b.0), _mm256_sub_ps(a.1, b.1)) }
    }
    #[inline(always)]
    fn mul(self, a: V, b: V) -> V {
        // SAFETY: see above the impl.
        unsafe { (_mm256_mul_ps(a.0, b.0), _mm256_mul_ps(a.1, b.1)) }
    }
    #[inline(always)]
    fn div(self, a: V, b: V) -> V {
        // SAFETY: see above the impl.
        unsafe { (_mm256_div_ps(a.0, b.0), _mm256_div_ps(a.1, b.1)) }
    }
    #[inline(always)]
    fn max(self, a: V, b: V) -> V {
        // SAFETY: see above the impl.
        unsafe { (_mm256_max_ps(a.0, b.0), _mm256_max_ps(a.1, b.1)) }
    }
    #[inline(always)]
    fn min(self, a: V, b: V) -> V {
        // SAFETY: see above the impl.
        unsafe { (_mm256_min_ps(a.0, b.0), _mm256_min_ps(a.1, b.1)) }
    }
    #[inline(always)]
    fn fma(self, a: V, b: V, c: V) -> V {
        // SAFETY: see above the impl.
        unsafe {
            (
                _mm256_fmadd_ps(a.0, b.0, c.0),
                _mm256_fmadd_ps(a.1, b.1, c.1),
            )
        }
    }
    #[inline(always)]
    fn scale(self, v: V, n: V) -> V {
        #[inline(always)]
        fn half(v: __m256, n: __m256) -> __m256 {
            // SAFETY: see above the impl.
            unsafe {
                let exponent = _mm256_add_epi32(_mm256_cvtps_epi32(n), _mm256_set1_epi32(127));
                _mm256_mul_ps(v, _mm256_castsi256_ps(_mm256_slli_epi32::<23>(exponent)))
            }
        }
        (half(v.0, n.0), half(v.1, n.1))
    }
    #[inline(always)]
    fn widen(self, v: V) -> Self::D {
        // SAFETY: see above the impl.
        unsafe {
            [
                _mm256_cvtps_pd(_mm256_castps256_ps128(v.0)),
                _mm256_cvtps_pd(_mm256_extractf128_ps::<1>(v.0)),
                _mm256_cvtps_pd(_mm256_castps256_ps128(v.1)),
                _mm256_cvtps_pd(_mm256_extractf128_ps::<1>(v.1)),
            ]
        }
    }
    #[inline(always)]
    fn add_wide(self, a: Self::D, b: Self::D) -> Self::D {
        // SAFETY: see above the impl.
        unsafe {
            [
                _mm256_add_pd(a[0], b[0]),
                _mm256_add_pd(a[1], b[1]),
                _mm256_add_pd(a[2], b[2]),
                _mm256_add_pd(a[3], b[3]),
            ]
        }
    }
    #[inline(always)]
    fn add_where(self, sum: Self::D, wide: Self::D, v: V, limit: V) -> Self::D {
        #[inline(always)]
        fn masks(v: __m256, limit: __m256) -> [__m256d; 2] {
            // SAFETY: see above the impl.
            unsafe {
                let keep = _mm256_castps_si256(_mm256_cmp_ps::<_CMP_GE_OQ>(v, limit));
                [
                    _mm256_castsi256_pd(_mm256_cvtepi32_epi64(_mm256_castsi256_si128(keep))),
                    _mm256_castsi256_pd(_mm256_cvtepi32_epi64(_mm256_extracti128_si256::<1>(keep))),
                ]
            }
        }
        let (low, high) = (masks(v.0, limit.0), masks(v.1, limit.1));
        // A sum is never -0, so that adding 0 changes nothing.
        // SAFETY: see above the impl.
        unsafe {
            [
                _mm256_add_pd(sum[0], _mm256_and_pd(wide[0], low[0])),
                _mm256_add_pd(sum[1], _mm256_and_pd(wide[1], low[1])),
                _mm256_add_pd(sum[2], _mm256_and_pd(wide[2], high[0])),
                _mm256_add_pd(sum[3], _mm256_and_pd(wide[3], high[1])),
            ]
        }
    }
    #[inline(always)]
    fn wide_array(self, d: Self::D) -> [f64; LANES] {
        let mut a = [0.0; LANES];
        // SAFETY: see above the impl; `a` is sixteen doubles.
        unsafe {
            _mm256_storeu_pd(a.as_mut_ptr(), d[0]);
            _mm256_storeu_pd(a.as_mut_ptr().add(4), d[1]);
            _mm256_storeu_pd(a.as_mut_ptr().add(8), d[2]);
            _mm256_storeu_pd(a.as_mut_ptr().add(12), d[3]);
        }
        a
    }
    #[inline(always)]
    fn at_least(self, a: V, b: V) -> u16 {
        // SAFETY: see above the impl.
        unsafe {
            let low = _mm256_movemask_ps(_mm256_cmp_ps::<_CMP_GE_OQ>(a.0, b.0));
            let high = _mm256_movemask_ps(_mm256_cmp_ps::<_CMP_GE_OQ>(a.1, b.1));
            (low | high << 8) as u16
        }
    }
    #[inline(always)]
    fn round_bf16(self, v: V) -> V {
        #[inline(always)]
        fn half(v: __m256) -> __m256 {
            // SAFETY: see above the impl.
            unsafe {
                let half = _mm256_add_epi32(_mm256_castps_si256(v), _mm256_set1_epi32(0x8000));
                _mm256_castsi256_ps(_mm256_and_si256(half, _mm256_set1_epi32(!0xffff)))
            }
        }
        (half(v.0), half(v.1))
    }
    #[inline(always)]
    fn add_exponent(self, v: V, n: V) -> V {
        #[inline(always)]
        fn half(v: __m256, n: __m256) -> __m256 {
            // SAFETY: see above the impl.
            unsafe {
                let n = _mm256_slli_epi32::<23>(_mm256_castps_si256(n));
                _mm256_castsi256_ps(_mm256_add_epi32(_mm256_castps_si256(v), n))
            }
        }
        (half(v.0, n.0), half(v.1, n.1))
    }
    #[inline(always)]
    fn zero_below(self, v: V, x: V, limit: f32) -> V {
        #[inline(always)]
        fn half(v: __m256, x: __m256, limit: f32) -> __m256 {
            // SAFETY: see above the impl.
            unsafe { _mm256_and_ps(v, _mm256_cmp_ps::<_CMP_GE_OQ>(x, _mm256_set1_ps(limit))) }
        }
        (half(v.0, x.0, limit), half(v.1, x.1, limit))
    }
}
