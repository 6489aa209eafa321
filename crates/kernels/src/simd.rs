//! Vectors of sixteen float32 lanes, on the registers of each tier.
//!
//! Every tier has the same sixteen lanes and the same order of operations, so that all tiers
//! with fused multiply-add give the same bits.

#[cfg(target_arch = "x86_64")]
pub(crate) mod amx;
#[cfg(target_arch = "x86_64")]
pub(crate) mod avx2;
#[cfg(target_arch = "x86_64")]
pub(crate) mod avx512;
mod int8;
#[cfg(target_arch = "aarch64")]
pub(crate) mod neon;
mod portable;
#[cfg(any(test, target_arch = "x86_64"))]
pub(crate) mod tiles;
#[cfg(target_arch = "x86_64")]
pub(crate) mod vnni;

pub(crate) use int8::Int8;
pub(crate) use portable::Portable;

use crate::isa::Task;

/// Lanes of a vector.
pub(crate) const LANES: usize = 16;

/// Adding this number, 1.5 * 2^23, rounds to an integer, which is then in the low bits of the sum.
const ROUND: f32 = 12_582_912.0;

/// Prefetches the cache line at `p` on x86-64. Any address is allowed.
#[inline(always)]
pub(crate) fn prefetch(p: *const u8) {
    // SAFETY: the instruction, which every x86-64 machine has, reads nothing and never faults.
    #[cfg(target_arch = "x86_64")]
    unsafe {
        std::arch::x86_64::_mm_prefetch::<{ std::arch::x86_64::_MM_HINT_T1 }>(p.cast());
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = p;
}

/// The definition of [`Simd::dot_pairs`], lane by lane.
#[inline(always)]
fn dot_pairs_plainly<S: Simd>(s: S, a: S::V, b: S::V, sum: S::V) -> S::V {
    let (a, b, sum) = (s.to_array(a), s.to_array(b), s.to_array(sum));
    let halves = |word: f32| [word.to_bits() << 16, word.to_bits() & !0xffff].map(f32::from_bits);
    s.vector(std::array::from_fn(|lane| {
        let ([a0, a1], [b0, b1]) = (halves(a[lane]), halves(b[lane]));
        a0.mul_add(b0, a1.mul_add(b1, sum[lane]))
    }))
}

/// Vector instructions of a tier. Values of implementing types exist only where the
/// instructions do.
pub(crate) trait Simd: Copy {
    /// Sixteen float32.
    type V: Copy;
    /// Sixteen float64, for sums.
    type D: Copy;
    /// Whether the register file holds about thirty `V`s (AVX-512) or about seven (AVX2).
    const WIDE: bool;

    /// Runs `task` as a separate function with the same instructions. Compile time grows faster
    /// than the length of a function, so long bodies with several uses are called and not inlined.
    fn call<T: Task>(self, task: T) -> T::Output;

    fn splat(self, x: f32) -> Self::V;
    /// # Safety
    /// `p` must be valid for reading 16 floats.
    unsafe fn load(self, p: *const f32) -> Self::V;
    /// Sixteen bfloat16: those at the even places of `p`, or at the odd ones. Widening is exact.
    /// # Safety
    /// `p` must be valid for reading 32 words.
    unsafe fn load_bf16(self, p: *const u16, odd: bool) -> Self::V;
    /// The dot products of sixteen pairs of bfloat16, added to `sum`. The lower half of a word is
    /// the first of a pair. The result is `a.0 * b.0 + (a.1 * b.1 + sum)` with two roundings, in the
    /// order of VDPBF16PS. That instruction takes subnormal numbers for 0, so operands are 0 or at
    /// least [`TINY`](crate::kv::TINY) in magnitude, which makes the results equal on every tier.
    ///
    /// Only tiers with the instruction are fast ([`Isa::run_bf16`](crate::Isa::run_bf16)).
    #[inline(always)]
    fn dot_pairs(self, a: Self::V, b: Self::V, sum: Self::V) -> Self::V {
        dot_pairs_plainly(self, a, b, sum)
    }
    /// Sixteen float16. Widening is exact.
    /// # Safety
    /// `p` must be valid for reading 16 words.
    unsafe fn load_f16(self, p: *const u16) -> Self::V;
    /// # Safety
    /// `p` must be valid for writing 16 floats.
    unsafe fn store(self, p: *mut f32, v: Self::V);
    fn add(self, a: Self::V, b: Self::V) -> Self::V;
    fn sub(self, a: Self::V, b: Self::V) -> Self::V;
    fn mul(self, a: Self::V, b: Self::V) -> Self::V;
    fn div(self, a: Self::V, b: Self::V) -> Self::V;
    /// The larger of `a` and `b` in each lane; `b` if `a` is NaN.
    fn max(self, a: Self::V, b: Self::V) -> Self::V;
    /// The smaller of `a` and `b` in each lane; `b` if `a` is NaN.
    fn min(self, a: Self::V, b: Self::V) -> Self::V;
    /// `a * b + c`, rounded once where the machine can.
    fn fma(self, a: Self::V, b: Self::V, c: Self::V) -> Self::V;
    /// `v * 2^n` for integral `n` in -126..=127.
    fn scale(self, v: Self::V, n: Self::V) -> Self::V;
    fn widen(self, v: Self::V) -> Self::D;
    fn add_wide(self, a: Self::D, b: Self::D) -> Self::D;
    /// `sum + wide` in the lanes where `v >= limit`, else `sum`.
    fn add_where(self, sum: Self::D, wide: Self::D, v: Self::V, limit: Self::V) -> Self::D;
    fn wide_array(self, d: Self::D) -> [f64; LANES];
    /// Bit `i` is set where lane `i` of `a` is at least that of `b`.
    fn at_least(self, a: Self::V, b: Self::V) -> u16;

    /// Stores the upper halves of the lanes.
    /// # Safety
    /// `p` must be valid for writing 16 words.
    #[inline(always)]
    unsafe fn store_bf16(self, p: *mut u16, v: Self::V) {
        for (i, x) in self.to_array(v).into_iter().enumerate() {
            // SAFETY: the caller's promise.
            unsafe { *p.add(i) = (x.to_bits() >> 16) as u16 };
        }
    }

    /// Rounds to the eight leading bits, those of a bfloat16; ties away from 0.
    fn round_bf16(self, v: Self::V) -> Self::V;

    /// `v * 2^n` for `n` given as `n + ROUND` ([`ROUND`]), if neither is 0 or subnormal.
    fn add_exponent(self, v: Self::V, n: Self::V) -> Self::V;

    /// 2^v for v at most 0, rounded to eight bits after a relative error of less than 1e-4; 0
    /// where v is below -49.
    #[inline(always)]
    fn exp2_bf16(self, v: Self::V) -> Self::V {
        // 2^-60 is a normal number, which `add_exponent` requires. Lanes below -49 become 0 at the
        // end.
        let x = self.max(v, self.splat(-60.0));
        let shifted = self.add(x, self.splat(ROUND));
        let r = self.sub(x, self.sub(shifted, self.splat(ROUND)));
        // Minimax polynomial of 2^r on [-1/2, 1/2].
        let mut p = self.splat(5.517_167e-2);
        for c in [0.242_611_12, 0.693_261, 0.999_928_06] {
            p = self.fma(p, r, self.splat(c));
        }
        let rounded = self.round_bf16(self.add_exponent(p, shifted));
        self.zero_below(rounded, v, -49.0)
    }

    #[inline(always)]
    fn to_array(self, v: Self::V) -> [f32; LANES] {
        let mut a = [0.0; LANES];
        // SAFETY: `a` is sixteen floats.
        unsafe { self.store(a.as_mut_ptr(), v) };
        a
    }

    #[inline(always)]
    fn vector(self, a: [f32; LANES]) -> Self::V {
        // SAFETY: `a` is sixteen floats.
        unsafe { self.load(a.as_ptr()) }
    }

    /// Loads `n < 16` floats, `fill` in the other lanes.
    /// # Safety
    /// `p` must be valid for reading `n` floats.
    #[inline(always)]
    unsafe fn load_part(self, p: *const f32, n: usize, fill: f32) -> Self::V {
        let mut a = [fill; LANES];
        // SAFETY: the caller's promise; `n < 16`.
        unsafe { std::ptr::copy_nonoverlapping(p, a.as_mut_ptr(), n.min(LANES)) };
        self.vector(a)
    }

    /// Stores the first `n < 16` lanes.
    /// # Safety
    /// `p` must be valid for writing `n` floats.
    #[inline(always)]
    unsafe fn store_part(self, p: *mut f32, v: Self::V, n: usize) {
        let a = self.to_array(v);
        // SAFETY: the caller's promise; `n < 16`.
        unsafe { std::ptr::copy_nonoverlapping(a.as_ptr(), p, n.min(LANES)) };
    }

    /// Loads `n <= 16` floats, `fill` in the other lanes.
    /// # Safety
    /// `p` must be valid for reading `n` floats.
    #[inline(always)]
    unsafe fn load_first(self, p: *const f32, n: usize, fill: f32) -> Self::V {
        // SAFETY: the caller's promise.
        unsafe {
            match n {
                LANES => self.load(p),
                _ => self.load_part(p, n, fill),
            }
        }
    }

    /// Stores the first `n <= 16` lanes.
    /// # Safety
    /// `p` must be valid for writing `n` floats.
    #[inline(always)]
    unsafe fn store_first(self, p: *mut f32, v: Self::V, n: usize) {
        // SAFETY: the caller's promise.
        unsafe {
            match n {
                LANES => self.store(p, v),
                _ => self.store_part(p, v, n),
            }
        }
    }

    /// Stores the lanes of `mask` one after the other.
    /// # Safety
    /// `p` must be valid for writing 16 floats. Floats beyond the kept lanes may change.
    #[inline(always)]
    unsafe fn compress(self, p: *mut f32, v: Self::V, mask: u16) {
        if mask == 0 {
            return;
        }
        // Every lane is written, and a lane that the mask drops is overwritten by the next one.
        // This needs no branch per lane.
        let mut to = 0;
        for (i, x) in self.to_array(v).into_iter().enumerate() {
            // SAFETY: the caller's promise; at most `i` lanes were kept before.
            unsafe { *p.add(to) = x };
            to += usize::from(mask >> i & 1);
        }
    }

    /// Sum of the lanes: a tree over halves, the same in every tier.
    #[inline(always)]
    fn sum_wide(self, d: Self::D) -> f64 {
        let mut a = self.wide_array(d);
        let mut half = LANES / 2;
        while half > 0 {
            for i in 0..half {
                a[i] += a[i + half];
            }
            half /= 2;
        }
        a[0]
    }

    /// Sum of the lanes: a tree over halves, the same in every tier.
    #[inline(always)]
    fn sum(self, v: Self::V) -> f32 {
        let mut a = self.to_array(v);
        let mut half = LANES / 2;
        while half > 0 {
            for i in 0..half {
                a[i] += a[i + half];
            }
            half /= 2;
        }
        a[0]
    }
    /// The bits of the largest magnitude in two vectors. Magnitudes are ordered as their bits are,
    /// NaN above all.
    #[inline(always)]
    fn largest(self, v: [Self::V; 2]) -> u32 {
        let magnitudes = v.map(|v| self.to_array(v).map(|x| x.to_bits() & 0x7fff_ffff));
        magnitudes.iter().flatten().fold(0, |max, x| max.max(*x))
    }
    /// Rounds to whole numbers (ties to even), which must be in -127..=127, and returns them as
    /// bytes, with their sum.
    #[inline(always)]
    fn to_bytes(self, v: Self::V) -> ([u8; LANES], i32) {
        let bytes = self.to_array(v).map(|x| (x + ROUND).to_bits() as u8);
        let sum = bytes.iter().map(|byte| i32::from(byte.cast_signed())).sum();
        (bytes, sum)
    }

    /// The largest lane, compared pairwise like [`max`](Self::max).
    #[inline(always)]
    fn max_lane(self, v: Self::V) -> f32 {
        let mut a = self.to_array(v);
        let mut half = LANES / 2;
        while half > 0 {
            // `f32::max` would ignore a NaN, but `max` of the tiers returns the right operand if
            // the left one is NaN.
            for i in 0..half {
                a[i] = if a[i] > a[i + half] {
                    a[i]
                } else {
                    a[i + half]
                };
            }
            half /= 2;
        }
        a[0]
    }

    /// e^v to about 1 unit in the last place. Below -87.3 the result is about 1e-38 or, at
    /// -infinity and below -100, exactly zero; above 88 it stays finite at about 1.6e38.
    #[inline(always)]
    fn exp(self, v: Self::V) -> Self::V {
        const LOG2_E: f32 = std::f32::consts::LOG2_E;
        // ln 2 in two parts: n * LN2_HI is exact for |n| < 2^9.
        const LN2_HI: f32 = 0.693_359_4;
        const LN2_LO: f32 = -2.121_944_4e-4;
        // The clamp keeps `n` in -126..=127, the range of `scale`.
        let x = self.max(self.min(v, self.splat(88.0)), self.splat(-87.3));
        let n = self.sub(
            self.fma(x, self.splat(LOG2_E), self.splat(ROUND)),
            self.splat(ROUND),
        );
        let r = self.fma(n, self.splat(-LN2_HI), x);
        let r = self.fma(n, self.splat(-LN2_LO), r);
        // Minimax polynomial of Cephes expf on [-ln2/2, ln2/2].
        let mut p = self.splat(1.987_569_1e-4);
        for c in [
            1.398_199_9e-3,
            8.333_452e-3,
            4.166_579_6e-2,
            1.666_666_5e-1,
            0.5,
        ] {
            p = self.fma(p, r, self.splat(c));
        }
        let p = self.fma(self.mul(p, r), r, self.add(r, self.splat(1.0)));
        self.zero_below(self.scale(p, n), v, -100.0)
    }

    /// `v` where `x >= limit`, else 0.
    fn zero_below(self, v: Self::V, x: Self::V, limit: f32) -> Self::V;
}

#[cfg(test)]
mod tests {
    use std::array::from_fn;

    use super::*;
    use crate::isa::Task;
    use crate::kv::nearest_bf16;
    use crate::testing::noise;
    use crate::{Isa, IsaLevel};

    struct Exp([f32; LANES]);
    impl Task for Exp {
        type Output = [f32; LANES];
        #[inline(always)]
        fn run<S: Simd>(self, s: S) -> [f32; LANES] {
            s.to_array(s.exp(s.vector(self.0)))
        }
    }

    struct Sum([f32; LANES]);
    impl Task for Sum {
        type Output = f32;
        #[inline(always)]
        fn run<S: Simd>(self, s: S) -> f32 {
            s.sum(s.vector(self.0))
        }
    }

    struct DotPairs([[f32; LANES]; 3]);
    impl Task for DotPairs {
        type Output = [f32; LANES];
        #[inline(always)]
        fn run<S: Simd>(self, s: S) -> [f32; LANES] {
            let [a, b, sum] = self.0.map(|x| s.vector(x));
            s.to_array(s.dot_pairs(a, b, sum))
        }
    }

    #[test]
    fn pairs_are_multiplied_in_one_order() {
        fn pairs(seed: u64) -> [[f32; 2]; LANES] {
            let numbers = noise(2 * LANES, seed);
            from_fn(|i| [0, 1].map(|odd| nearest_bf16(numbers[2 * i + odd])))
        }
        fn packed(pair: [f32; 2]) -> f32 {
            f32::from_bits(pair[0].to_bits() >> 16 | pair[1].to_bits())
        }
        let (a, b) = (pairs(1), pairs(2));
        // Sums so large that each product is rounded.
        let sum: [f32; LANES] = from_fn(|i| 1e4 / (3 + i) as f32);
        // The second product of a pair comes first, and the numbers tell the orders apart.
        let [want, other]: [[f32; LANES]; 2] = [1, 0].map(|first| {
            from_fn(|i| {
                let last = 1 - first;
                let sum = a[i][first].mul_add(b[i][first], sum[i]);
                a[i][last].mul_add(b[i][last], sum)
            })
        });
        assert_ne!(want, other);
        let task = || DotPairs([a.map(packed), b.map(packed), sum]);
        for isa in Isa::all() {
            assert_eq!(isa.run(task()), want, "{isa:?}");
            let isa = isa.with_bf16(true);
            if isa.bf16() {
                assert_eq!(isa.run_bf16(task()), want, "{isa:?}");
            }
        }
    }

    #[test]
    fn exp_is_accurate_over_its_range() {
        for isa in Isa::all() {
            let mut x = -87.0f32;
            while x < 88.0 {
                let input: [f32; LANES] = std::array::from_fn(|i| x + i as f32 * 0.007);
                for (x, y) in input.iter().zip(isa.run(Exp(input))) {
                    if *x > 88.0 {
                        continue;
                    }
                    let want = f64::from(*x).exp();
                    let relative = (f64::from(y) - want).abs() / want;
                    assert!(relative < 3e-7, "{isa:?} exp({x}) = {y}, want {want}");
                }
                x += 0.113;
            }
        }
    }

    #[test]
    fn exp_at_the_edges() {
        for isa in Isa::all() {
            let mut x = [0.0; LANES];
            x[1] = f32::NEG_INFINITY;
            x[2] = -1e30;
            x[3] = f32::INFINITY;
            x[4] = -101.0;
            x[5] = -90.0;
            let y = isa.run(Exp(x));
            assert_eq!(y[0], 1.0);
            assert_eq!((y[1], y[2], y[4]), (0.0, 0.0, 0.0));
            assert!(y[3].is_finite() && y[3] > 1e38);
            assert!(y[5] > 0.0 && y[5] < 2e-38);
        }
    }

    struct Widen([u16; 2 * LANES]);
    impl Task for Widen {
        /// Even and odd bfloat16, then the first sixteen float16.
        type Output = [[f32; LANES]; 3];
        #[inline(always)]
        fn run<S: Simd>(self, s: S) -> Self::Output {
            let p = self.0.as_ptr();
            // SAFETY: 32 words.
            unsafe { [s.load_bf16(p, false), s.load_bf16(p, true), s.load_f16(p)] }
                .map(|v| s.to_array(v))
        }
    }

    #[test]
    fn widens_every_half_exactly() {
        for isa in Isa::all() {
            for first in (0..=u16::MAX).step_by(2 * LANES) {
                let words: [u16; 2 * LANES] = std::array::from_fn(|i| first + i as u16);
                let [even, odd, f16] = isa.run(Widen(words));
                for i in 0..LANES {
                    let same = |a: f32, b: f32| {
                        assert!(a.to_bits() == b.to_bits() || a.is_nan() && b.is_nan());
                    };
                    same(even[i], half::bf16::from_bits(words[2 * i]).to_f32());
                    same(odd[i], half::bf16::from_bits(words[2 * i + 1]).to_f32());
                    same(f16[i], half::f16::from_bits(words[i]).to_f32());
                }
                // The second half of the words as float16.
                let mut turned = words;
                turned.rotate_left(LANES);
                let [.., f16] = isa.run(Widen(turned));
                for (got, word) in f16.iter().zip(turned) {
                    let want = half::f16::from_bits(word).to_f32();
                    assert!(got.to_bits() == want.to_bits() || got.is_nan() && want.is_nan());
                }
            }
        }
    }

    #[test]
    fn tiers_with_fma_agree_bitwise() {
        let fused: Vec<Isa> = Isa::all()
            .into_iter()
            .filter(|i| i.level() != IsaLevel::Portable || cfg!(target_arch = "aarch64"))
            .collect();
        let x: [f32; LANES] = std::array::from_fn(|i| (i as f32 - 7.3) * 1.37);
        for pair in fused.windows(2) {
            let (a, b) = (pair[0].run(Exp(x)), pair[1].run(Exp(x)));
            assert_eq!(a.map(f32::to_bits), b.map(f32::to_bits));
            assert_eq!(pair[0].run(Sum(x)).to_bits(), pair[1].run(Sum(x)).to_bits());
        }
    }
}
