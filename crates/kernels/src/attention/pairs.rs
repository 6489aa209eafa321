//! Attention over bfloat16: queries and weights are rounded to it, too, products of pairs are
//! summed in float32.
//!
//! The order of the sums is that of AMX's tiles, also on machines without AMX. Pairs are taken
//! sixteen (keys) or eight (values) at a time. The products of their first halves and of their
//! second halves are summed separately, each from 0 on. Both sums are then added to the running
//! sum. No operand has a magnitude between 0 and [`TINY`], so that flushing subnormal numbers to
//! zero changes nothing.

mod products;

use std::ops::Range;

use super::BLOCK;
use super::unit::{Block, MOST, Stage, Unit};
use crate::Isa;
use crate::kv::{KvFormat, KvPages, KvShape, TINY};
use crate::simd::{LANES, Simd};

/// The most values of a head that the working memory has room for.
const WIDEST: usize = KvFormat::WIDEST_BF16;

/// The words from the rounded weights of one head to those of the next. A power of two would make
/// all heads use the same lines of the cache.
const WORDS: usize = BLOCK + 2 * LANES;

/// The words of eight pairs of values, and of one vector beyond them that may be read.
const TAIL: usize = 2 * (VALUE_PAIRS * WIDEST + LANES);

/// Pairs of values whose products are summed apart from the rest.
const VALUE_PAIRS: usize = 8;

/// The working memory of a task. Every part is written before it is read.
pub(super) struct Scratch {
    /// Scores, then weights, of a block; whole vectors may be written beyond its end.
    weights: [[f32; BLOCK + LANES]; MOST],
    /// Sums of values, `width` for each head.
    sums: [f32; MOST * WIDEST],
    /// Rounded and scaled queries, `width` for each head.
    queries: [f32; MOST * WIDEST],
    /// Weights and queries in bfloat16, where tiles are used.
    narrow_weights: [[u16; WORDS]; MOST],
    narrow_queries: [u16; MOST * WIDEST],
    /// The last values of a block if they do not fill eight pairs, followed by zeros.
    tail: [u16; TAIL],
}

/// The running softmax of each head.
pub(super) struct Pairs {
    max: [f32; MOST],
    sum: [f32; MOST],
    /// The largest score of each head in the current block.
    top: [f32; MOST],
    shape: KvShape,
    /// `head_dim` in whole vectors.
    width: usize,
    /// Bytes of the keys in a region.
    key_bytes: usize,
    tiles: bool,
    /// Heads that tiles are configured for.
    #[cfg_attr(
        not(all(target_arch = "x86_64", target_os = "linux")),
        allow(dead_code)
    )]
    configured: usize,
    /// Whether all rows of the unit are computed together. Whole tiles may then reach beyond the
    /// last head. With a single row, the sums after the last head belong to another row.
    #[cfg_attr(
        not(all(target_arch = "x86_64", target_os = "linux")),
        allow(dead_code)
    )]
    together: bool,
    scratch: *mut Scratch,
}

impl Stage for Pairs {
    const POSITIONS: usize = BLOCK;
    type Scratch = Scratch;

    #[inline(always)]
    unsafe fn new(isa: Isa, pages: &KvPages, scratch: *mut Scratch) -> Self {
        let shape = pages.shape();
        let whole = shape.head_dim.is_multiple_of(32) && shape.page_size.is_multiple_of(LANES);
        Self {
            max: [0.0; MOST],
            sum: [0.0; MOST],
            top: [0.0; MOST],
            shape,
            width: shape.head_dim.next_multiple_of(LANES),
            key_bytes: KvFormat::Bf16.key_bytes(shape),
            tiles: isa.tiles() && whole,
            configured: 0,
            together: false,
            scratch,
        }
    }

    #[inline(always)]
    unsafe fn begin<S: Simd>(&mut self, s: S, unit: &Unit<'_>) {
        let head_dim = self.shape.head_dim;
        // The factor log2(e) makes the scores exponents of 2, which `exp2_bf16` expects.
        let scale = s.splat(unit.scale * std::f32::consts::LOG2_E);
        for m in 0..unit.rows.len() * unit.heads {
            let (row, head) = (m / unit.heads, m % unit.heads);
            for d in (0..head_dim).step_by(LANES) {
                // SAFETY: a query of the unit (`Unit::run`), and its place in the scratch memory.
                unsafe {
                    let q = unit.q.add(row * unit.q_stride + head * head_dim + d);
                    let q = s.load_first(q, LANES.min(head_dim - d), 0.0);
                    let q = s.round_bf16(s.mul(q, scale));
                    let magnitude = s.max(q, s.sub(s.splat(0.0), q));
                    let q = s.zero_below(q, magnitude, TINY);
                    s.store(self.query(m).add(d), q);
                    if self.tiles {
                        s.store_bf16(self.narrow_query(m).add(d), q);
                    }
                }
            }
        }
    }

    #[inline(always)]
    unsafe fn block<S: Simd>(
        &mut self,
        s: S,
        unit: &Unit<'_>,
        block: &Block<'_>,
        rows: Range<usize>,
    ) {
        let heads = rows.start * unit.heads..rows.end * unit.heads;
        self.together = rows.len() > 1;
        // SAFETY: the caller's promises.
        unsafe {
            self.scores(s, block, heads.clone());
            for m in heads.clone() {
                self.top[m] = block.find_top(s, self.weights(m));
            }
            for m in heads.clone() {
                self.weigh(s, block, m);
            }
            self.values(s, block, heads.clone());
            if block.last {
                for m in heads {
                    self.finish(s, unit, m);
                }
            }
        }
    }
}

impl Drop for Pairs {
    fn drop(&mut self) {
        #[cfg(all(target_arch = "x86_64", target_os = "linux"))]
        if self.configured > 0 {
            // SAFETY: tiles were configured, so this process may use them.
            unsafe { crate::simd::tiles::release() };
        }
    }
}

impl Pairs {
    /// # Safety
    /// `m` must be less than [`MOST`], in this function and in the accessors below.
    #[inline(always)]
    unsafe fn query(&self, m: usize) -> *mut f32 {
        // SAFETY: the caller's promise.
        unsafe {
            (&raw mut (*self.scratch).queries)
                .cast::<f32>()
                .add(m * self.width)
        }
    }

    #[inline(always)]
    unsafe fn narrow_query(&self, m: usize) -> *mut u16 {
        // SAFETY: the caller's promise.
        unsafe {
            (&raw mut (*self.scratch).narrow_queries)
                .cast::<u16>()
                .add(m * self.width)
        }
    }

    #[inline(always)]
    unsafe fn weights(&self, m: usize) -> *mut f32 {
        // SAFETY: the caller's promise.
        unsafe { (&raw mut (*self.scratch).weights[m]).cast() }
    }

    #[inline(always)]
    unsafe fn narrow_weights(&self, m: usize) -> *mut u16 {
        // SAFETY: the caller's promise.
        unsafe { (&raw mut (*self.scratch).narrow_weights[m]).cast() }
    }

    #[inline(always)]
    unsafe fn sums(&self, m: usize) -> *mut f32 {
        // SAFETY: the caller's promise.
        unsafe {
            (&raw mut (*self.scratch).sums)
                .cast::<f32>()
                .add(m * self.width)
        }
    }

    /// Turns the scores of head `m` into rounded weights, and scales its sums of values.
    #[inline(always)]
    unsafe fn weigh<S: Simd>(&mut self, s: S, block: &Block<'_>, m: usize) {
        // SAFETY: scores to the next whole vector (`Block::find_top`); a vector more is written here.
        unsafe {
            let weights = self.weights(m);
            let whole = block.n.next_multiple_of(LANES);
            let top = self.top[m];
            let old = if block.first {
                f32::NEG_INFINITY
            } else {
                self.max[m]
            };
            let new = if top > old { top } else { old };
            let shift = s.splat(new);
            let mut sum = s.splat(0.0);
            let narrow = self.narrow_weights(m);
            for i in (0..whole).step_by(LANES) {
                let e = s.exp2_bf16(s.sub(s.load(weights.add(i)), shift));
                sum = s.add(sum, e);
                if self.tiles {
                    s.store_bf16(narrow.add(i), e);
                } else {
                    s.store(weights.add(i), e);
                }
            }
            // Values are read in groups of eight pairs from any position on, so the last group may
            // read one vector of weights beyond the block. The values there are 0, but 0 times an
            // unwritten NaN would be NaN.
            s.store(weights.add(whole), s.splat(0.0));
            let sums = self.sums(m);
            if block.first {
                self.sum[m] = s.sum(sum);
                for i in (0..self.width).step_by(LANES) {
                    s.store(sums.add(i), s.splat(0.0));
                }
            } else if new > old {
                let factor = s.exp(s.splat((old - new) * std::f32::consts::LN_2));
                self.sum[m] = self.sum[m] * s.to_array(factor)[0] + s.sum(sum);
                for i in (0..self.width).step_by(LANES) {
                    s.store(sums.add(i), s.mul(s.load(sums.add(i)), factor));
                }
            // If the maximum has not changed, the factor is exactly 1.
            } else {
                self.sum[m] += s.sum(sum);
            }
            self.max[m] = new;
        }
    }

    /// Writes the weighted mean of the values of head `m` to the output.
    #[inline(always)]
    unsafe fn finish<S: Simd>(&self, s: S, unit: &Unit<'_>, m: usize) {
        let head_dim = self.shape.head_dim;
        let (row, head) = (m / unit.heads, m % unit.heads);
        let mean = s.splat(1.0 / self.sum[m]);
        for d in (0..head_dim).step_by(LANES) {
            // SAFETY: the output of head `m` (`Unit::run`).
            unsafe {
                let out = unit.out.add(row * unit.out_stride + head * head_dim + d);
                let value = s.mul(s.load(self.sums(m).add(d)), mean);
                s.store_first(out, value, LANES.min(head_dim - d));
            }
        }
    }
}
