//! Register blocks of int8 layers on AMX, whose tiles sum the products of bytes.

use super::PANEL;
use super::blocks::Blocks;
use super::int8_tile::{Part, Tile};
use crate::simd::amx::{ROWS, Tiles};
use crate::simd::{Int8, LANES, Simd};

/// The number of sums that the tiles compute in a batch. While the tiles multiply one batch, the
/// sums of the previous batch are scaled.
const SUMS: usize = 4;

/// The sums of some groups, two for a group whose halves have scales of their own.
#[repr(align(64))]
pub(super) struct Sums([[[i32; LANES]; ROWS]; SUMS]);

impl Sums {
    pub(super) const ZERO: Self = Self([[[0; LANES]; ROWS]; SUMS]);
}

impl<F: Blocks> Tile<'_, F> {
    /// Multiplies a register block of up to `MR` rows by a panel. The sums are the same as without
    /// AMX, in the same order.
    #[inline(always)]
    pub(super) fn tile_block<I: Int8, const MR: usize>(
        &self,
        i: I,
        tiles: &Tiles,
        sums: &mut [Sums; 2],
        mut part: Part<'_>,
    ) {
        let f = i.floats();
        let groups = part.to - part.from;
        let step = SUMS / F::HALVES;
        let batches = groups.div_ceil(step);
        for half in 0..PANEL / LANES {
            let mut sum = [f.splat(0.0); MR];
            if part.from > 0 {
                for (sum, partial) in sum.iter_mut().zip(part.partial.iter()) {
                    // SAFETY: 16 of 32 floats.
                    unsafe { *sum = f.load(partial.as_ptr().add(half * LANES)) };
                }
            }
            // Each turn multiplies one batch and scales the previous one, so there is one more turn
            // than batches.
            for batch in 0..=batches {
                if batch < batches {
                    self.multiply(tiles, &part, batch * step, half, &mut sums[batch % 2]);
                }
                if batch > 0 {
                    let first = (batch - 1) * step;
                    let sums = &sums[(batch - 1) % 2].0;
                    for g in first..groups.min(first + step) {
                        if half == 0 {
                            // The next chunk is prefetched only once, during the first half of the
                            // panel.
                            part.ahead.fetch();
                        }
                        let sums = &sums[(g - first) * F::HALVES..];
                        self.scale(i, &part, g, half, sums, &mut sum);
                    }
                }
            }
            // The sums leave the registers here, as in `Out::finish`.
            let mut done = [[0.0f32; LANES]; MR];
            for (done, sum) in done.iter_mut().zip(sum) {
                *done = f.to_array(sum);
            }
            for (r, done) in done.iter().enumerate().take(part.rows) {
                part.partial[r][half * LANES..][..LANES].copy_from_slice(done);
                if part.to == self.groups {
                    let (row, output) = (part.first + r, part.output + half * LANES);
                    // SAFETY: rows and panels of this task; tasks have different rows or different
                    // panels.
                    unsafe { self.out.finish(f, [[f.vector(*done)]], row, output) };
                }
            }
        }
    }

    /// Multiplies the groups from `first` on. Tiles beyond the last group repeat that group, and
    /// their sums are not read.
    #[inline(always)]
    fn multiply(&self, tiles: &Tiles, part: &Part<'_>, first: usize, half: usize, sums: &mut Sums) {
        const LINE: usize = 4 * PANEL;
        let last = part.to - part.from - 1;
        let place = |tile: usize| {
            let g = last.min(first + tile / F::HALVES);
            let at = part.first * self.groups + (part.from + g) * part.rows;
            let later = tile % F::HALVES;
            let x = self.bytes.as_ptr().wrapping_add(at).cast::<u8>();
            let weights = part.bytes.group(g).wrapping_add(half * 4 * LANES);
            (
                x.wrapping_add(16 * later),
                weights.wrapping_add(4 * LINE * later),
            )
        };
        // SAFETY: the rows' inputs are adjacent, and the rows beyond them that a tile may read are
        // there; the chunk has these groups; there is room for four sums.
        unsafe {
            let (x, weights) = place(0);
            tiles.dot::<0>(x, weights, LINE);
            let (x, weights) = place(1);
            tiles.dot::<1>(x, weights, LINE);
            let (x, weights) = place(2);
            tiles.dot::<2>(x, weights, LINE);
            let (x, weights) = place(3);
            tiles.dot::<3>(x, weights, LINE);
            tiles.store(sums.0.as_mut_ptr());
        }
    }

    #[inline(always)]
    fn scale<I: Int8, const MR: usize>(
        &self,
        i: I,
        part: &Part<'_>,
        g: usize,
        half: usize,
        sums: &[[[i32; LANES]; ROWS]],
        sum: &mut [<I::Floats as Simd>::V; MR],
    ) {
        let f = i.floats();
        let at = part.first * self.groups + (part.from + g) * part.rows;
        let scales = &part.scales[g];
        // SAFETY: vectors of 16 of 32 floats; inputs as above, of up to 16 rows.
        unsafe {
            let xs = self.scales.as_ptr().add(at);
            let scale = f.load(scales.scale.as_ptr().add(half * LANES));
            let min = f.load(scales.min.as_ptr().add(half * LANES));
            let sub = scales
                .sub
                .each_ref()
                .map(|sub| f.load(sub.as_ptr().add(half * LANES)));
            for (r, sum) in sum.iter_mut().enumerate() {
                let x = &*xs.add(r);
                let mut whole = i.to_floats(i.load_ints(sums[0][r].as_ptr()));
                if F::HALVES == 2 {
                    let second = i.to_floats(i.load_ints(sums[1][r].as_ptr()));
                    whole = f.fma(sub[1], second, f.mul(sub[0], whole));
                }
                *sum = f.fma(f.mul(scale, f.splat(x.scale)), whole, *sum);
                if F::MIN {
                    *sum = f.fma(min, f.splat(x.sum), *sum);
                }
            }
        }
    }
}
