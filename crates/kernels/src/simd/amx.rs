//! Tiles of AMX: dot products of bytes, sixteen rows by sixteen outputs at a time.

use std::arch::asm;

use super::tiles;

/// Rows of a tile.
pub(crate) const ROWS: usize = 16;

/// The configured tiles of this thread. Dropping this value releases them.
pub(crate) struct Tiles(());

impl Tiles {
    /// Configures tiles for products of `rows` rows by 16 outputs over `inputs` inputs, a multiple
    /// of 4 and at most 64.
    ///
    /// # Safety
    /// The tier must have tiles.
    pub(crate) unsafe fn new(rows: usize, inputs: usize) -> Self {
        assert!((1..=ROWS).contains(&rows) && (4..=64).contains(&inputs));
        let (sum, x, weights) = ((rows, 64), (rows, inputs), (inputs / 4, 64));
        // SAFETY: the caller's promise; at most 16 rows of 64 bytes.
        unsafe { tiles::configure([sum, sum, sum, sum, x, x, weights, weights]) };
        Self(())
    }

    /// Computes the sum `TILE` (0 to 3): sixteen int32 for each row, from products of signed bytes
    /// of inputs and weights. The rows of inputs begin at `x` and are 32 bytes apart. The weights
    /// begin at `weights`, as lines of 64 bytes (four for each of sixteen outputs) that are
    /// `stride` bytes apart.
    ///
    /// # Safety
    /// All that the tiles' shapes cover must be valid to read.
    #[expect(
        clippy::unused_self,
        reason = "the value shows that the tiles are configured"
    )]
    #[inline(always)]
    pub(crate) unsafe fn dot<const TILE: usize>(
        &self,
        x: *const u8,
        weights: *const u8,
        stride: usize,
    ) {
        macro_rules! dot {
            ($sum:literal, $x:literal, $weights:literal) => {
                asm!(
                    concat!("tilezero ", $sum),
                    concat!("tileloadd ", $x, ", [{x} + {of_x}*1]"),
                    concat!("tileloadd ", $weights, ", [{w} + {of_w}*1]"),
                    concat!("tdpbssd ", $sum, ", ", $x, ", ", $weights),
                    x = in(reg) x,
                    of_x = in(reg) 32usize,
                    w = in(reg) weights,
                    of_w = in(reg) stride,
                    options(nostack, readonly),
                )
            };
        }
        // SAFETY: the tiles are configured (they are this value), and the caller's promise.
        unsafe {
            match TILE {
                0 => dot!("tmm0", "tmm4", "tmm6"),
                1 => dot!("tmm1", "tmm5", "tmm7"),
                2 => dot!("tmm2", "tmm4", "tmm6"),
                _ => dot!("tmm3", "tmm5", "tmm7"),
            }
        }
    }

    /// Writes the sums of four [`dot`](Self::dot)s. Storing is separate because a sum takes fifty
    /// cycles, during which other sums can begin.
    ///
    /// # Safety
    /// There must be room for four times sixteen rows.
    #[expect(
        clippy::unused_self,
        reason = "the value shows that the tiles are configured"
    )]
    #[inline(always)]
    pub(crate) unsafe fn store(&self, sums: *mut [[i32; 16]; ROWS]) {
        // SAFETY: the tiles are configured, and the caller's promise.
        unsafe {
            asm!(
                "tilestored [{s} + {of_s}*1], tmm0",
                "tilestored [{s} + {of_s}*1 + 1024], tmm1",
                "tilestored [{s} + {of_s}*1 + 2048], tmm2",
                "tilestored [{s} + {of_s}*1 + 3072], tmm3",
                s = in(reg) sums,
                of_s = in(reg) 64usize,
                options(nostack),
            );
        }
    }
}

impl Drop for Tiles {
    fn drop(&mut self) {
        // SAFETY: the tier has tiles, or `self` would not be.
        unsafe { tiles::release() };
    }
}
