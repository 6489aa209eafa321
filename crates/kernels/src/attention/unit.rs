//! A unit of attention: some query heads of some rows over one key-value head. The walk over pages
//! is the same for every arithmetic.

use super::{AttentionRow, BLOCK};
use crate::Isa;
use crate::isa::Task;
use crate::kv::KvPages;
use crate::simd::{LANES, Simd};

/// The most query heads of a unit. Their scores of one block take 70 kB, which fit in the
/// second-level cache next to the block's keys and values.
pub(super) const MOST: usize = 64;

/// Query heads `0..rows.len() * heads`, row by row.
pub(super) struct Unit<'a> {
    pub(super) pages: &'a KvPages,
    pub(super) layer: usize,
    pub(super) kv_head: usize,
    pub(super) tables: &'a [u32],
    pub(super) rows: &'a [AttentionRow],
    /// The number of leading blocks that all rows share. If it is not 0, every row ends after these
    /// blocks and every window begins at position 0.
    pub(super) shared: usize,
    pub(super) window: usize,
    /// Heads of each row.
    pub(super) heads: usize,
    pub(super) scale: f32,
    /// The first row's first query, and the floats from one row to the next.
    pub(super) q: *const f32,
    pub(super) q_stride: usize,
    /// The first row's first output, and the number of floats from one row to the next.
    pub(super) out: *mut f32,
    pub(super) out_stride: usize,
}

/// Positions that one or more rows attend to next.
pub(super) struct Block<'a> {
    /// Start of each page's region of this layer and head.
    pub(super) regions: &'a [*const u8],
    /// The number of positions, which may be less than the pages have.
    pub(super) n: usize,
    /// Positions before the window, which only the first page has.
    pub(super) skip: usize,
    /// Whether no earlier block of these rows exists, so that their running values start from zero.
    pub(super) first: bool,
    /// Whether the block is the rows' last one. After it, their output is divided by the sum of
    /// weights.
    pub(super) last: bool,
}

impl Block<'_> {
    /// Returns the largest of a head's scores. Scores before the window and beyond the block become
    /// negative infinity, up to the next whole vector, so that their weights are exactly zero. The
    /// first page also has the window's first position, so the maximum is finite.
    ///
    /// This runs for all heads before any weights, because one head's maximum is a chain of
    /// dependent operations, and the processor overlaps the chains of several heads.
    ///
    /// # Safety
    /// `scores` must be valid for reading the block's scores, and for writing to the next whole
    /// vector.
    #[inline(always)]
    pub(super) unsafe fn find_top<S: Simd>(&self, s: S, scores: *mut f32) -> f32 {
        let whole = self.n.next_multiple_of(LANES);
        // SAFETY: the caller's promise.
        unsafe {
            for i in (self.n..whole).chain(0..self.skip) {
                *scores.add(i) = f32::NEG_INFINITY;
            }
            let mut tops = [s.splat(f32::NEG_INFINITY); 2];
            let mut i = 0;
            while i + 2 * LANES <= whole {
                tops[0] = s.max(s.load(scores.add(i)), tops[0]);
                tops[1] = s.max(s.load(scores.add(i + LANES)), tops[1]);
                i += 2 * LANES;
            }
            if i < whole {
                tops[0] = s.max(s.load(scores.add(i)), tops[0]);
            }
            s.max_lane(s.max(tops[0], tops[1]))
        }
    }
}

/// The arithmetic: a running softmax of every head, block by block.
pub(super) trait Stage: Sized {
    /// The most positions of a block. A page with more positions is a block of its own.
    const POSITIONS: usize;

    /// Working memory. Nothing in it is read before it is written.
    type Scratch;

    /// # Safety
    /// `scratch` must be valid for writing as long as the stage is used.
    unsafe fn new(isa: Isa, pages: &KvPages, scratch: *mut Self::Scratch) -> Self;

    /// # Safety
    /// The conditions of [`Unit::run`] must hold.
    unsafe fn begin<S: Simd>(&mut self, s: S, unit: &Unit<'_>);

    /// Applies a block to the rows `rows`. After a row's last block, its output is complete.
    ///
    /// # Safety
    /// The conditions of [`Unit::run`] must hold, and the regions must belong to pages of
    /// `unit.pages`.
    unsafe fn block<S: Simd>(
        &mut self,
        s: S,
        unit: &Unit<'_>,
        block: &Block<'_>,
        rows: std::ops::Range<usize>,
    );
}

/// Calls [`Stage::block`] as a separate function, compiled for the tier. Only [`Unit::run`] creates
/// a step.
struct Step<'a, T> {
    stage: &'a mut T,
    unit: &'a Unit<'a>,
    block: &'a Block<'a>,
    rows: std::ops::Range<usize>,
}

impl<T: Stage> Task for Step<'_, T> {
    type Output = ();
    #[inline(always)]
    fn run<S: Simd>(self, s: S) {
        // SAFETY: the promises made to `Unit::run`.
        unsafe { self.stage.block(s, self.unit, self.block, self.rows) };
    }
}

impl Unit<'_> {
    /// Applies the shared blocks to all rows together, and then the other blocks row by row. A row
    /// has the same blocks in the same order whatever it shares.
    ///
    /// # Safety
    /// `q` must be valid for reading and `out` for writing `heads * head_dim` floats of each
    /// row, and nothing else may use that part of `out`. There are at most [`MOST`] heads.
    #[inline(always)]
    pub(super) unsafe fn run<S: Simd, T: Stage>(
        &self,
        s: S,
        stage: &mut T,
        regions: &mut [*const u8; BLOCK],
    ) {
        let page_size = self.pages.shape().page_size;
        let per_block = (T::POSITIONS / page_size).max(1);
        let all = 0..self.rows.len();
        // SAFETY: the caller's promises; `find` gives regions of pages.
        unsafe {
            stage.begin(s, self);
            for b in 0..self.shared {
                let first = self.rows[0].table as usize + b * per_block;
                let block = Block {
                    regions: self.find(regions, &self.tables[first..][..per_block]),
                    n: per_block * page_size,
                    skip: 0,
                    first: b == 0,
                    last: false,
                };
                s.call(Step {
                    stage,
                    unit: self,
                    block: &block,
                    rows: all.clone(),
                });
            }
            for r in all {
                let row = &self.rows[r];
                let len = row.len as usize;
                let window = len.saturating_sub(self.window);
                // Blocks start at the window's first page, so a row's sums do not depend on earlier
                // pages.
                let before = window / page_size;
                let table = &self.tables[row.table as usize..][before..len.div_ceil(page_size)];
                let len = len - before * page_size;
                for (b, table) in table.chunks(per_block).enumerate().skip(self.shared) {
                    let start = b * per_block * page_size;
                    let n = (len - start).min(per_block * page_size);
                    let block = Block {
                        regions: self.find(regions, table),
                        n,
                        skip: if b == 0 { window % page_size } else { 0 },
                        first: b == 0,
                        last: start + n == len,
                    };
                    s.call(Step {
                        stage,
                        unit: self,
                        block: &block,
                        rows: r..r + 1,
                    });
                }
            }
        }
    }

    #[inline(always)]
    fn find<'r>(&self, regions: &'r mut [*const u8; BLOCK], table: &[u32]) -> &'r [*const u8] {
        for (region, page) in regions.iter_mut().zip(table) {
            *region = self.pages.head(*page, self.layer, self.kv_head).as_ptr();
        }
        &regions[..table.len()]
    }
}
