//! Dot products of bytes on x86-64: AVX512-VNNI, AVX-VNNI, and AVX2 without them.

use super::Int8;
use super::avx2::Avx2;
use super::avx512::Avx512;
use std::arch::x86_64::*;

/// Proof that AVX512-VNNI may be executed, in addition to the features of [`Avx512`].
#[derive(Clone, Copy)]
pub(crate) struct Vnni512(Avx512);

impl Vnni512 {
    #[inline]
    #[target_feature(enable = "avx512f,avx512vl,avx512dq,avx512bw,avx512vnni")]
    pub(crate) fn new() -> Self {
        Self(Avx512::new())
    }
}

/// Proof that AVX-VNNI may be executed, in addition to the features of [`Avx2`].
#[derive(Clone, Copy)]
pub(crate) struct Vnni256(Avx2);

impl Vnni256 {
    #[inline]
    #[target_feature(enable = "avx2,fma,f16c,avxvnni")]
    pub(crate) fn new() -> Self {
        Self(Avx2::new())
    }
}

// SAFETY of every block below: values of these types are made only inside functions compiled for
// their features, which `Isa` calls only on machines that have them. Loads rest on the caller's
// promise about the pointer.
impl Int8 for Vnni512 {
    type Floats = Avx512;
    type Bytes = __m512i;
    type Ints = __m512i;
    const TILES: bool = true;

    #[inline(always)]
    fn call<T: crate::isa::Int8Task>(self, task: T) {
        // SAFETY: see above the impl.
        unsafe { crate::isa::run_vnni512(task) }
    }
    #[inline(always)]
    fn floats(self) -> Avx512 {
        self.0
    }
    #[inline(always)]
    fn start(self, offset: i32) -> __m512i {
        // SAFETY: see above the impl.
        unsafe { _mm512_set1_epi32(offset) }
    }
    #[inline(always)]
    unsafe fn load_bytes(self, p: *const u8) -> __m512i {
        // Changing the sign bit makes signed bytes unsigned, with an offset of 128, which `start`
        // compensates.
        // SAFETY: see above the impl.
        unsafe { _mm512_xor_si512(_mm512_loadu_si512(p.cast()), _mm512_set1_epi8(i8::MIN)) }
    }
    #[inline(always)]
    fn dot(self, sum: __m512i, weights: __m512i, x: i32) -> __m512i {
        // SAFETY: see above the impl.
        unsafe { _mm512_dpbusd_epi32(sum, weights, _mm512_set1_epi32(x)) }
    }
    #[inline(always)]
    unsafe fn load_ints(self, p: *const i32) -> __m512i {
        // SAFETY: see above the impl.
        unsafe { _mm512_loadu_si512(p.cast()) }
    }
    #[inline(always)]
    fn to_floats(self, sum: __m512i) -> __m512 {
        // SAFETY: see above the impl.
        unsafe { _mm512_cvtepi32_ps(sum) }
    }
}

type Pair = (__m256i, __m256i);

#[inline(always)]
unsafe fn load_pair(p: *const u8) -> Pair {
    // SAFETY: see above the first impl.
    unsafe {
        (
            _mm256_loadu_si256(p.cast()),
            _mm256_loadu_si256(p.add(32).cast()),
        )
    }
}

#[inline(always)]
fn pair_to_floats(sum: Pair) -> (__m256, __m256) {
    // SAFETY: see above the first impl.
    unsafe { (_mm256_cvtepi32_ps(sum.0), _mm256_cvtepi32_ps(sum.1)) }
}

// SAFETY of every block below: see above the first impl.
impl Int8 for Vnni256 {
    type Floats = Avx2;
    type Bytes = Pair;
    type Ints = Pair;

    #[inline(always)]
    fn call<T: crate::isa::Int8Task>(self, task: T) {
        // SAFETY: see above the impl.
        unsafe { crate::isa::run_vnni256(task) }
    }
    #[inline(always)]
    fn floats(self) -> Avx2 {
        self.0
    }
    #[inline(always)]
    fn start(self, offset: i32) -> Pair {
        // SAFETY: see above the impl.
        let v = unsafe { _mm256_set1_epi32(offset) };
        (v, v)
    }
    #[inline(always)]
    unsafe fn load_bytes(self, p: *const u8) -> Pair {
        // Changing the sign bit makes signed bytes unsigned, with an offset of 128, which `start`
        // compensates.
        // SAFETY: the caller's promise, and see above the impl.
        unsafe {
            let (bytes, sign) = (load_pair(p), _mm256_set1_epi8(i8::MIN));
            (
                _mm256_xor_si256(bytes.0, sign),
                _mm256_xor_si256(bytes.1, sign),
            )
        }
    }
    #[inline(always)]
    fn dot(self, sum: Pair, weights: Pair, x: i32) -> Pair {
        // SAFETY: see above the impl.
        unsafe {
            let x = _mm256_set1_epi32(x);
            (
                _mm256_dpbusd_avx_epi32(sum.0, weights.0, x),
                _mm256_dpbusd_avx_epi32(sum.1, weights.1, x),
            )
        }
    }
    #[inline(always)]
    unsafe fn load_ints(self, p: *const i32) -> Pair {
        // SAFETY: the caller's promise; 16 numbers are 64 bytes.
        unsafe { load_pair(p.cast()) }
    }
    #[inline(always)]
    fn to_floats(self, sum: Pair) -> (__m256, __m256) {
        pair_to_floats(sum)
    }
}

/// `maddubs` adds pairs of products in 16 bits, with saturation: 255 * 127 twice is too much for
/// it, but the weights' magnitudes times the inputs with the weights' signs are at most
/// 2 * 128 * 127 = 32512.
// SAFETY of every block below: see above the first impl.
impl Int8 for Avx2 {
    type Floats = Self;
    type Bytes = Pair;
    type Ints = Pair;

    #[inline(always)]
    fn call<T: crate::isa::Int8Task>(self, task: T) {
        // SAFETY: see above the impl.
        unsafe { crate::isa::run_int8_avx2(task) }
    }
    #[inline(always)]
    fn floats(self) -> Self {
        self
    }
    #[inline(always)]
    fn start(self, _: i32) -> Pair {
        // SAFETY: see above the impl.
        let v = unsafe { _mm256_setzero_si256() };
        (v, v)
    }
    #[inline(always)]
    unsafe fn load_bytes(self, p: *const u8) -> Pair {
        // SAFETY: the caller's promise.
        unsafe { load_pair(p) }
    }
    #[inline(always)]
    fn dot(self, sum: Pair, weights: Pair, x: i32) -> Pair {
        #[inline(always)]
        fn half(sum: __m256i, w: __m256i, x: __m256i) -> __m256i {
            // SAFETY: see above the impl.
            unsafe {
                let pairs = _mm256_maddubs_epi16(_mm256_abs_epi8(w), _mm256_sign_epi8(x, w));
                _mm256_add_epi32(sum, _mm256_madd_epi16(pairs, _mm256_set1_epi16(1)))
            }
        }
        // SAFETY: see above the impl.
        let x = unsafe { _mm256_set1_epi32(x) };
        (half(sum.0, weights.0, x), half(sum.1, weights.1, x))
    }
    #[inline(always)]
    unsafe fn load_ints(self, p: *const i32) -> Pair {
        // SAFETY: the caller's promise; 16 numbers are 64 bytes.
        unsafe { load_pair(p.cast()) }
    }
    #[inline(always)]
    fn to_floats(self, sum: Pair) -> (__m256, __m256) {
        pair_to_floats(sum)
    }
}
