//! Register blocks of layers of bfloat16 on AMX, whose tiles sum the products of pairs.

use super::PANEL;
use super::format::{Pairs, TILE_PAIRS};
use super::tile::Tile;
use crate::isa::Task;
use crate::simd::tiles::{Shapes, TileRegisters};
use crate::simd::{LANES, Simd};

/// Rows of a tile.
const ROWS: usize = 16;

/// A part of a layer, multiplied by the tiles of `registers`.
pub(super) struct ByTiles<'a, R> {
    pub(super) tile: Tile<'a, Pairs>,
    pub(super) registers: R,
}

impl<R: TileRegisters> Task for ByTiles<'_, R> {
    type Output = ();
    #[inline(always)]
    fn run<S: Simd>(mut self, s: S) {
        let mut sums = Sums([[0.0; PANEL]; 2 * ROWS]);
        let rows = self.tile.rows.clone();
        for first in rows.clone().step_by(2 * ROWS) {
            let count = (rows.end - first).min(2 * ROWS);
            // SAFETY: whoever makes this task may use the tiles.
            unsafe { self.registers.configure(shapes(count)) };
            for panel in self.tile.panels.clone() {
                // SAFETY: the shapes are those of `count` rows of this task.
                unsafe {
                    self.tile
                        .by_tiles(&mut self.registers, first, count, panel, &mut sums);
                };
                for (r, sums) in sums.0[..count].iter().enumerate() {
                    // SAFETY: 32 floats; rows and panels of this task, and tasks have different
                    // rows or different panels.
                    unsafe {
                        let [low, high] = [0, LANES].map(|at| s.load(sums.as_ptr().add(at)));
                        let out = &self.tile.out;
                        out.finish(s, [[low, high]], first + r, panel * PANEL);
                    }
                }
            }
        }
        // SAFETY: as above.
        unsafe { self.registers.release() };
    }
}

/// The outputs of two tiles of rows by a panel.
#[repr(align(64))]
struct Sums([[f32; PANEL]; 2 * ROWS]);

/// Tiles 0 to 3 hold sums: 0 and 1 of the first 16 rows, 2 and 3 of the others. Tile 4 holds the
/// inputs of the first rows, 5 of the others, 6 and 7 the weights of a panel's halves.
fn shapes(rows: usize) -> Shapes {
    let first = (rows.min(ROWS), 4 * LANES);
    let others = (rows.saturating_sub(ROWS).max(1), 4 * LANES);
    let weights = (TILE_PAIRS, 4 * LANES);
    [
        first, first, others, others, first, others, weights, weights,
    ]
}

impl Tile<'_, Pairs> {
    /// Computes the sums of `rows` rows, at most 32, by a panel.
    ///
    /// # Safety
    /// The tiles must have the [`shapes`] of that many rows.
    #[inline(always)]
    unsafe fn by_tiles(
        &self,
        registers: &mut impl TileRegisters,
        first: usize,
        rows: usize,
        panel: usize,
        sums: &mut Sums,
    ) {
        let (width, weights) = (self.width, self.panel(panel).cast::<u8>());
        let x = self.x[first * width..][..rows * width]
            .as_ptr()
            .cast::<u8>();
        let (stride, line) = (4 * width, 4 * PANEL);
        let both = rows > ROWS;
        // SAFETY: the tiles cover rows of `x` and words of the panel, whose lengths were checked,
        // and the sums of as many rows.
        unsafe {
            registers.zero::<0>();
            registers.zero::<1>();
            registers.zero::<2>();
            registers.zero::<3>();
            for pair in (0..width).step_by(TILE_PAIRS) {
                let weights = weights.add(pair * line);
                registers.load::<4>(x.add(4 * pair), stride);
                registers.load::<6>(weights, line);
                registers.multiply::<0, 4, 6>();
                registers.load::<7>(weights.add(4 * LANES), line);
                registers.multiply::<1, 4, 7>();
                if both {
                    registers.load::<5>(x.add(4 * pair + ROWS * stride), stride);
                    registers.multiply::<2, 5, 6>();
                    registers.multiply::<3, 5, 7>();
                }
            }
            let to = sums.0.as_mut_ptr().cast::<f32>();
            registers.store::<0>(to, line);
            registers.store::<1>(to.add(LANES), line);
            if both {
                registers.store::<2>(to.add(ROWS * PANEL), line);
                registers.store::<3>(to.add(ROWS * PANEL + LANES), line);
            }
        }
    }
}
