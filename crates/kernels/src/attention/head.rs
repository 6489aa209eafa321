//! Attention in float32, over keys and values that are float32 or widened to it.

use std::marker::PhantomData;
use std::ops::Range;

use super::BLOCK;
use super::unit::{Block, MOST, Stage, Unit};
use crate::Isa;
use crate::isa::Task;
use crate::kv::{KvPages, KvShape, Numbers};
use crate::simd::{LANES, Simd};

/// Most query heads in a register block.
const GROUP: usize = 4;

/// Positions whose keys or values stay in the first-level cache while several rows pass over
/// them: 16 kB at 64 columns.
const SPAN: usize = 64;

/// Scores, then weights, of a block; whole vectors may be written beyond its end. Nothing in it
/// is read before it is written.
pub(super) type Weights = [[f32; BLOCK + LANES]; MOST];

/// The running softmax of each head. The weighted sums of values are kept in the output.
pub(super) struct Float<W> {
    max: [f32; MOST],
    sum: [f32; MOST],
    /// The largest score of each head in the current block.
    top: [f32; MOST],
    /// The factor on the sums of earlier blocks: `exp(old maximum - new maximum)`, at most 1.
    factor: [f32; MOST],
    weights: *mut [f32; BLOCK + LANES],
    numbers: PhantomData<W>,
}

impl<W: Numbers> Stage for Float<W> {
    const POSITIONS: usize = BLOCK;
    type Scratch = Weights;

    #[inline(always)]
    unsafe fn new(_: Isa, _: &KvPages, scratch: *mut Weights) -> Self {
        Self {
            max: [0.0; MOST],
            sum: [0.0; MOST],
            top: [0.0; MOST],
            factor: [0.0; MOST],
            weights: scratch.cast(),
            numbers: PhantomData,
        }
    }

    #[inline(always)]
    unsafe fn begin<S: Simd>(&mut self, _: S, _: &Unit<'_>) {}

    #[inline(always)]
    unsafe fn block<S: Simd>(
        &mut self,
        s: S,
        unit: &Unit<'_>,
        block: &Block<'_>,
        rows: Range<usize>,
    ) {
        let pages = block.regions.len();
        // If several rows read a span, its keys or values stay in the cache. A single row reads
        // everything once, so spans would not help.
        let span = match rows.len() {
            1 => pages,
            _ => (SPAN / unit.pages.shape().page_size).max(1),
        };
        // SAFETY: the caller's promises.
        unsafe {
            for first in (0..pages).step_by(span) {
                let part = first..pages.min(first + span);
                for r in rows.clone() {
                    self.scores(s, unit, block, r, part.clone());
                }
            }
            // The weights need the maximum of the whole block, so all scores are computed first.
            let heads = rows.start * unit.heads..rows.end * unit.heads;
            for m in heads.clone() {
                self.top[m] = block.find_top(s, self.weights.add(m).cast());
            }
            for m in heads {
                self.weigh(s, block, m);
            }
            for first in (0..pages).step_by(span) {
                let part = first..pages.min(first + span);
                for r in rows.clone() {
                    self.values(s, unit, block, r, part.clone());
                }
            }
        }
    }
}

/// Some query heads of a row and some pages of a block.
struct Piece<'a> {
    shape: KvShape,
    block: &'a Block<'a>,
    part: Range<usize>,
    /// The first head's place in the unit.
    m: usize,
    scale: f32,
    q: *const f32,
    out: *mut f32,
}

/// [`Float::score_pages`] as a function of its own.
struct Scores<'a, W, const G: usize>(&'a Float<W>, &'a Piece<'a>);

impl<W: Numbers, const G: usize> Task for Scores<'_, W, G> {
    type Output = ();
    #[inline(always)]
    fn run<S: Simd>(self, s: S) {
        // SAFETY: only `Float::scores` creates this task, from a valid piece.
        unsafe { self.0.score_pages::<S, G>(s, self.1) };
    }
}

/// [`Float::value_pages`] as a function of its own.
struct Values<'a, W, const G: usize, const E: usize>(&'a Float<W>, &'a Piece<'a>);

impl<W: Numbers, const G: usize, const E: usize> Task for Values<'_, W, G, E> {
    type Output = ();
    #[inline(always)]
    fn run<S: Simd>(self, s: S) {
        // SAFETY: only `Float::values` creates this task, from a valid piece.
        unsafe { self.0.value_pages::<S, G, E>(s, self.1) };
    }
}

impl<W: Numbers> Float<W> {
    /// Returns the piece of row `row` with the heads from `head` on.
    #[inline(always)]
    unsafe fn piece<'a>(
        unit: &Unit<'_>,
        block: &'a Block<'a>,
        (row, head): (usize, usize),
        part: Range<usize>,
    ) -> Piece<'a> {
        let shape = unit.pages.shape();
        // SAFETY: a head of the unit (`Unit::run`).
        unsafe {
            Piece {
                shape,
                block,
                part,
                m: row * unit.heads + head,
                scale: unit.scale,
                q: unit.q.add(row * unit.q_stride + head * shape.head_dim),
                out: unit.out.add(row * unit.out_stride + head * shape.head_dim),
            }
        }
    }

    /// Computes the scores of row `r`.
    #[inline(always)]
    unsafe fn scores<S: Simd>(
        &self,
        s: S,
        unit: &Unit<'_>,
        block: &Block<'_>,
        r: usize,
        part: Range<usize>,
    ) {
        for head in (0..unit.heads).step_by(GROUP) {
            // SAFETY: the caller's promises.
            unsafe {
                let piece = Self::piece(unit, block, (r, head), part.clone());
                match unit.heads - head {
                    1 => s.call(Scores::<_, 1>(self, &piece)),
                    2 => s.call(Scores::<_, 2>(self, &piece)),
                    3 => s.call(Scores::<_, 3>(self, &piece)),
                    _ => s.call(Scores::<_, 4>(self, &piece)),
                }
            }
        }
    }

    /// Sums the weighted values of row `r` in `E` strands: position `i` of a page is added to
    /// strand `i % E`. Few heads need several strands to hide the latency of multiply-adds. `E`
    /// depends only on the number of heads, so all tiers sum in the same order.
    #[inline(always)]
    unsafe fn values<S: Simd>(
        &self,
        s: S,
        unit: &Unit<'_>,
        block: &Block<'_>,
        r: usize,
        part: Range<usize>,
    ) {
        let all = block.regions.len();
        for head in (0..unit.heads).step_by(GROUP) {
            let heads = unit.heads - head;
            // Strands last for a whole block, so one or two heads take all pages of the block at
            // once.
            let part = match heads {
                1 | 2 if part.start > 0 => continue,
                1 | 2 => 0..all,
                _ => part.clone(),
            };
            // SAFETY: the caller's promises.
            unsafe {
                let piece = Self::piece(unit, block, (r, head), part);
                match heads {
                    1 => s.call(Values::<_, 1, 4>(self, &piece)),
                    2 => s.call(Values::<_, 2, 2>(self, &piece)),
                    3 => s.call(Values::<_, 3, 1>(self, &piece)),
                    _ => s.call(Values::<_, 4, 1>(self, &piece)),
                }
            }
        }
    }

    /// Turns the scores of head `m` into weights.
    #[inline(always)]
    unsafe fn weigh<S: Simd>(&mut self, s: S, block: &Block<'_>, m: usize) {
        // SAFETY: scores to the next whole vector (`Block::find_top`).
        let weights = unsafe {
            let start = self.weights.add(m).cast::<f32>();
            std::slice::from_raw_parts_mut(start, block.n.next_multiple_of(LANES))
        };
        let top = self.top[m];
        let old = if block.first {
            f32::NEG_INFINITY
        } else {
            self.max[m]
        };
        let new = if top > old { top } else { old };
        let shift = s.splat(new);
        let mut sum = s.splat(0.0);
        for w in weights.chunks_exact_mut(LANES) {
            // SAFETY: sixteen floats.
            unsafe {
                let e = s.exp(s.sub(s.load(w.as_ptr()), shift));
                sum = s.add(sum, e);
                s.store(w.as_mut_ptr(), e);
            }
        }
        (self.factor[m], self.sum[m]) = if block.first {
            (0.0, s.sum(sum))
        } else {
            let factor = s.to_array(s.exp(s.splat(old - new)))[0];
            (factor, self.sum[m] * factor + s.sum(sum))
        };
        self.max[m] = new;
    }

    /// `scale * q · k` of the pages' positions, as many vectors at a time as there are registers for
    /// `G` heads.
    #[inline(always)]
    unsafe fn score_pages<S: Simd, const G: usize>(&self, s: S, piece: &Piece<'_>) {
        let page_size = piece.shape.page_size;
        let parts = page_size.div_ceil(LANES);
        let n = piece.block.n.min(piece.part.end * page_size);
        let vectors = n / page_size * parts + (n % page_size).div_ceil(LANES);
        let mut v = piece.part.start * parts;
        // SAFETY: vectors of the piece's pages.
        unsafe {
            if S::WIDE {
                while G == 1 && v + 8 <= vectors {
                    self.score_vectors::<S, G, 8>(s, piece, v, parts);
                    v += 8;
                }
                // Equal groups: a single vector at the end would wait for each multiply-add.
                while v < vectors {
                    let rest = vectors - v;
                    let n = rest.div_ceil(rest.div_ceil(4));
                    match n {
                        4 => self.score_vectors::<S, G, 4>(s, piece, v, parts),
                        3 => self.score_vectors::<S, G, 3>(s, piece, v, parts),
                        2 => self.score_vectors::<S, G, 2>(s, piece, v, parts),
                        _ => self.score_vectors::<S, G, 1>(s, piece, v, parts),
                    }
                    v += n;
                }
            }
            while v < vectors {
                self.score_vectors::<S, G, 1>(s, piece, v, parts);
                v += 1;
            }
        }
    }

    #[inline(always)]
    unsafe fn score_vectors<S: Simd, const G: usize, const P: usize>(
        &self,
        s: S,
        piece: &Piece<'_>,
        v: usize,
        parts: usize,
    ) {
        let (head_dim, page_size) = (piece.shape.head_dim, piece.shape.page_size);
        let keys: [*const W::Word; P] = std::array::from_fn(|p| {
            let region = piece.block.regions[(v + p) / parts].cast::<W::Word>();
            // SAFETY: a vector's first position is a position of the page.
            unsafe { region.add((v + p) % parts * LANES) }
        });
        let mut score = [[s.splat(0.0); G]; P];
        for d in 0..head_dim {
            // SAFETY: `q` is `G * head_dim` floats. The keys of a region are
            // `head_dim * page_size` words with 64 bytes more readable, so a vector that begins
            // at one of its positions is readable, also beyond the page's last position.
            unsafe {
                let q: [S::V; G] = std::array::from_fn(|g| s.splat(*piece.q.add(g * head_dim + d)));
                for (score, key) in score.iter_mut().zip(keys) {
                    let key = W::load(s, key.add(d * page_size));
                    for (score, q) in score.iter_mut().zip(q) {
                        *score = s.fma(q, key, *score);
                    }
                }
            }
        }
        for (p, score) in score.iter().enumerate() {
            // Positions rise, so lanes that one vector writes beyond its page are overwritten by
            // the next.
            let at = (v + p) / parts * page_size + (v + p) % parts * LANES;
            for (g, score) in score.iter().enumerate() {
                // SAFETY: the weights of head `m + g`, at one of the block's positions.
                unsafe {
                    let target = self.weights.add(piece.m + g).cast::<f32>().add(at);
                    s.store(target, s.mul(*score, s.splat(piece.scale)));
                }
            }
        }
    }

    /// `out = out * factor + weights · V` of the pages; in the end divided by the sum.
    #[inline(always)]
    unsafe fn value_pages<S: Simd, const G: usize, const E: usize>(&self, s: S, piece: &Piece<'_>) {
        let head_dim = piece.shape.head_dim;
        let mut column = 0;
        // SAFETY: columns of the head.
        unsafe {
            if S::WIDE {
                while column + 4 * LANES <= head_dim {
                    self.value_columns::<S, G, E, 4>(s, piece, column, 4 * LANES);
                    column += 4 * LANES;
                }
                while column + 2 * LANES <= head_dim {
                    self.value_columns::<S, G, E, 2>(s, piece, column, 2 * LANES);
                    column += 2 * LANES;
                }
            }
            while column < head_dim {
                let width = LANES.min(head_dim - column);
                self.value_columns::<S, G, E, 1>(s, piece, column, width);
                column += width;
            }
        }
    }

    /// `width` columns from `column`, in `C` vectors.
    #[inline(always)]
    unsafe fn value_columns<S: Simd, const G: usize, const E: usize, const C: usize>(
        &self,
        s: S,
        piece: &Piece<'_>,
        column: usize,
        width: usize,
    ) {
        let (head_dim, page_size) = (piece.shape.head_dim, piece.shape.page_size);
        let lanes = |c: usize| (width - c * LANES).min(LANES);
        let mut sum = [[[s.splat(0.0); C]; G]; E];
        // An earlier part of this block has already applied the factor.
        let begun = piece.part.start > 0;
        if begun || !piece.block.first {
            for (g, sum) in sum[0].iter_mut().enumerate() {
                let factor = if begun { 1.0 } else { self.factor[piece.m + g] };
                for (c, sum) in sum.iter_mut().enumerate() {
                    // SAFETY: columns of head `g`, which `out` holds (`Unit::run`).
                    let value = unsafe {
                        let p = piece.out.add(g * head_dim + column + c * LANES);
                        s.load_first(p, lanes(c), 0.0)
                    };
                    *sum = s.mul(value, s.splat(factor));
                }
            }
        }
        for page in piece.part.clone() {
            let first = page * page_size;
            let slots = page_size.min(piece.block.n - first);
            let region = piece.block.regions[page].cast::<W::Word>();
            // SAFETY: the values follow the keys in the region.
            let values = unsafe { region.add(head_dim * page_size + column) };
            let mut slot = 0;
            while slot + E <= slots {
                for (e, sum) in sum.iter_mut().enumerate() {
                    // SAFETY: `slot + e` is a slot of the page, its position one of the block.
                    unsafe { self.add_value(s, piece, values, slot + e, first, sum) };
                }
                slot += E;
            }
            for (e, sum) in sum.iter_mut().enumerate() {
                if slot + e < slots {
                    // SAFETY: `slot + e` is a slot of the page, checked, and its position one of
                    // the block.
                    unsafe { self.add_value(s, piece, values, slot + e, first, sum) };
                }
            }
        }
        // The order is fixed: strand 0 has the sum of earlier blocks, and the other strands are
        // added to it.
        let (first, rest) = sum.split_first_mut().expect("at least one strand");
        for strand in rest {
            for (sum, strand) in first.iter_mut().zip(strand) {
                for (sum, strand) in sum.iter_mut().zip(strand) {
                    *sum = s.add(*sum, *strand);
                }
            }
        }
        let last = piece.block.last && piece.part.end == piece.block.regions.len();
        for (g, sum) in first.iter().enumerate() {
            let mean = 1.0 / self.sum[piece.m + g];
            for (c, sum) in sum.iter().enumerate() {
                let value = if last {
                    s.mul(*sum, s.splat(mean))
                } else {
                    *sum
                };
                // SAFETY: columns of head `g`, which `out` holds (`Unit::run`).
                unsafe {
                    let p = piece.out.add(g * head_dim + column + c * LANES);
                    s.store_first(p, value, lanes(c));
                }
            }
        }
    }

    /// Adds a slot's weighted values to a strand.
    ///
    /// # Safety
    /// `values` must point at columns of a page's values, `slot` must be one of the page's slots
    /// and `first + slot` one of the block's positions.
    #[inline(always)]
    unsafe fn add_value<S: Simd, const G: usize, const C: usize>(
        &self,
        s: S,
        piece: &Piece<'_>,
        values: *const W::Word,
        slot: usize,
        first: usize,
        sum: &mut [[S::V; C]; G],
    ) {
        let head_dim = piece.shape.head_dim;
        // SAFETY: a vector that begins at a value of the page is readable, also beyond the
        // page's last value; the weights of the block's positions are written.
        unsafe {
            let value: [S::V; C] =
                std::array::from_fn(|c| W::load(s, values.add(slot * head_dim + c * LANES)));
            for (g, sum) in sum.iter_mut().enumerate() {
                let weights = self.weights.add(piece.m + g).cast::<f32>();
                let weight = s.splat(*weights.add(first + slot));
                for (sum, value) in sum.iter_mut().zip(value) {
                    *sum = s.fma(weight, value, *sum);
                }
            }
        }
    }
}
