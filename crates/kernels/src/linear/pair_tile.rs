//! Register blocks of layers of bfloat16, by float32 multiply-adds in the order of AMX's tiles.

use super::PANEL;
use super::format::{TILE_PAIRS, WidePairs};
use super::tile::Tile;
use crate::isa::Task;
use crate::simd::{LANES, Simd};

/// A part of a layer whose sums are in the order of the tiles.
pub(super) struct TileOrder<'a>(pub(super) Tile<'a, WidePairs>);

impl Task for TileOrder<'_> {
    type Output = ();
    #[inline(always)]
    fn run<S: Simd>(self, s: S) {
        let rows = self.0.rows.clone();
        for panel in self.0.panels.clone() {
            let mut row = rows.start;
            while row < rows.end {
                row += match (S::WIDE, rows.end - row) {
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

impl TileOrder<'_> {
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
        let (width, weights) = (self.0.width, self.0.panel(panel));
        let x = self.0.x[first * width..][..MR * width].as_ptr();
        for group in (0..width).step_by(TILE_PAIRS) {
            let mut sums = [[[s.splat(0.0); NV]; MR]; 2];
            for pair in group..group + TILE_PAIRS {
                for (odd, sum) in sums.iter_mut().enumerate() {
                    // SAFETY: vectors of the panel, and floats of the rows, whose lengths were
                    // checked.
                    unsafe {
                        let weights: [S::V; NV] = std::array::from_fn(|v| {
                            let words = weights.add(pair * PANEL + (half + v) * LANES);
                            s.load_bf16(words.cast(), odd == 1)
                        });
                        for (r, sum) in sum.iter_mut().enumerate() {
                            let x = x.add(r * width + pair).cast::<f32>().add(odd);
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
            self.0.out.finish(s, total, first, output);
        };
        MR
    }
}
