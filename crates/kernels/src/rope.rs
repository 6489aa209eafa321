//! Rotary position embedding, half-split layout: element `i` of a head turns with element
//! `i + head_dim / 2`.

use crate::Cpu;
use crate::isa::Task;
use crate::simd::Simd;

/// Cosines and sines, float32 whatever the model's dtype, for as many positions as were asked
/// for so far.
#[derive(Clone, Debug)]
pub struct RopeTable {
    /// `[positions][cos: half | sin: half]`.
    table: Vec<f32>,
    frequencies: Vec<f32>,
}

impl RopeTable {
    /// An empty table of heads of `head_dim` and base `theta`.
    ///
    /// # Panics
    /// If `head_dim` is odd.
    #[must_use]
    pub fn new(head_dim: usize, theta: f64) -> Self {
        assert!(
            head_dim.is_multiple_of(2),
            "rotary heads have an even dimension"
        );
        // Frequencies are rounded to float32 before they meet the position: so they were when
        // the checkpoints were trained.
        let frequencies = (0..head_dim / 2)
            .map(|i| theta.powf(-((2 * i) as f64) / head_dim as f64) as f32)
            .collect();
        Self {
            table: Vec::new(),
            frequencies,
        }
    }

    /// Positions the table covers.
    #[must_use]
    pub fn positions(&self) -> usize {
        self.table.len() / (2 * self.frequencies.len())
    }

    /// Extends the table to at least `positions`.
    pub fn cover(&mut self, positions: usize) {
        let have = self.positions();
        if positions <= have {
            return;
        }
        let target = positions.next_power_of_two().max(256);
        self.table
            .reserve_exact((target - have) * 2 * self.frequencies.len());
        for position in have..target {
            let angle = |f: &f32| f64::from(position as f32 * f);
            self.table
                .extend(self.frequencies.iter().map(|f| angle(f).cos() as f32));
            self.table
                .extend(self.frequencies.iter().map(|f| angle(f).sin() as f32));
        }
    }

    #[inline(always)]
    fn at(&self, position: usize) -> (&[f32], &[f32]) {
        let half = self.frequencies.len();
        self.table[position * 2 * half..][..2 * half].split_at(half)
    }
}

/// Turns, in place, `heads` heads at column `offset` of each row of `x: [rows, stride]`;
/// `positions[row]` is the row's position in its sequence.
///
/// # Panics
/// If the heads do not fit into a row, or the table does not cover a position.
pub fn rope(
    cpu: Cpu,
    table: &RopeTable,
    x: &mut [f32],
    stride: usize,
    offset: usize,
    heads: usize,
    positions: &[u32],
) {
    let width = heads * 2 * table.frequencies.len();
    assert!(offset + width <= stride);
    assert_eq!(x.len(), positions.len() * stride);
    let work = 4 * (positions.len() * width) as u64;
    cpu.parallel.for_row_runs(x, stride, work, |first, x| {
        let positions = &positions[first..];
        cpu.isa.run(Rows {
            table,
            x,
            stride,
            offset,
            width,
            positions,
        });
    });
}

struct Rows<'a> {
    table: &'a RopeTable,
    x: &'a mut [f32],
    stride: usize,
    offset: usize,
    width: usize,
    positions: &'a [u32],
}

impl Task for Rows<'_> {
    type Output = ();
    #[inline(always)]
    fn run<S: Simd>(self, _: S) {
        let half = self.table.frequencies.len();
        for (row, position) in self.x.chunks_exact_mut(self.stride).zip(self.positions) {
            let (cos, sin) = self.table.at(*position as usize);
            for head in row[self.offset..][..self.width].chunks_exact_mut(2 * half) {
                let (low, high) = head.split_at_mut(half);
                for (((a, b), c), s) in low.iter_mut().zip(high).zip(cos).zip(sin) {
                    (*a, *b) = (*a * c - *b * s, *b * c + *a * s);
                }
            }
        }
    }
}

/// One head turned in float64. Tolerance of the fast one: 1e-4 absolute at position 10^4 (the
/// angle is rounded to float32), 1e-6 near the start.
#[must_use]
pub fn rope_reference(head: &[f32], theta: f64, position: usize) -> Vec<f64> {
    let half = head.len() / 2;
    let mut out = vec![0.0; head.len()];
    for i in 0..half {
        let angle = position as f64 * theta.powf(-((2 * i) as f64) / head.len() as f64);
        let (a, b) = (f64::from(head[i]), f64::from(head[i + half]));
        out[i] = a * angle.cos() - b * angle.sin();
        out[i + half] = b * angle.cos() + a * angle.sin();
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{assert_close, cpus, noise};

    #[test]
    fn equals_the_reference() {
        for cpu in cpus() {
            for head_dim in [2, 6, 16, 30, 32, 64, 80, 128] {
                let mut table = RopeTable::new(head_dim, 10_000.0);
                table.cover(300);
                let (offset, heads) = (3, 3);
                let stride = offset + heads * head_dim + 5;
                let positions = [0, 1, 299, 7, 64];
                let x = noise(positions.len() * stride, 6);
                let mut y = x.clone();
                rope(cpu, &table, &mut y, stride, offset, heads, &positions);
                for (r, p) in positions.iter().enumerate() {
                    let (x, y) = (&x[r * stride..][..stride], &y[r * stride..][..stride]);
                    assert_eq!(x[..offset], y[..offset]);
                    assert_eq!(x[stride - 5..], y[stride - 5..]);
                    for h in 0..heads {
                        let at = offset + h * head_dim..offset + (h + 1) * head_dim;
                        let want = rope_reference(&x[at.clone()], 10_000.0, *p as usize);
                        assert_close(&y[at], &want, 2e-5);
                    }
                }
            }
        }
    }

    #[test]
    fn far_positions_keep_their_precision() {
        let mut table = RopeTable::new(64, 1e6);
        table.cover(30_001);
        let x = noise(64, 7);
        let mut y = x.clone();
        rope(Cpu::serial(), &table, &mut y, 64, 0, 1, &[30_000]);
        // A bfloat16 table is off by whole turns here.
        assert_close(&y, &rope_reference(&x, 1e6, 30_000), 3e-3);
    }

    #[test]
    fn growing_changes_nothing() {
        let mut grown = RopeTable::new(8, 500.0);
        grown.cover(10);
        grown.cover(1000);
        let mut whole = RopeTable::new(8, 500.0);
        whole.cover(1000);
        assert_eq!(grown.table, whole.table);
    }
}
