//! Reduces a row of logits: the largest values, the weights and their sums, and log-sum-exp.
//!
//! NaN counts as minus infinity everywhere. A row is cut into blocks of [`BLOCK`]; sums are in
//! float64, of sixteen lanes within a block, and of the blocks in their order.

use crate::Isa;
use crate::isa::Task;
use crate::simd::{LANES, Simd, prefetch};

/// Logits of a block.
pub const BLOCK: usize = 1024;

/// The number of maxima that [`maxima`] writes for a row of `len` logits: sixteen per block.
#[must_use]
pub fn maxima_len(len: usize) -> usize {
    len.div_ceil(BLOCK) * LANES
}

/// Returns the largest value; minus infinity if no value is larger. For each block, `out` receives
/// sixteen maxima: maximum `i` is over the values `i`, `i + 16`, `i + 32` and so on of the block.
///
/// # Panics
/// If the length of `out` is not [`maxima_len`].
pub fn maxima(isa: Isa, x: &[f32], out: &mut [f32]) -> f32 {
    assert_eq!(out.len(), maxima_len(x.len()));
    isa.run(Maxima { x, out })
}

/// `out[i] = e^((x[i] - max) * scale)`.
///
/// # Panics
/// If the lengths differ.
pub fn exp_weights(isa: Isa, x: &[f32], max: f32, scale: f32, out: &mut [f32]) {
    assert_eq!(x.len(), out.len());
    isa.run(Weights { x, max, scale, out });
}

/// The input of [`exp_sums`]: a row of logits, and the weights to compute.
#[derive(Clone, Copy, Debug)]
pub struct ExpRow<'a> {
    /// The logits of the row. NaN counts as minus infinity.
    pub x: &'a [f32],
    /// The largest logit of the row, which must be finite.
    pub max: f32,
    /// The factor of `x - max` in the exponent of a weight (one over the temperature); above 0.
    pub scale: f32,
    /// The least weight that counts in the sums of the blocks; 0 counts all.
    pub least: f32,
    /// The row that will be read next, which is prefetched; empty if there is none.
    pub next: &'a [f32],
}

/// Computes weights ([`exp_weights`]) and their sums in one pass over a row. `sums[b]` becomes the
/// sum of the weights of block `b` that are at least `least`. `weights`, if given, receives all
/// weights. Returns Σ e^(x - max) over the whole row.
///
/// # Panics
/// If `sums` does not have one place per block, or `weights` one per logit.
pub fn exp_sums(isa: Isa, row: ExpRow<'_>, weights: Option<&mut [f32]>, sums: &mut [f64]) -> f64 {
    assert_eq!(sums.len(), row.x.len().div_ceil(BLOCK));
    // If the scale is not 1, the sums of blocks and the total have different terms in any case, so
    // `WHOLE` cannot save work.
    let (unit, whole) = (row.scale == 1.0, row.least <= 0.0);
    let Some(out) = weights else {
        return match (unit, whole) {
            (true, true) => isa.run(Sums::<true, true, false>(row, &mut [], sums)),
            (true, false) => isa.run(Sums::<true, false, false>(row, &mut [], sums)),
            (false, _) => isa.run(Sums::<false, false, false>(row, &mut [], sums)),
        };
    };
    assert_eq!(row.x.len(), out.len());
    match (unit, whole) {
        (true, true) => isa.run(Sums::<true, true, true>(row, out, sums)),
        (true, false) => isa.run(Sums::<true, false, true>(row, out, sums)),
        (false, _) => isa.run(Sums::<false, false, true>(row, out, sums)),
    }
}

/// Computes ln Σ e^x: minus infinity if all values are, plus infinity if one value is.
#[must_use]
pub fn log_sum_exp(isa: Isa, x: &[f32]) -> f64 {
    let max = isa.run(Max(x));
    if max.is_infinite() {
        return f64::from(max);
    }
    f64::from(max) + isa.run(Sum { x, max }).ln()
}

/// Runs `$body` for each vector `$v` of `$x`; the last vector is filled up with minus infinity.
/// `$at` is the index of the vector's first value, and `$n` its number of values. This is a macro
/// because a closure around vector code can lose the tier's instructions.
macro_rules! for_vectors {
    ($s:expr, $x:expr, |$at:ident, $n:ident, $v:ident| $body:block) => {
        let x: &[f32] = $x;
        let whole = x.len() / LANES * LANES;
        let mut $at = 0;
        while $at < whole {
            let $n = LANES;
            // SAFETY: sixteen floats from `$at` are inside.
            let $v = unsafe { $s.load(x.as_ptr().add($at)) };
            $body;
            $at += LANES;
        }
        let $n = x.len() - whole;
        if $n > 0 {
            // SAFETY: `$n` floats from `$at` are inside.
            let $v = unsafe { $s.load_part(x.as_ptr().add($at), $n, f32::NEG_INFINITY) };
            $body
        }
    };
}
pub(crate) use for_vectors;

struct Maxima<'a> {
    x: &'a [f32],
    out: &'a mut [f32],
}

impl Task for Maxima<'_> {
    type Output = f32;
    #[inline(always)]
    fn run<S: Simd>(self, s: S) -> f32 {
        let mut best = s.splat(f32::NEG_INFINITY);
        for (block, out) in self.x.chunks(BLOCK).zip(self.out.chunks_exact_mut(LANES)) {
            let most = block_max(s, block);
            // SAFETY: sixteen places.
            unsafe { s.store(out.as_mut_ptr(), most) };
            best = s.max(most, best);
        }
        s.max_lane(best)
    }
}

struct Max<'a>(&'a [f32]);

impl Task for Max<'_> {
    type Output = f32;
    #[inline(always)]
    fn run<S: Simd>(self, s: S) -> f32 {
        s.max_lane(block_max(s, self.0))
    }
}

/// The largest of every sixteenth value.
#[inline(always)]
fn block_max<S: Simd>(s: S, x: &[f32]) -> S::V {
    const LOW: f32 = f32::NEG_INFINITY;
    // Four independent maxima hide the latency of the instruction.
    let (mut a, mut b, mut c, mut d) = (s.splat(LOW), s.splat(LOW), s.splat(LOW), s.splat(LOW));
    let mut fours = x.chunks_exact(4 * LANES);
    for four in &mut fours {
        let p = four.as_ptr();
        // SAFETY: four times sixteen floats.
        unsafe {
            a = s.max(s.load(p), a);
            b = s.max(s.load(p.add(LANES)), b);
            c = s.max(s.load(p.add(2 * LANES)), c);
            d = s.max(s.load(p.add(3 * LANES)), d);
        }
    }
    for_vectors!(s, fours.remainder(), |at, _n, v| { a = s.max(v, a) });
    s.max(s.max(a, b), s.max(c, d))
}

struct Sum<'a> {
    x: &'a [f32],
    max: f32,
}

impl Task for Sum<'_> {
    type Output = f64;
    #[inline(always)]
    fn run<S: Simd>(self, s: S) -> f64 {
        let max = s.splat(self.max);
        let mut total = 0.0;
        // The blocks are added in the order of `exp_sums`, so that both give the same bits.
        for block in self.x.chunks(BLOCK) {
            let mut sum = s.widen(s.splat(0.0));
            for_vectors!(s, block, |at, _n, v| {
                sum = s.add_wide(sum, s.widen(s.exp(s.sub(v, max))));
            });
            total += s.sum_wide(sum);
        }
        total
    }
}

struct Weights<'a> {
    x: &'a [f32],
    max: f32,
    scale: f32,
    out: &'a mut [f32],
}

impl Task for Weights<'_> {
    type Output = ();
    #[inline(always)]
    fn run<S: Simd>(self, s: S) {
        let (max, scale) = (s.splat(self.max), s.splat(self.scale));
        let out = self.out.as_mut_ptr();
        for_vectors!(s, self.x, |at, n, v| {
            let w = s.exp(s.mul(s.sub(v, max), scale));
            // SAFETY: `at + n <= x.len() == out.len()`, checked in `exp_weights`.
            unsafe { s.store_first(out.add(at), w, n) };
        });
    }
}

/// A pass of [`exp_sums`]. `UNIT` means that the scale is 1. `WHOLE` means that `least` drops no
/// weight, so with `UNIT` the sums of blocks add up to the total. `STORE` means that weights are
/// stored.
struct Sums<'a, const UNIT: bool, const WHOLE: bool, const STORE: bool>(
    ExpRow<'a>,
    &'a mut [f32],
    &'a mut [f64],
);

impl<const UNIT: bool, const WHOLE: bool, const STORE: bool> Task for Sums<'_, UNIT, WHOLE, STORE> {
    type Output = f64;
    #[inline(always)]
    fn run<S: Simd>(self, s: S) -> f64 {
        let Self(row, weights, sums) = self;
        let (max, scale) = (s.splat(row.max), s.splat(row.scale));
        let least = s.splat(row.least);
        // Without a next row, this row is prefetched again, which saves a branch in the loop.
        let next = if row.next.is_empty() { row.x } else { row.next };
        let mut total = 0.0;
        for (i, (block, kept)) in row.x.chunks(BLOCK).zip(sums).enumerate() {
            let (mut own, mut some) = (s.widen(s.splat(0.0)), s.widen(s.splat(0.0)));
            for_vectors!(s, block, |at, n, v| {
                let below = s.sub(v, max);
                prefetch(next.as_ptr().wrapping_add(i * BLOCK + at).cast());
                let e = s.exp(below);
                own = s.add_wide(own, s.widen(e));
                if !WHOLE || STORE {
                    let w = if UNIT { e } else { s.exp(s.mul(below, scale)) };
                    if STORE {
                        // SAFETY: as many weights as logits, checked in `exp_sums`.
                        unsafe { s.store_first(weights.as_mut_ptr().add(i * BLOCK + at), w, n) };
                    }
                    if !WHOLE {
                        some = s.add_where(some, s.widen(w), w, least);
                    }
                }
            });
            let sum = s.sum_wide(own);
            *kept = if WHOLE { sum } else { s.sum_wide(some) };
            total += sum;
        }
        total
    }
}

/// Computes [`log_sum_exp`] in float64, for finite values. The absolute error of [`log_sum_exp`] is
/// at most 3e-7, and sums of weights have a relative error of at most 3e-7.
#[must_use]
pub fn log_sum_exp_reference(x: &[f32]) -> f64 {
    let max = x
        .iter()
        .copied()
        .map(f64::from)
        .fold(f64::NEG_INFINITY, f64::max);
    max + x
        .iter()
        .map(|x| (f64::from(*x) - max).exp())
        .sum::<f64>()
        .ln()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::IsaLevel;
    use crate::testing::{SIZES, assert_close, noise};

    const LENGTHS: [usize; 6] = [1000, 1023, 1024, 1025, 3000, 151_936];

    fn lengths() -> impl Iterator<Item = usize> {
        SIZES.into_iter().chain(LENGTHS)
    }

    fn logits(n: usize) -> Vec<f32> {
        noise(n, 8).iter().map(|x| x * 20.0).collect()
    }

    /// Weights of a row in float64.
    fn weights(row: ExpRow<'_>, scale: f64) -> Vec<f64> {
        let max = f64::from(row.max);
        let exponents = row.x.iter().map(|x| (f64::from(*x) - max) * scale);
        exponents.map(f64::exp).collect()
    }

    #[test]
    fn equals_the_reference() {
        for isa in Isa::all() {
            for n in lengths() {
                let x = logits(n);
                let want = log_sum_exp_reference(&x);
                assert!((log_sum_exp(isa, &x) - want).abs() < 3e-7, "{isa:?} {n}");
                let mut most = vec![0.0; maxima_len(n)];
                let max = maxima(isa, &x, &mut most);
                assert_eq!(max, x.iter().copied().fold(f32::NEG_INFINITY, f32::max));
                for (i, most) in most.iter().enumerate() {
                    let (block, lane) = (i / LANES * BLOCK, i % LANES);
                    let column = x[block..n.min(block + BLOCK)].iter().skip(lane);
                    let want = column
                        .step_by(LANES)
                        .copied()
                        .fold(f32::NEG_INFINITY, f32::max);
                    assert_eq!(*most, want);
                }
                let mut w = vec![0.0; n];
                exp_weights(isa, &x, max, 0.5, &mut w);
                let row = ExpRow {
                    x: &x,
                    max,
                    scale: 0.5,
                    least: 0.0,
                    next: &[],
                };
                assert_close(&w, &weights(row, 0.5), 1e-6);
            }
        }
    }

    #[test]
    fn sums_equal_the_reference_in_every_shape() {
        for isa in Isa::all() {
            for n in lengths() {
                let x = logits(n);
                let max = isa.run(Max(&x));
                for (scale, least) in [(1.0, 0.0), (1.0, 0.01), (0.3, 0.0), (2.0, 0.2)] {
                    let row = ExpRow {
                        x: &x,
                        max,
                        scale,
                        least,
                        next: &[],
                    };
                    let mut kept = vec![0.0; n];
                    let mut sums = [vec![0.0; n.div_ceil(BLOCK)], vec![0.0; n.div_ceil(BLOCK)]];
                    let total = exp_sums(isa, row, None, &mut sums[0]);
                    assert_eq!(total, exp_sums(isa, row, Some(&mut kept), &mut sums[1]));
                    assert_eq!(sums[0], sums[1]);
                    let mut w = vec![0.0; n];
                    exp_weights(isa, &x, max, scale, &mut w);
                    assert_eq!(w, kept);
                    // `Sum` keeps no sums of blocks, but it adds the same weights in the same
                    // order.
                    assert_eq!(total, isa.run(Sum { x: &x, max }));
                    let want: f64 = weights(row, 1.0).iter().sum();
                    assert!((total - want).abs() < 3e-7 * want);
                    for (sum, w) in sums[0].iter().zip(w.chunks(BLOCK)) {
                        let some = w.iter().filter(|w| **w >= least);
                        let want: f64 = some.map(|w| f64::from(*w)).sum();
                        assert!((sum - want).abs() <= 1e-13 * want, "{isa:?} {n} {scale}");
                    }
                }
            }
        }
    }

    #[test]
    fn tiers_with_fma_agree_bitwise() {
        let fused = Isa::all().into_iter();
        let fused: Vec<Isa> = fused
            .filter(|i| i.level() != IsaLevel::Portable || cfg!(target_arch = "aarch64"))
            .collect();
        for n in lengths() {
            let x = logits(n);
            let row = ExpRow {
                x: &x,
                max: isa_max(&x),
                scale: 0.7,
                least: 1e-3,
                next: &[],
            };
            let all: Vec<(f64, Vec<f64>)> = fused
                .iter()
                .map(|isa| {
                    let mut sums = vec![0.0; n.div_ceil(BLOCK)];
                    (exp_sums(*isa, row, None, &mut sums), sums)
                })
                .collect();
            assert!(all.windows(2).all(|pair| pair[0] == pair[1]), "{n}");
        }
    }

    fn isa_max(x: &[f32]) -> f32 {
        Isa::detect().run(Max(x))
    }

    #[test]
    fn edges() {
        const INF: f64 = f64::INFINITY;
        const LOW: f32 = f32::NEG_INFINITY;
        for isa in Isa::all() {
            assert_eq!(log_sum_exp(isa, &[]), -INF);
            assert_eq!(log_sum_exp(isa, &[LOW, LOW]), -INF);
            assert_eq!(log_sum_exp(isa, &[0.0, f32::INFINITY]), INF);
            assert!((log_sum_exp(isa, &[f32::NAN, 1.5, LOW]) - 1.5).abs() < 1e-6);
            let mut most = [0.0; LANES];
            assert_eq!(maxima(isa, &[f32::NAN, -3.0], &mut most), -3.0);
            assert_eq!(most[..3], [LOW, -3.0, LOW]);
            let row = ExpRow {
                x: &[f32::NAN, 2.0, LOW],
                max: 2.0,
                scale: 0.5,
                least: 0.0,
                next: &[],
            };
            let (mut weights, mut sums) = ([9.0; 3], [9.0]);
            assert_eq!(exp_sums(isa, row, Some(&mut weights), &mut sums), 1.0);
            assert_eq!((weights, sums), ([0.0, 1.0, 0.0], [1.0]));
        }
    }
}
