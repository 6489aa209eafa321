//! Scores and weighted values in pairs of bfloat16: by AMX's tiles, or by float32 multiply-adds in
//! the order of the tiles.

use std::ops::Range;

#[cfg(all(target_arch = "x86_64", target_os = "linux"))]
use super::super::tiles;
use super::super::unit::Block;
use super::{Pairs, VALUE_PAIRS};
use crate::simd::{LANES, Simd};

/// The number of pairs of keys in a partial sum; a tile multiplies as many at once.
const KEY_PAIRS: usize = 16;

impl Pairs {
    #[inline(always)]
    pub(super) unsafe fn scores<S: Simd>(&mut self, s: S, block: &Block<'_>, heads: Range<usize>) {
        let page_size = self.shape.page_size;
        let parts = page_size.div_ceil(LANES);
        let vectors = block.n / page_size * parts + (block.n % page_size).div_ceil(LANES);
        let key = |v: usize| -> *const u8 {
            // SAFETY: a vector's first position is a position of the page.
            unsafe { block.regions[v / parts].add(v % parts * LANES * 4) }
        };
        #[cfg(all(target_arch = "x86_64", target_os = "linux"))]
        if self.tiles {
            use super::BLOCK;
            use tiles::{Grid, HEADS, SUMS};
            for first in (0..vectors).step_by(SUMS) {
                let n = SUMS.min(vectors - first);
                // The array has a fixed length. If vectors are missing, the last one is repeated.
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
        let mut v = 0;
        while v < vectors {
            let some = if S::WIDE { 2.min(vectors - v) } else { 1 };
            let keys = [v, v + some - 1].map(&key);
            let at = [v, v + some - 1].map(|v| v / parts * page_size + v % parts * LANES);
            let mut m = heads.start;
            // SAFETY: a vector that begins at one of the page's positions is readable, also
            // beyond its end. In rising order: what it writes beyond is overwritten by the next.
            unsafe {
                while m < heads.end {
                    m += match (heads.end - m, some) {
                        (4.., 2) => self.score_vectors::<S, 4, 2>(s, keys, m, at),
                        (3, 2) => self.score_vectors::<S, 3, 2>(s, keys, m, at),
                        (2, 2) => self.score_vectors::<S, 2, 2>(s, keys, m, at),
                        (_, 2) => self.score_vectors::<S, 1, 2>(s, keys, m, at),
                        (4.., _) if S::WIDE => self.score_vectors::<S, 4, 1>(s, keys, m, at),
                        (2.., _) => self.score_vectors::<S, 2, 1>(s, keys, m, at),
                        _ => self.score_vectors::<S, 1, 1>(s, keys, m, at),
                    };
                }
            }
            v += some;
        }
    }

    /// Computes `P` vectors of scores for each of `G` heads. Returns `G`.
    #[inline(always)]
    unsafe fn score_vectors<S: Simd, const G: usize, const P: usize>(
        &self,
        s: S,
        keys: [*const u8; 2],
        m: usize,
        at: [usize; 2],
    ) -> usize {
        let (width, pairs) = (self.width, self.shape.head_dim.div_ceil(2));
        let mut total = [[s.splat(0.0); P]; G];
        // SAFETY: queries are written to whole vectors; keys as in `scores`.
        unsafe {
            let queries = self.query(m);
            for first in (0..pairs).step_by(KEY_PAIRS) {
                let mut sum = [[[s.splat(0.0); P]; G]; 2];
                for pair in first..pairs.min(first + KEY_PAIRS) {
                    for (odd, sum) in sum.iter_mut().enumerate() {
                        let mut key = [s.splat(0.0); P];
                        for (key, keys) in key.iter_mut().zip(keys) {
                            let keys = keys.add(4 * pair * self.shape.page_size);
                            *key = s.load_bf16(keys.cast(), odd == 1);
                        }
                        for (g, sum) in sum.iter_mut().enumerate() {
                            let q = s.splat(*queries.add(g * width + 2 * pair + odd));
                            for (sum, key) in sum.iter_mut().zip(key) {
                                *sum = s.fma(q, key, *sum);
                            }
                        }
                    }
                }
                // Partial sums start from 0 and are then added to the total, like in a tile
                // multiplication.
                for (g, total) in total.iter_mut().enumerate() {
                    for (p, total) in total.iter_mut().enumerate() {
                        *total = s.add(*total, s.add(sum[0][g][p], sum[1][g][p]));
                    }
                }
            }
            for (g, total) in total.iter().enumerate() {
                for (total, at) in total.iter().zip(at) {
                    s.store(self.weights(m + g).add(at), *total);
                }
            }
        }
        G
    }

    /// Adds weighted values in groups of eight pairs. If the last group is not full, its values are
    /// first copied and followed by zeros, because the page may have another sequence's values
    /// there.
    #[inline(always)]
    pub(super) unsafe fn values<S: Simd>(&mut self, s: S, block: &Block<'_>, heads: Range<usize>) {
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
        let last = vectors - 1;
        let tail: *mut u16 = if partial {
            // SAFETY: the rest's pairs in the page, and eight rows of the scratch memory that
            // holds rows of at most `WIDEST` pairs.
            unsafe {
                let tail = (&raw mut (*self.scratch).tail).cast::<u16>();
                let (from, n) = (place(last).cast::<u16>(), rest % LANES);
                tail.write_bytes(0, 2 * (VALUE_PAIRS * head_dim + LANES));
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
        let value = |v: usize| {
            if partial && v == last {
                tail.cast_const().cast::<u8>()
            } else {
                place(v)
            }
        };
        #[cfg(all(target_arch = "x86_64", target_os = "linux"))]
        if self.tiles {
            use super::WORDS;
            use tiles::{Grid, HEADS};
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
                    tiles::values(weights, head_dim, vectors, 4 * head_dim, value, sums);
                }
            }
            return;
        }
        let mut column = 0;
        while column < head_dim {
            let wide = S::WIDE && column + LANES < head_dim;
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
                        m += match (heads.end - m, wide) {
                            (4.., true) => {
                                self.add_values::<S, 4, 2>(s, from, pairs, m, at, column)
                            }
                            (3, true) => self.add_values::<S, 3, 2>(s, from, pairs, m, at, column),
                            (2, true) => self.add_values::<S, 2, 2>(s, from, pairs, m, at, column),
                            (_, true) => self.add_values::<S, 1, 2>(s, from, pairs, m, at, column),
                            (4.., _) if S::WIDE => {
                                self.add_values::<S, 4, 1>(s, from, pairs, m, at, column)
                            }
                            (2.., _) => self.add_values::<S, 2, 1>(s, from, pairs, m, at, column),
                            _ => self.add_values::<S, 1, 1>(s, from, pairs, m, at, column),
                        };
                    }
                }
            }
            column += if wide { 2 * LANES } else { LANES };
        }
    }

    /// Adds weighted pairs of values to `C` vectors of sums of each of `G` heads. Returns `G`.
    #[inline(always)]
    #[allow(clippy::too_many_arguments)]
    unsafe fn add_values<S: Simd, const G: usize, const C: usize>(
        &self,
        s: S,
        values: *const u8,
        pairs: usize,
        m: usize,
        at: usize,
        column: usize,
    ) -> usize {
        let mut sum = [[[s.splat(0.0); C]; G]; 2];
        // SAFETY: the caller promises `pairs` pairs of values at `values`, each of `4 * head_dim`
        // bytes.
        unsafe {
            for pair in 0..pairs {
                let values = values.add(4 * pair * self.shape.head_dim);
                for (odd, sum) in sum.iter_mut().enumerate() {
                    let mut value = [s.splat(0.0); C];
                    for (c, value) in value.iter_mut().enumerate() {
                        *value = s.load_bf16(values.add(4 * LANES * c).cast(), odd == 1);
                    }
                    for (g, sum) in sum.iter_mut().enumerate() {
                        let weight = s.splat(*self.weights(m + g).add(at + 2 * pair + odd));
                        for (sum, value) in sum.iter_mut().zip(value) {
                            *sum = s.fma(weight, value, *sum);
                        }
                    }
                }
            }
            for (g, (even, odd)) in sum[0].iter().zip(&sum[1]).enumerate() {
                for (c, (even, odd)) in even.iter().zip(odd).enumerate() {
                    let to = self.sums(m + g).add(column + c * LANES);
                    s.store(to, s.add(s.load(to), s.add(*even, *odd)));
                }
            }
        }
        G
    }

    /// # Safety
    /// Tiles must be allowed.
    #[cfg(all(target_arch = "x86_64", target_os = "linux"))]
    #[inline(always)]
    unsafe fn configure(&mut self, heads: usize) {
        let heads = if self.together {
            tiles::HEADS
        } else {
            heads.min(tiles::HEADS)
        };
        if heads != self.configured {
            // SAFETY: the caller's promise.
            unsafe { tiles::configure(heads) };
            self.configured = heads;
        }
    }
}
