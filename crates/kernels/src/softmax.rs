//! Over one row of logits: largest value, weights, log of the sum of exponentials.
//!
//! NaN counts as minus infinity everywhere.

use crate::Isa;
use crate::isa::Task;
use crate::simd::{LANES, Simd};

/// Index of the largest value; the lowest of equals. 0 if there is none above minus infinity.
#[must_use]
pub fn argmax(x: &[f32]) -> usize {
    let mut best = (0, f32::NEG_INFINITY);
    for (i, x) in x.iter().enumerate() {
        if *x > best.1 {
            best = (i, *x);
        }
    }
    best.0
}

/// The largest value; minus infinity if there is none.
#[must_use]
pub fn max(isa: Isa, x: &[f32]) -> f32 {
    isa.run(Max(x))
}

/// `out[i] = e^((x[i] - max) * scale)`.
///
/// # Panics
/// If the lengths differ.
pub fn exp_weights(isa: Isa, x: &[f32], max: f32, scale: f32, out: &mut [f32]) {
    assert_eq!(x.len(), out.len());
    isa.run(Weights { x, max, scale, out });
}

/// ln Σ e^x. Minus infinity if all are; plus infinity if one is.
#[must_use]
pub fn log_sum_exp(isa: Isa, x: &[f32]) -> f32 {
    let max = max(isa, x);
    if max.is_infinite() {
        return max;
    }
    max + isa.run(Sum { x, max }).ln()
}

struct Max<'a>(&'a [f32]);

impl Task for Max<'_> {
    type Output = f32;
    #[inline(always)]
    fn run<S: Simd>(self, s: S) -> f32 {
        let mut best = s.splat(f32::NEG_INFINITY);
        for_vectors(s, self.0, f32::NEG_INFINITY, |_, _, v| {
            best = s.max(v, best)
        });
        s.max_lane(best)
    }
}

struct Sum<'a> {
    x: &'a [f32],
    max: f32,
}

impl Task for Sum<'_> {
    type Output = f32;
    #[inline(always)]
    fn run<S: Simd>(self, s: S) -> f32 {
        let max = s.splat(self.max);
        let mut sum = s.splat(0.0);
        for_vectors(s, self.x, f32::NEG_INFINITY, |_, _, v| {
            sum = s.add(sum, s.exp(s.sub(v, max)))
        });
        s.sum(sum)
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
        for_vectors(s, self.x, f32::NEG_INFINITY, |at, n, v| {
            let w = s.exp(s.mul(s.sub(v, max), scale));
            // SAFETY: `at + n <= x.len() == out.len()`, checked in `exp_weights`.
            unsafe {
                if n == LANES {
                    s.store(out.add(at), w);
                } else {
                    s.store_part(out.add(at), w, n);
                }
            }
        });
    }
}

/// Calls `body(index, valid lanes, vector)` over `x`, the last vector filled up with `fill`.
#[inline(always)]
fn for_vectors<S: Simd>(s: S, x: &[f32], fill: f32, mut body: impl FnMut(usize, usize, S::V)) {
    let mut i = 0;
    while i + LANES <= x.len() {
        // SAFETY: sixteen floats from `i` are inside.
        body(i, LANES, unsafe { s.load(x.as_ptr().add(i)) });
        i += LANES;
    }
    let n = x.len() - i;
    if n > 0 {
        // SAFETY: `n` floats from `i` are inside.
        body(i, n, unsafe { s.load_part(x.as_ptr().add(i), n, fill) });
    }
}

/// [`log_sum_exp`] in float64, for finite values. Tolerance of the fast one: 1e-6 relative.
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
    use crate::testing::{SIZES, assert_close, noise};

    #[test]
    fn equals_the_reference() {
        for isa in Isa::all() {
            for n in SIZES.into_iter().chain([151_936]) {
                let x: Vec<f32> = noise(n, 8).iter().map(|x| x * 20.0).collect();
                let want = log_sum_exp_reference(&x);
                assert_close(&[log_sum_exp(isa, &x)], &[want], 1e-6);
                let top = x.iter().copied().fold(f32::NEG_INFINITY, f32::max);
                assert_eq!(max(isa, &x), top);
                assert_eq!(x[argmax(&x)], top);
                let mut w = vec![0.0; n];
                exp_weights(isa, &x, top, 0.5, &mut w);
                let want: Vec<f64> = x
                    .iter()
                    .map(|x| ((f64::from(*x) - f64::from(top)) * 0.5).exp())
                    .collect();
                assert_close(&w, &want, 1e-6);
            }
        }
    }

    #[test]
    fn edges() {
        const INF: f32 = f32::INFINITY;
        for isa in Isa::all() {
            assert_eq!(log_sum_exp(isa, &[]), -INF);
            assert_eq!(log_sum_exp(isa, &[-INF, -INF]), -INF);
            assert_eq!(log_sum_exp(isa, &[0.0, INF]), INF);
            assert!((log_sum_exp(isa, &[f32::NAN, 1.5, -INF]) - 1.5).abs() < 1e-6);
            assert_eq!(max(isa, &[f32::NAN, -3.0]), -3.0);
        }
        assert_eq!(argmax(&[1.0, 2.0, 2.0]), 1);
        assert_eq!(argmax(&[f32::NAN, -1.0]), 1);
        assert_eq!(argmax(&[f32::NAN, -INF]), 0);
    }
}
