//! Register blocks of layers of bfloat16, by float32 multiply-adds in the order of AMX's tiles.

use std::ops::Range;

use super::PANEL;
use super::out::Out;
use crate::isa::Task;
use crate::simd::{LANES, Simd};

/// Pairs of inputs in a partial sum; a tile multiplies as many at once.
pub(super) const PAIRS: usize = 16;

/// Some rows by some panels of a layer. `x` and `out` are all rows, `weights` the whole layer's.
pub(super) struct PairTile<'a, X> {
    /// Pairs of an input row, a multiple of [`PAIRS`].
    pub(super) width: usize,
    pub(super) weights: &'a [u32],
    pub(super) x: &'a [X],
    pub(super) out: Out<'a>,
    pub(super) rows: Range<usize>,
    pub(super) panels: Range<usize>,
}

impl<X> PairTile<'_, X> {
    /// The first weights of a panel.
    #[inline(always)]
    pub(super) fn panel(&self, panel: usize) -> *const u32 {
        let words = PANEL * self.width;
        self.weights[panel * words..][..words].as_ptr()
    }
}

impl Task for PairTile<'_, [f32; 2]> {
    type Output = ();
    #[inline(always)]
    fn run<S: Simd>(self, s: S) {
        for panel in self.panels.clone() {
            let mut row = self.rows.start;
            while row < self.rows.end {
                row += match (S::WIDE, self.rows.end - row) {
                    (true, 4..) => self.block::<S, 4, 2>(s, row, panel, 0),
                    (true, _) => self.block::<S, 1, 2>(s, row, panel, 0),
                    (false, 2..) => {
                        self.block::<S, 2, 1>(s, row, panel, 0);
                        self.block::<S, 2, 1>(s, row, panel, 1)
                    }
                    (false, _) => {
                        self.block::<S, 1, 1>(s, row, panel, 0);
                        self.block::<S, 1, 1>(s, row, panel, 1)
                    }
                };
            }
        }
    }
}

impl PairTile<'_, [f32; 2]> {
    /// Multiplies `MR` rows from `first` on by `NV` vectors of a panel, from vector `half` on.
    /// Returns `MR`.
    #[inline(always)]
    fn block<S: Simd, const MR: usize, const NV: usize>(
        &self,
        s: S,
        first: usize,
        panel: usize,
        half: usize,
    ) -> usize {
        let mut total = [[s.splat(0.0); NV]; MR];
        let weights = self.panel(panel);
        let x = self.x[first * self.width..][..MR * self.width].as_ptr();
        for group in (0..self.width).step_by(PAIRS) {
            let mut sums = [[[s.splat(0.0); NV]; MR]; 2];
            for pair in group..group + PAIRS {
                for (odd, sum) in sums.iter_mut().enumerate() {
                    // SAFETY: vectors of the panel, and floats of the rows, whose lengths were
                    // checked.
                    unsafe {
                        let weights: [S::V; NV] = std::array::from_fn(|v| {
                            let words = weights.add(pair * PANEL + (half + v) * LANES);
                            s.load_bf16(words.cast(), odd == 1)
                        });
                        for (r, sum) in sum.iter_mut().enumerate() {
                            let x = x.add(r * self.width + pair).cast::<f32>().add(odd);
                            let x = s.splat(*x);
                            for (sum, weight) in sum.iter_mut().zip(weights) {
                                *sum = s.fma(x, weight, *sum);
                            }
                        }
                    }
                }
            }
            let [even, odd] = sums;
            for (total, (even, odd)) in total.iter_mut().zip(even.into_iter().zip(odd)) {
                for (total, (even, odd)) in total.iter_mut().zip(even.into_iter().zip(odd)) {
                    *total = s.add(*total, s.add(even, odd));
                }
            }
        }
        // SAFETY: rows and panels of this task; tasks have different rows or different panels.
        unsafe {
            let output = panel * PANEL + half * LANES;
            self.out.finish(s, total, first, output);
        };
        MR
    }
}
