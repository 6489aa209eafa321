//! Attention over bfloat16: queries and weights are rounded to it, too, products of pairs are
//! summed in float32.
//!
//! The order of the sums is that of the tiles of AMX, whether the machine has them or not. Pairs
//! are taken sixteen (keys) or eight (values) at a time: their first halves and their second
//! halves are summed apart from 0 on, and the two sums are added to what there is. No operand
//! lies between 0 and [`TINY`], so that it does not matter whether subnormal numbers are flushed.

use std::ops::Range;

use super::BLOCK;
use super::unit::{Block, MOST, Stage, Unit};
use crate::Isa;
use crate::kv::{KvFormat, KvPages, KvShape, TINY};
use crate::simd::{LANES, Simd};

/// Most values of a head.
const WIDEST: usize = KvFormat::WIDEST_BF16;

/// Words from the rounded weights of a head to the next: no power of two, for the cache's sake.
const WORDS: usize = BLOCK + 2 * LANES;

/// Heads whose scores and weights of a block (13 kB) stay in the first-level cache beside its keys
/// and values (32 kB at 64 columns): one tile.
const STRIP: usize = 16;

/// Words of eight pairs of values, and a vector behind them that may be read.
const TAIL: usize = 2 * (VALUE_PAIRS * WIDEST + LANES);

/// Pairs of keys, and of values, whose products are summed apart from the rest.
const KEY_PAIRS: usize = 16;
const VALUE_PAIRS: usize = 8;

/// Working memory.
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
    /// The last values of a block, with zeros behind them.
    tail: [u16; TAIL],
}

/// The running softmax of each head.
pub(super) struct Pairs {
    max: [f32; MOST],
    sum: [f32; MOST],
    shape: KvShape,
    /// `head_dim` in whole vectors.
    width: usize,
    /// Bytes of the keys in a region.
    key_bytes: usize,
    tiles: bool,
    /// Heads that tiles are configured for.
    configured: usize,
    /// Whether several rows are taken together, from the first on: whole tiles may then reach
    /// beyond the last.
    together: bool,
    scratch: *mut Scratch,
}

impl Stage for Pairs {
    const POSITIONS: usize = 128;
    type Scratch = Scratch;

    #[inline(always)]
    unsafe fn new(isa: Isa, pages: &KvPages, scratch: *mut Scratch) -> Self {
        let shape = pages.shape();
        let whole = shape.head_dim.is_multiple_of(32) && shape.page_size.is_multiple_of(LANES);
        Self {
            max: [0.0; MOST],
            sum: [0.0; MOST],
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
        // Scores are exponents of 2.
        let scale = s.splat(unit.scale * std::f32::consts::LOG2_E);
        for m in 0..unit.rows.len() * unit.heads {
            let (row, head) = (m / unit.heads, m % unit.heads);
            for d in (0..head_dim).step_by(LANES) {
                // SAFETY: a query of the unit (`Unit::run`), and its place in the scratch memory.
                unsafe {
                    let q = unit.q.add(row * unit.q_stride + head * head_dim + d);
                    let q = match head_dim - d {
                        n if n < LANES => s.load_part(q, n, 0.0),
                        _ => s.load(q),
                    };
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
        for first in heads.clone().step_by(STRIP) {
            let strip = first..heads.end.min(first + STRIP);
            // SAFETY: the caller's promises.
            unsafe {
                self.scores(s, block, strip.clone());
                for m in strip.clone() {
                    self.weigh(s, block, m);
                }
                self.values(s, block, strip.clone());
                if block.last {
                    for m in strip {
                        self.finish(s, unit, m);
                    }
                }
            }
        }
    }
}

impl Drop for Pairs {
    fn drop(&mut self) {
        #[cfg(all(target_arch = "x86_64", target_os = "linux"))]
        if self.configured > 0 {
            // SAFETY: they were configured.
            unsafe { super::tiles::release() };
        }
    }
}

impl Pairs {
    /// # Safety
    /// As for all below: `m < MOST`, inside the scratch memory.
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

    #[inline(always)]
    unsafe fn scores<S: Simd>(&mut self, s: S, block: &Block<'_>, heads: Range<usize>) {
        let page_size = self.shape.page_size;
        let parts = page_size.div_ceil(LANES);
        let vectors = block.n / page_size * parts + (block.n % page_size).div_ceil(LANES);
        let key = |v: usize| -> *const u8 {
            // SAFETY: a vector's first position is a position of the page.
            unsafe { block.regions[v / parts].add(v % parts * LANES * 4) }
        };
        #[cfg(all(target_arch = "x86_64", target_os = "linux"))]
        if self.tiles {
            use super::tiles::{self, Grid, HEADS, SUMS};
            for first in (0..vectors).step_by(SUMS) {
                let n = SUMS.min(vectors - first);
                let keys: [*const u8; SUMS] = std::array::from_fn(|i| key(first + i.min(n - 1)));
                for m in heads.clone().step_by(HEADS) {
                    // SAFETY: pages are whole vectors, heads whole tiles; the places in the
                    // scratch memory are written or may be.
                    unsafe {
                        self.configure(heads.end - m);
                        let queries = Grid {
                            at: self.narrow_query(m).cast_const().cast(),
                            stride: 2 * self.width,
                        };
                        let scores = Grid {
                            at: self.weights(m).add(first * LANES),
                            stride: 4 * (BLOCK + LANES),
                        };
                        let pairs = self.shape.head_dim / 2;
                        tiles::scores(queries, pairs, &keys[..n], 4 * page_size, scores);
                    }
                }
            }
            return;
        }
        for v in 0..vectors {
            let at = v / parts * page_size + v % parts * LANES;
            let mut m = heads.start;
            // SAFETY: a vector that begins at one of the page's positions is readable, also
            // beyond its end. In rising order: what it writes beyond is overwritten by the next.
            unsafe {
                while m < heads.end {
                    m += match heads.end - m {
                        4.. if S::WIDE => self.score_vector::<S, 4>(s, key(v), m, at),
                        2.. => self.score_vector::<S, 2>(s, key(v), m, at),
                        _ => self.score_vector::<S, 1>(s, key(v), m, at),
                    };
                }
            }
        }
    }

    /// Sixteen scores of `G` heads, which it returns.
    #[inline(always)]
    unsafe fn score_vector<S: Simd, const G: usize>(
        &self,
        s: S,
        keys: *const u8,
        m: usize,
        at: usize,
    ) -> usize {
        let (width, pairs) = (self.width, self.shape.head_dim.div_ceil(2));
        let mut total = [s.splat(0.0); G];
        // SAFETY: queries are written to whole vectors; keys as in `scores`.
        unsafe {
            let queries = self.query(m);
            for first in (0..pairs).step_by(KEY_PAIRS) {
                let mut sum = [[s.splat(0.0); G]; 2];
                for pair in first..pairs.min(first + KEY_PAIRS) {
                    let key = keys.add(4 * pair * self.shape.page_size).cast::<u16>();
                    for (odd, sum) in sum.iter_mut().enumerate() {
                        let key = s.load_bf16(key, odd == 1);
                        for (g, sum) in sum.iter_mut().enumerate() {
                            let q = *queries.add(g * width + 2 * pair + odd);
                            *sum = s.fma(s.splat(q), key, *sum);
                        }
                    }
                }
                for (g, total) in total.iter_mut().enumerate() {
                    *total = s.add(*total, s.add(sum[0][g], sum[1][g]));
                }
            }
            for (g, total) in total.iter().enumerate() {
                s.store(self.weights(m + g).add(at), *total);
            }
        }
        G
    }

    /// Turns the scores of head `m` into rounded weights, and scales its sums of values.
    #[inline(always)]
    unsafe fn weigh<S: Simd>(&mut self, s: S, block: &Block<'_>, m: usize) {
        // SAFETY: the first `n` are scores, the others up to the next whole vector, and a vector
        // more, are written here.
        unsafe {
            let weights = self.weights(m);
            let whole = block.n.next_multiple_of(LANES);
            for i in block.n..whole {
                *weights.add(i) = f32::NEG_INFINITY;
            }
            for i in 0..block.skip {
                *weights.add(i) = f32::NEG_INFINITY;
            }
            let mut top = s.splat(f32::NEG_INFINITY);
            for i in (0..whole).step_by(LANES) {
                top = s.max(s.load(weights.add(i)), top);
            }
            let top = s.max_lane(top);
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
            } else {
                self.sum[m] += s.sum(sum);
            }
            self.max[m] = new;
        }
    }

    /// Values in pieces of eight pairs of a page: of the block's last, which may not be full,
    /// a copy with zeros behind it, because what lies there in the page is another sequence's.
    #[inline(always)]
    unsafe fn values<S: Simd>(&mut self, s: S, block: &Block<'_>, heads: Range<usize>) {
        let (page_size, head_dim) = (self.shape.page_size, self.shape.head_dim);
        let parts = page_size.div_ceil(LANES);
        let (full, rest) = (block.n / page_size, block.n % page_size);
        let vectors = full * parts + rest.div_ceil(LANES);
        let key_bytes = self.key_bytes;
        let place = |v: usize| -> *const u8 {
            let pair = v % parts * VALUE_PAIRS;
            // SAFETY: pairs of the page, whose values follow the keys.
            unsafe { block.regions[v / parts].add(key_bytes + 4 * pair * head_dim) }
        };
        let partial = rest % LANES > 0;
        let (last, stride) = (vectors - 1, 4 * head_dim);
        let tail: *mut u16 = if partial {
            // SAFETY: the rest's pairs in the page, and eight rows of the scratch memory that
            // holds rows of at most `WIDEST` pairs.
            unsafe {
                let tail = (&raw mut (*self.scratch).tail).cast::<u16>();
                let (from, n) = (place(last).cast::<u16>(), rest % LANES);
                tail.write_bytes(0, TAIL);
                std::ptr::copy_nonoverlapping(from, tail, n / 2 * 2 * head_dim);
                if n % 2 == 1 {
                    for i in 0..head_dim {
                        let at = (n / 2 * head_dim + i) * 2;
                        *tail.add(at) = *from.add(at);
                    }
                }
                tail
            }
        } else {
            std::ptr::null_mut()
        };
        let value = |v: usize| match partial && v == last {
            true => tail.cast_const().cast::<u8>(),
            false => place(v),
        };
        #[cfg(all(target_arch = "x86_64", target_os = "linux"))]
        if self.tiles {
            use super::tiles::{self, Grid, HEADS};
            for m in heads.clone().step_by(HEADS) {
                // SAFETY: pages are whole vectors, heads whole tiles; weights and sums are
                // written.
                unsafe {
                    self.configure(heads.end - m);
                    let weights = Grid {
                        at: self.narrow_weights(m).cast_const().cast(),
                        stride: 2 * WORDS,
                    };
                    let sums = Grid {
                        at: self.sums(m),
                        stride: 4 * self.width,
                    };
                    tiles::values(weights, head_dim, vectors, stride, value, sums);
                }
            }
            return;
        }
        for column in (0..head_dim).step_by(LANES) {
            for v in 0..vectors {
                let at = v / parts * page_size + v % parts * LANES;
                let slots = page_size - v % parts * LANES;
                let pairs = slots.div_ceil(2).min(VALUE_PAIRS);
                let mut m = heads.start;
                // SAFETY: pairs of the page or of the tail, which are readable in whole vectors,
                // also beyond the last; weights and sums are written.
                unsafe {
                    let from = value(v).add(4 * column);
                    while m < heads.end {
                        m += match heads.end - m {
                            4.. if S::WIDE => {
                                self.add_values::<S, 4>(s, from, pairs, m, at, column)
                            }
                            2.. => self.add_values::<S, 2>(s, from, pairs, m, at, column),
                            _ => self.add_values::<S, 1>(s, from, pairs, m, at, column),
                        };
                    }
                }
            }
        }
    }

    /// Adds weighted pairs of values to sixteen sums of `G` heads, which it returns.
    #[inline(always)]
    #[allow(clippy::too_many_arguments)]
    unsafe fn add_values<S: Simd, const G: usize>(
        &self,
        s: S,
        values: *const u8,
        pairs: usize,
        m: usize,
        at: usize,
        column: usize,
    ) -> usize {
        let mut sum = [[s.splat(0.0); G]; 2];
        // SAFETY: as in `values`.
        unsafe {
            for pair in 0..pairs {
                let value = values.add(4 * pair * self.shape.head_dim).cast::<u16>();
                for (odd, sum) in sum.iter_mut().enumerate() {
                    let value = s.load_bf16(value, odd == 1);
                    for (g, sum) in sum.iter_mut().enumerate() {
                        let weight = *self.weights(m + g).add(at + 2 * pair + odd);
                        *sum = s.fma(s.splat(weight), value, *sum);
                    }
                }
            }
            for (g, (even, odd)) in sum[0].iter().zip(&sum[1]).enumerate() {
                let to = self.sums(m + g).add(column);
                s.store(to, s.add(s.load(to), s.add(*even, *odd)));
            }
        }
        G
    }

    /// The mean of the values.
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
                match head_dim - d {
                    n if n < LANES => s.store_part(out, value, n),
                    _ => s.store(out, value),
                }
            }
        }
    }

    /// # Safety
    /// Tiles must be allowed.
    #[cfg(all(target_arch = "x86_64", target_os = "linux"))]
    #[inline(always)]
    unsafe fn configure(&mut self, heads: usize) {
        let heads = match self.together {
            true => super::tiles::HEADS,
            false => heads.min(super::tiles::HEADS),
        };
        if heads != self.configured {
            // SAFETY: the caller's promise.
            unsafe { super::tiles::configure(heads) };
            self.configured = heads;
        }
    }
}
