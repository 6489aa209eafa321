//! Rotary position embedding, half-split layout: of the first `2 * half` elements of a head,
//! element `i` turns with element `i + half`.

use crate::Cpu;
use crate::isa::Task;
use crate::simd::Simd;

/// The cosines and sines of all positions up to the last [`cover`](Self::cover), in float32
/// whatever the type of the weights.
#[derive(Clone, Debug)]
pub struct RopeTable {
    /// `[positions][cos: half | sin: half]`, where `half` is the number of frequencies.
    table: Vec<f32>,
    frequencies: Vec<f32>,
    head_dim: usize,
    scale: f32,
}

impl RopeTable {
    /// Creates an empty table for heads of `head_dim`. Pair `i` of the first `2 *
    /// frequencies.len()` elements of a head is rotated by `position * frequencies[i]` radians; the
    /// other elements stay unchanged. Cosines and sines are multiplied by `scale` (`YaRN`'s
    /// attention factor, otherwise 1).
    ///
    /// # Panics
    /// If the pairs do not fit into a head.
    #[must_use]
    pub fn new(head_dim: usize, frequencies: &[f64], scale: f64) -> Self {
        assert!(2 * frequencies.len() <= head_dim);
        Self {
            table: Vec::new(),
            // Frequencies are rounded to float32 before they are multiplied by the position, like
            // in the training of the checkpoints.
            frequencies: frequencies.iter().map(|f| *f as f32).collect(),
            head_dim,
            scale: scale as f32,
        }
    }

    /// Bytes of a table of `pairs` frequencies that covers `positions`.
    #[must_use]
    pub fn bytes_for(pairs: usize, positions: usize) -> usize {
        size_of::<f32>() * 2 * pairs * Self::rounded(positions)
    }

    /// The bytes of the cosines and sines that were computed so far.
    #[must_use]
    pub fn bytes(&self) -> usize {
        size_of::<f32>() * self.table.len()
    }

    /// The number of positions to compute if `positions` are needed. It is a power of two, so that
    /// a growing sequence rarely extends the table.
    fn rounded(positions: usize) -> usize {
        positions.next_power_of_two().max(256)
    }

    /// The number of positions that can be rotated without a further [`cover`](Self::cover).
    #[must_use]
    pub fn positions(&self) -> usize {
        self.table.len() / (2 * self.frequencies.len()).max(1)
    }

    /// Extends the table to at least `positions`.
    pub fn cover(&mut self, positions: usize) {
        let have = self.positions();
        if positions <= have || self.frequencies.is_empty() {
            return;
        }
        let target = Self::rounded(positions);
        self.table
            .reserve_exact((target - have) * 2 * self.frequencies.len());
        for position in have..target {
            for turn in [f64::cos, f64::sin] {
                self.table.extend(self.frequencies.iter().map(|f| {
                    let angle = f64::from(position as f32 * f);
                    turn(angle) as f32 * self.scale
                }));
            }
        }
    }

    #[inline(always)]
    fn at(&self, position: usize) -> (&[f32], &[f32]) {
        let half = self.frequencies.len();
        self.table[position * 2 * half..][..2 * half].split_at(half)
    }
}

/// Turns, in place, `heads` heads of the table's `head_dim` at the front of each row of `x: [rows,
/// stride]`; `positions[row]` is the row's position in its sequence.
///
/// # Panics
/// If the heads do not fit into a row, or the table does not cover a position.
pub fn rope(
    cpu: Cpu,
    table: &RopeTable,
    x: &mut [f32],
    stride: usize,
    heads: usize,
    positions: &[u32],
) {
    let width = heads * table.head_dim;
    assert!(width <= stride);
    assert_eq!(x.len(), positions.len() * stride);
    let work = 4 * (positions.len() * width) as u64;
    cpu.parallel.for_row_runs(x, stride, work, |first, x| {
        let positions = &positions[first..];
        cpu.isa.run(Rows {
            table,
            x,
            stride,
            width,
            positions,
        });
    });
}

struct Rows<'a> {
    table: &'a RopeTable,
    x: &'a mut [f32],
    stride: usize,
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
            for head in row[..self.width].chunks_exact_mut(self.table.head_dim) {
                let (low, high) = head[..2 * half].split_at_mut(half);
                for (((a, b), c), s) in low.iter_mut().zip(high).zip(cos).zip(sin) {
                    // The compiler never fuses these operations, so all tiers round alike.
                    (*a, *b) = (*a * c - *b * s, *b * c + *a * s);
                }
            }
        }
    }
}

/// Rotates one head in float64. The absolute error of [`rope`] is at most 1e-4 at position 10^4,
/// where the angle's rounding to float32 dominates, and 1e-6 near the start.
#[must_use]
pub fn rope_reference(head: &[f32], frequencies: &[f64], scale: f64, position: usize) -> Vec<f64> {
    let half = frequencies.len();
    let mut out: Vec<f64> = head.iter().map(|x| f64::from(*x)).collect();
    for (i, frequency) in frequencies.iter().enumerate() {
        let angle = position as f64 * frequency;
        let (cos, sin) = (scale * angle.cos(), scale * angle.sin());
        let (a, b) = (out[i], out[i + half]);
        out[i] = a * cos - b * sin;
        out[i + half] = b * cos + a * sin;
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{assert_close, cpus, noise};

    /// The frequencies of the original rotation of `dim` elements.
    fn frequencies(dim: usize, theta: f64) -> Vec<f64> {
        (0..dim / 2)
            .map(|i| theta.powf(-((2 * i) as f64) / dim as f64))
            .collect()
    }

    #[test]
    fn equals_the_reference() {
        for cpu in cpus() {
            for (head_dim, turned, scale) in [
                (2, 2, 1.0),
                (6, 4, 1.0),
                (16, 16, 1.3),
                (30, 30, 1.0),
                (32, 10, 0.9),
                (64, 48, 1.0),
                (80, 80, 1.0),
                (96, 2, 1.0),
                (128, 128, 1.2),
                (8, 0, 1.0),
            ] {
                let frequencies = frequencies(turned, 10_000.0);
                let mut table = RopeTable::new(head_dim, &frequencies, scale);
                table.cover(300);
                let heads = 3;
                let stride = heads * head_dim + 5;
                let positions = [0, 1, 299, 7, 64];
                let x = noise(positions.len() * stride, 6);
                let mut y = x.clone();
                rope(cpu, &table, &mut y, stride, heads, &positions);
                for (r, p) in positions.iter().enumerate() {
                    let (x, y) = (&x[r * stride..][..stride], &y[r * stride..][..stride]);
                    assert_eq!(x[stride - 5..], y[stride - 5..]);
                    for h in 0..heads {
                        let at = h * head_dim..(h + 1) * head_dim;
                        let want = rope_reference(&x[at.clone()], &frequencies, scale, *p as usize);
                        assert_close(&y[at.clone()], &want, 2e-5);
                        assert_eq!(x[at.clone()][turned..], y[at][turned..]);
                    }
                }
            }
        }
    }

    #[test]
    fn far_positions_keep_their_precision() {
        let frequencies = frequencies(64, 1e6);
        let mut table = RopeTable::new(64, &frequencies, 1.0);
        table.cover(30_001);
        let x = noise(64, 7);
        let mut y = x.clone();
        rope(Cpu::serial(), &table, &mut y, 64, 1, &[30_000]);
        // A bfloat16 table is off by whole turns here.
        assert_close(&y, &rope_reference(&x, &frequencies, 1.0, 30_000), 3e-3);
    }

    #[test]
    fn growing_changes_nothing() {
        let mut grown = RopeTable::new(8, &frequencies(8, 500.0), 1.0);
        grown.cover(10);
        grown.cover(1000);
        let mut whole = RopeTable::new(8, &frequencies(8, 500.0), 1.0);
        whole.cover(1000);
        assert_eq!(grown.table, whole.table);
        assert_eq!(whole.bytes(), RopeTable::bytes_for(4, 1000));
    }
}
