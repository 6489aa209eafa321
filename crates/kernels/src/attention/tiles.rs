//! Scores and values of attention over bfloat16 in tiles (AMX).

use crate::simd::tiles::{self, Amx, TileRegisters};

/// Query heads of a tile.
pub(super) const HEADS: usize = 16;

/// Columns or positions of a tile.
const COLUMNS: usize = 16;

/// Tiles of sums at a time.
pub(super) const SUMS: usize = 4;

/// Tiles 0 to 3 hold sums of `heads` rows. Tile 4 holds queries and 5 keys, 32 of a head;
/// tile 6 weights and 7 values, of 16 positions.
///
/// # Safety
/// The process must be allowed to use tiles, and 0 < `heads` <= 16.
pub(super) unsafe fn configure(heads: usize) {
    let wide = (heads, 64);
    // SAFETY: the caller's promise.
    unsafe { tiles::configure([wide, wide, wide, wide, wide, (16, 64), (heads, 32), (8, 64)]) };
}

/// Rows of numbers, `stride` bytes apart.
#[derive(Clone, Copy)]
pub(super) struct Grid<T> {
    pub(super) at: T,
    pub(super) stride: usize,
}

/// Computes `scores = queries · keys` for the configured number of heads and one to four vectors of
/// sixteen positions. Each entry of `keys` points at the first pairs of keys of one vector.
///
/// # Safety
/// Tiles must be configured; `queries` must be valid for reading `heads` rows of `pairs` pairs, a
/// multiple of 16, and the keys for reading `pairs` rows of 64 bytes; `scores` for writing
/// `heads` rows of `16 * keys.len()` floats.
#[inline(always)]
pub(super) unsafe fn scores(
    queries: Grid<*const u8>,
    pairs: usize,
    keys: &[*const u8],
    key_stride: usize,
    scores: Grid<*mut f32>,
) {
    let n = keys.len();
    // SAFETY: the caller's promises.
    unsafe {
        Amx.zero::<0>();
        Amx.zero::<1>();
        Amx.zero::<2>();
        Amx.zero::<3>();
        for pair in (0..pairs).step_by(16) {
            let at = pair * key_stride;
            Amx.load::<4>(queries.at.add(4 * pair), queries.stride);
            Amx.load::<5>(keys[0].add(at), key_stride);
            Amx.multiply::<0, 4, 5>();
            if n > 1 {
                Amx.load::<5>(keys[1].add(at), key_stride);
                Amx.multiply::<1, 4, 5>();
            }
            if n > 2 {
                Amx.load::<5>(keys[2].add(at), key_stride);
                Amx.multiply::<2, 4, 5>();
            }
            if n > 3 {
                Amx.load::<5>(keys[3].add(at), key_stride);
                Amx.multiply::<3, 4, 5>();
            }
        }
        let to = scores.at;
        Amx.store::<0>(to, scores.stride);
        if n > 1 {
            Amx.store::<1>(to.add(COLUMNS), scores.stride);
        }
        if n > 2 {
            Amx.store::<2>(to.add(2 * COLUMNS), scores.stride);
        }
        if n > 3 {
            Amx.store::<3>(to.add(3 * COLUMNS), scores.stride);
        }
    }
}

/// Computes `sums += weights · values` for the configured number of heads, `columns` columns (a
/// multiple of 32) and `vectors` vectors of sixteen positions. `value(v)` points at the first pairs
/// of values of vector `v`.
///
/// # Safety
/// Tiles must be configured; `weights` must be valid for reading `heads` rows of `16 * vectors`
/// words, the values for reading 8 rows of `4 * columns` bytes; `sums` for reading and writing
/// `heads` rows of `columns` floats.
#[inline(always)]
pub(super) unsafe fn values(
    weights: Grid<*const u8>,
    columns: usize,
    vectors: usize,
    value_stride: usize,
    value: impl Fn(usize) -> *const u8,
    sums: Grid<*mut f32>,
) {
    let mut column = 0;
    while column < columns {
        let n = ((columns - column) / COLUMNS).min(SUMS);
        // SAFETY: the caller's promises.
        unsafe {
            let to = sums.at.add(column);
            Amx.load::<0>(to.cast(), sums.stride);
            Amx.load::<1>(to.add(COLUMNS).cast(), sums.stride);
            if n > 2 {
                Amx.load::<2>(to.add(2 * COLUMNS).cast(), sums.stride);
                Amx.load::<3>(to.add(3 * COLUMNS).cast(), sums.stride);
            }
            for v in 0..vectors {
                let from = value(v).add(4 * column);
                Amx.load::<6>(weights.at.add(2 * v * COLUMNS), weights.stride);
                Amx.load::<7>(from, value_stride);
                Amx.multiply::<0, 6, 7>();
                Amx.load::<7>(from.add(4 * COLUMNS), value_stride);
                Amx.multiply::<1, 6, 7>();
                if n > 2 {
                    Amx.load::<7>(from.add(8 * COLUMNS), value_stride);
                    Amx.multiply::<2, 6, 7>();
                    Amx.load::<7>(from.add(12 * COLUMNS), value_stride);
                    Amx.multiply::<3, 6, 7>();
                }
            }
            Amx.store::<0>(to, sums.stride);
            Amx.store::<1>(to.add(COLUMNS), sums.stride);
            if n > 2 {
                Amx.store::<2>(to.add(2 * COLUMNS), sums.stride);
                Amx.store::<3>(to.add(3 * COLUMNS), sums.stride);
            }
        }
        // A multiple of 32 that is not one of 64 ends in two tiles.
        column += n * COLUMNS;
    }
}
