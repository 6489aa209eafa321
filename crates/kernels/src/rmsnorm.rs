//! Root-mean-square normalisation: `y = x / sqrt(mean(x²) + eps) * w`.

use crate::Cpu;
use crate::isa::Task;
use crate::simd::{LANES, Simd};

/// Normalises rows of `weight.len()` from `x` into `y`, both `[rows, weight.len()]`.
///
/// # Panics
/// If the lengths disagree.
pub fn rmsnorm(cpu: Cpu, x: &[f32], weight: &[f32], eps: f32, y: &mut [f32]) {
    let width = weight.len();
    assert_eq!(x.len(), y.len());
    assert!(width > 0 && x.len().is_multiple_of(width));
    cpu.parallel
        .for_row_runs(y, width, 8 * x.len() as u64, |first, y| {
            let x = &x[first * width..][..y.len()];
            cpu.isa.run(Rows { x, weight, eps, y });
        });
}

/// Normalises, in place, `heads` runs of `weight.len()` at column `offset` of each row of
/// `x: [rows, stride]` (the q/k norm of Qwen3).
///
/// # Panics
/// If the heads do not fit into a row.
pub fn rmsnorm_heads(
    cpu: Cpu,
    x: &mut [f32],
    stride: usize,
    offset: usize,
    heads: usize,
    weight: &[f32],
    eps: f32,
) {
    assert!(stride > 0 && x.len().is_multiple_of(stride) && !weight.is_empty());
    assert!(offset + heads * weight.len() <= stride);
    let work = 8 * (x.len() / stride * heads * weight.len()) as u64;
    cpu.parallel.for_row_runs(x, stride, work, |_, x| {
        cpu.isa.run(Heads {
            x,
            stride,
            offset,
            heads,
            weight,
            eps,
        });
    });
}

struct Rows<'a> {
    x: &'a [f32],
    weight: &'a [f32],
    eps: f32,
    y: &'a mut [f32],
}

impl Task for Rows<'_> {
    type Output = ();
    #[inline(always)]
    fn run<S: Simd>(self, s: S) {
        let width = self.weight.len();
        for (x, y) in self
            .x
            .chunks_exact(width)
            .zip(self.y.chunks_exact_mut(width))
        {
            let factor = factor(s, x, self.eps);
            for ((y, x), w) in y.iter_mut().zip(x).zip(self.weight) {
                *y = x * factor * w;
            }
        }
    }
}

struct Heads<'a> {
    x: &'a mut [f32],
    stride: usize,
    offset: usize,
    heads: usize,
    weight: &'a [f32],
    eps: f32,
}

impl Task for Heads<'_> {
    type Output = ();
    #[inline(always)]
    fn run<S: Simd>(self, s: S) {
        let width = self.weight.len();
        for row in self.x.chunks_exact_mut(self.stride) {
            for head in row[self.offset..][..self.heads * width].chunks_exact_mut(width) {
                let factor = factor(s, head, self.eps);
                for (x, w) in head.iter_mut().zip(self.weight) {
                    *x = *x * factor * w;
                }
            }
        }
    }
}

#[inline(always)]
fn factor<S: Simd>(s: S, x: &[f32], eps: f32) -> f32 {
    let mut sum = s.splat(0.0);
    let mut chunks = x.chunks_exact(LANES);
    for c in &mut chunks {
        // SAFETY: `c` is sixteen floats.
        let v = unsafe { s.load(c.as_ptr()) };
        sum = s.fma(v, v, sum);
    }
    let rest = chunks.remainder();
    if !rest.is_empty() {
        // SAFETY: `rest` is `rest.len()` floats.
        let v = unsafe { s.load_part(rest.as_ptr(), rest.len(), 0.0) };
        sum = s.fma(v, v, sum);
    }
    1.0 / (s.sum(sum) / x.len() as f32 + eps).sqrt()
}

/// Computes one row of [`rmsnorm`] in float64. The relative error of [`rmsnorm`] is at most 1e-6.
#[must_use]
pub fn rmsnorm_reference(x: &[f32], weight: &[f32], eps: f32) -> Vec<f64> {
    let square: f64 = x.iter().map(|x| f64::from(*x).powi(2)).sum();
    let factor = 1.0 / (square / x.len() as f64 + f64::from(eps)).sqrt();
    x.iter()
        .zip(weight)
        .map(|(x, w)| f64::from(*x) * factor * f64::from(*w))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{SIZES, assert_close, cpus, noise};

    #[test]
    fn equals_the_reference() {
        for cpu in cpus() {
            for width in SIZES {
                for rows in [1, 3] {
                    let (x, w) = (noise(rows * width, 1), noise(width, 2));
                    let mut y = vec![0.0; x.len()];
                    rmsnorm(cpu, &x, &w, 1e-5, &mut y);
                    for r in 0..rows {
                        let at = r * width..(r + 1) * width;
                        let want = rmsnorm_reference(&x[at.clone()], &w, 1e-5);
                        assert_close(&y[at], &want, 1e-6);
                    }
                }
            }
        }
    }

    #[test]
    fn zero_rows_stay_finite() {
        let mut y = [1.0; 5];
        rmsnorm(Cpu::serial(), &[0.0; 5], &[1.0; 5], 1e-6, &mut y);
        assert_eq!(y, [0.0; 5]);
    }

    #[test]
    fn heads_touch_only_their_columns() {
        for cpu in cpus() {
            let (stride, offset, heads, width) = (37, 3, 3, 9);
            let x = noise(4 * stride, 3);
            let w = noise(width, 4);
            let mut y = x.clone();
            rmsnorm_heads(cpu, &mut y, stride, offset, heads, &w, 1e-6);
            for r in 0..4 {
                let (x, y) = (&x[r * stride..][..stride], &y[r * stride..][..stride]);
                assert_eq!(x[..offset], y[..offset]);
                assert_eq!(x[offset + heads * width..], y[offset + heads * width..]);
                for h in 0..heads {
                    let at = offset + h * width..offset + (h + 1) * width;
                    assert_close(&y[at.clone()], &rmsnorm_reference(&x[at], &w, 1e-6), 1e-6);
                }
            }
        }
    }
}
