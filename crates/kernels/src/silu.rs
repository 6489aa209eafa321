//! The gate of a `SwiGLU` block: `y = gate / (1 + e^-gate) * up`.

use crate::Cpu;
use crate::isa::Task;
use crate::simd::{LANES, Simd};

/// Computes `rows` of `width` floats from rows `[gate | up]` of `2 * width` floats.
///
/// # Panics
/// If the lengths disagree.
pub fn silu_mul(cpu: Cpu, gate_up: &[f32], width: usize, y: &mut [f32]) {
    assert!(width > 0 && y.len().is_multiple_of(width));
    assert_eq!(gate_up.len(), 2 * y.len());
    // The exponential and the division cost about 30 operations per float.
    cpu.parallel
        .for_row_runs(y, width, 30 * gate_up.len() as u64, |first, y| {
            let gate_up = &gate_up[2 * first * width..][..2 * y.len()];
            cpu.isa.run(Rows { gate_up, width, y });
        });
}

struct Rows<'a> {
    gate_up: &'a [f32],
    width: usize,
    y: &'a mut [f32],
}

impl Task for Rows<'_> {
    type Output = ();
    #[inline(always)]
    fn run<S: Simd>(self, s: S) {
        let rows = self.gate_up.chunks_exact(2 * self.width);
        for (row, y) in rows.zip(self.y.chunks_exact_mut(self.width)) {
            let (gate, up) = row.split_at(self.width);
            let mut i = 0;
            while i + LANES <= self.width {
                // SAFETY: `i + 16 <= width`, the length of all three.
                unsafe {
                    let v = body(s, s.load(gate.as_ptr().add(i)), s.load(up.as_ptr().add(i)));
                    s.store(y.as_mut_ptr().add(i), v);
                }
                i += LANES;
            }
            let n = self.width - i;
            if n > 0 {
                // SAFETY: `i + n == width`, the length of all three.
                unsafe {
                    let gate = s.load_part(gate.as_ptr().add(i), n, 0.0);
                    let up = s.load_part(up.as_ptr().add(i), n, 0.0);
                    s.store_part(y.as_mut_ptr().add(i), body(s, gate, up), n);
                }
            }
        }
    }
}

#[inline(always)]
fn body<S: Simd>(s: S, gate: S::V, up: S::V) -> S::V {
    let one = s.splat(1.0);
    let e = s.exp(s.sub(s.splat(0.0), gate));
    s.mul(s.div(gate, s.add(one, e)), up)
}

/// Computes one value of [`silu_mul`] in float64. The relative error of [`silu_mul`] is at most
/// 1e-6.
#[must_use]
pub fn silu_mul_reference(gate: f32, up: f32) -> f64 {
    let gate = f64::from(gate);
    gate / (1.0 + (-gate).exp()) * f64::from(up)
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
                    let x: Vec<f32> = noise(2 * rows * width, 5)
                        .iter()
                        .map(|x| x * 12.0)
                        .collect();
                    let mut y = vec![0.0; rows * width];
                    silu_mul(cpu, &x, width, &mut y);
                    let want: Vec<f64> = (0..rows * width)
                        .map(|i| {
                            let at = i / width * 2 * width + i % width;
                            silu_mul_reference(x[at], x[at + width])
                        })
                        .collect();
                    assert_close(&y, &want, 1e-6);
                }
            }
        }
    }

    #[test]
    fn extreme_gates_stay_finite() {
        for cpu in cpus() {
            let mut y = [0.0; 2];
            silu_mul(cpu, &[-1e4, 1e4, 1.0, 1.0], 2, &mut y);
            assert!(y[0].abs() < 1e-30);
            assert_eq!(y[1], 1e4);
        }
    }
}
