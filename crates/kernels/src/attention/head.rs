//! Some query heads of one row, over the pages of its sequence.

use super::{BLOCK, GROUP};
use crate::kv::KvPages;
use crate::simd::{LANES, Simd};

/// Working memory of a task.
pub(super) struct Scratch {
    /// Scores, then weights, of a block; whole vectors may be written beyond its end.
    weights: [[f32; BLOCK + LANES]; GROUP],
    /// Start of each page's region of this layer and head.
    regions: [*const f32; BLOCK],
}

impl Scratch {
    #[inline(always)]
    pub(super) fn new() -> Self {
        Self {
            weights: [[0.0; BLOCK + LANES]; GROUP],
            regions: [std::ptr::null(); BLOCK],
        }
    }
}

/// The keys and values that one row's query heads of a group read.
pub(super) struct Head<'a> {
    pub(super) pages: &'a KvPages,
    pub(super) layer: usize,
    pub(super) kv_head: usize,
    /// The pages from the first in the window on.
    pub(super) table: &'a [u32],
    /// Positions of the first page that lie before the window.
    pub(super) skip: usize,
    /// Positions in these pages, those before the window included.
    pub(super) len: usize,
    pub(super) scale: f32,
}

impl Head<'_> {
    /// `G` query heads; `P` vectors of scores at a time where the registers suffice; values
    /// summed in `E` strands, that of a position chosen by its place in the page. Few heads need
    /// the strands to hide the latency of the multiply-add, so `E` depends on `G` alone: the
    /// order of a sum is the same in every tier. `out` must be valid for writing
    /// `G * head_dim` floats.
    #[inline(always)]
    pub(super) fn attend<S: Simd, const G: usize, const P: usize, const E: usize>(
        &self,
        s: S,
        q: &[f32],
        out: *mut f32,
        scratch: &mut Scratch,
    ) {
        let page_size = self.pages.shape().page_size;
        let pages_per_block = BLOCK / page_size;
        let mut max = [f32::NEG_INFINITY; G];
        let mut sum = [0.0f32; G];
        let mut start = 0;
        for table in self.table.chunks(pages_per_block) {
            for (region, page) in scratch.regions.iter_mut().zip(table) {
                *region = self.pages.head(*page, self.layer, self.kv_head).as_ptr();
            }
            let n = (self.len - start).min(pages_per_block * page_size);
            self.scores::<S, G, P>(s, q, n, scratch);
            let mut factor = [0.0f32; G];
            for g in 0..G {
                let weights = &mut scratch.weights[g][..n.next_multiple_of(LANES)];
                weights[n..].fill(f32::NEG_INFINITY);
                if start == 0 {
                    // Their weights become exactly zero. The page holds the window's first
                    // position, so the maximum is finite.
                    weights[..self.skip].fill(f32::NEG_INFINITY);
                }
                let mut top = s.splat(f32::NEG_INFINITY);
                for w in weights.chunks_exact(LANES) {
                    // SAFETY: sixteen floats.
                    top = s.max(unsafe { s.load(w.as_ptr()) }, top);
                }
                let top = s.max_lane(top);
                let new = if top > max[g] { top } else { max[g] };
                let shift = s.splat(new);
                let mut block_sum = s.splat(0.0);
                for w in weights.chunks_exact_mut(LANES) {
                    // SAFETY: sixteen floats.
                    unsafe {
                        let e = s.exp(s.sub(s.load(w.as_ptr()), shift));
                        block_sum = s.add(block_sum, e);
                        s.store(w.as_mut_ptr(), e);
                    }
                }
                factor[g] = if start == 0 {
                    0.0
                } else {
                    s.to_array(s.exp(s.splat(max[g] - new)))[0]
                };
                sum[g] = sum[g] * factor[g] + s.sum(block_sum);
                max[g] = new;
            }
            let continued = start > 0;
            start += n;
            let last = (start == self.len).then(|| sum.map(|sum| 1.0 / sum));
            self.values::<S, G, E>(
                s,
                Step {
                    n,
                    scratch,
                    continued,
                    factor,
                    last,
                    out,
                },
            );
        }
    }

    /// `scale * q · k` of the block's `n` positions into `scratch.weights`.
    #[inline(always)]
    fn scores<S: Simd, const G: usize, const P: usize>(
        &self,
        s: S,
        q: &[f32],
        n: usize,
        scratch: &mut Scratch,
    ) {
        let page_size = self.pages.shape().page_size;
        let parts = page_size.div_ceil(LANES);
        let vectors = n / page_size * parts + (n % page_size).div_ceil(LANES);
        let mut v = 0;
        if S::WIDE {
            while v + P <= vectors {
                self.score_vectors::<S, G, P>(s, q, v, parts, scratch);
                v += P;
            }
            while v + 2 <= vectors {
                self.score_vectors::<S, G, 2>(s, q, v, parts, scratch);
                v += 2;
            }
        }
        while v < vectors {
            self.score_vectors::<S, G, 1>(s, q, v, parts, scratch);
            v += 1;
        }
    }

    #[inline(always)]
    fn score_vectors<S: Simd, const G: usize, const P: usize>(
        &self,
        s: S,
        q: &[f32],
        v: usize,
        parts: usize,
        scratch: &mut Scratch,
    ) {
        let shape = self.pages.shape();
        let (head_dim, page_size) = (shape.head_dim, shape.page_size);
        let keys: [*const f32; P] = std::array::from_fn(|p| {
            let region = scratch.regions[(v + p) / parts];
            // SAFETY: a vector's first position is a position of the page.
            unsafe { region.add((v + p) % parts * LANES) }
        });
        let mut score = [[s.splat(0.0); G]; P];
        for d in 0..head_dim {
            // SAFETY: `q` is `G * head_dim` floats. The keys of a region are
            // `head_dim * page_size` floats with `head_len + LANES` readable, so a vector that
            // begins at one of its positions is readable, also beyond the page's last position.
            unsafe {
                let q: [S::V; G] =
                    std::array::from_fn(|g| s.splat(*q.as_ptr().add(g * head_dim + d)));
                for (score, key) in score.iter_mut().zip(keys) {
                    let key = s.load(key.add(d * page_size));
                    for (score, q) in score.iter_mut().zip(q) {
                        *score = s.fma(q, key, *score);
                    }
                }
            }
        }
        for (p, score) in score.iter().enumerate() {
            // In rising order: what a vector writes beyond its page is overwritten by the next.
            let at = (v + p) / parts * page_size + (v + p) % parts * LANES;
            for (weights, score) in scratch.weights.iter_mut().zip(score) {
                let target = &mut weights[at..at + LANES];
                // SAFETY: sixteen floats.
                unsafe { s.store(target.as_mut_ptr(), s.mul(*score, s.splat(self.scale))) };
            }
        }
    }

    /// `out = out * factor + weights · V` of a block, times `last` if given.
    #[inline(always)]
    fn values<S: Simd, const G: usize, const E: usize>(&self, s: S, step: Step<'_, G>) {
        let head_dim = self.pages.shape().head_dim;
        let mut column = 0;
        if S::WIDE {
            while column + 4 * LANES <= head_dim {
                self.value_columns::<S, G, E, 4>(s, &step, column, 4 * LANES);
                column += 4 * LANES;
            }
            while column + 2 * LANES <= head_dim {
                self.value_columns::<S, G, E, 2>(s, &step, column, 2 * LANES);
                column += 2 * LANES;
            }
        }
        while column < head_dim {
            let width = LANES.min(head_dim - column);
            self.value_columns::<S, G, E, 1>(s, &step, column, width);
            column += width;
        }
    }

    /// `width` columns from `column`, in `C` vectors.
    #[inline(always)]
    fn value_columns<S: Simd, const G: usize, const E: usize, const C: usize>(
        &self,
        s: S,
        step: &Step<'_, G>,
        column: usize,
        width: usize,
    ) {
        let shape = self.pages.shape();
        let (head_dim, page_size) = (shape.head_dim, shape.page_size);
        let lanes = |c: usize| (width - c * LANES).min(LANES);
        let mut sum = [[[s.splat(0.0); C]; G]; E];
        if step.continued {
            for (g, sum) in sum[0].iter_mut().enumerate() {
                for (c, sum) in sum.iter_mut().enumerate() {
                    // SAFETY: columns of head `g`, which `out` holds (`attend`).
                    let value = unsafe {
                        let p = step.out.add(g * head_dim + column + c * LANES);
                        if lanes(c) == LANES {
                            s.load(p)
                        } else {
                            s.load_part(p, lanes(c), 0.0)
                        }
                    };
                    *sum = s.mul(value, s.splat(step.factor[g]));
                }
            }
        }
        for (page, region) in step.scratch.regions[..step.n.div_ceil(page_size)]
            .iter()
            .enumerate()
        {
            let first = page * page_size;
            let slots = page_size.min(step.n - first);
            // SAFETY: the values follow the keys in the region.
            let values = unsafe { region.add(head_dim * page_size + column) };
            let mut slot = 0;
            while slot + E <= slots {
                for (e, sum) in sum.iter_mut().enumerate() {
                    // SAFETY: `slot + e` is a slot of the page, its position one of the block.
                    unsafe { self.add_value(s, step, values, slot + e, first, sum) };
                }
                slot += E;
            }
            for (e, sum) in sum.iter_mut().enumerate() {
                if slot + e < slots {
                    // SAFETY: as above.
                    unsafe { self.add_value(s, step, values, slot + e, first, sum) };
                }
            }
        }
        let (first, rest) = sum.split_first_mut().expect("at least one strand");
        for strand in rest {
            for (sum, strand) in first.iter_mut().zip(strand) {
                for (sum, strand) in sum.iter_mut().zip(strand) {
                    *sum = s.add(*sum, *strand);
                }
            }
        }
        for (g, sum) in first.iter().enumerate() {
            for (c, sum) in sum.iter().enumerate() {
                let value = match step.last {
                    Some(last) => s.mul(*sum, s.splat(last[g])),
                    None => *sum,
                };
                // SAFETY: columns of head `g`, which `out` holds (`attend`).
                unsafe {
                    let p = step.out.add(g * head_dim + column + c * LANES);
                    if lanes(c) == LANES {
                        s.store(p, value);
                    } else {
                        s.store_part(p, value, lanes(c));
                    }
                }
            }
        }
    }

    /// Adds a slot's weighted values to a strand.
    ///
    /// # Safety
    /// `values` must point at columns of a page's values, `slot` must be one of the page's slots
    /// and `first + slot` less than `step.n`.
    #[inline(always)]
    unsafe fn add_value<S: Simd, const G: usize, const C: usize>(
        &self,
        s: S,
        step: &Step<'_, G>,
        values: *const f32,
        slot: usize,
        first: usize,
        sum: &mut [[S::V; C]; G],
    ) {
        let head_dim = self.pages.shape().head_dim;
        // SAFETY: a vector that begins at a value of the page is readable, also beyond the
        // page's last value; `first + slot < n <= BLOCK`, and `G <= GROUP`.
        unsafe {
            let value: [S::V; C] =
                std::array::from_fn(|c| s.load(values.add(slot * head_dim + c * LANES)));
            for (g, sum) in sum.iter_mut().enumerate() {
                let weights = step.scratch.weights.get_unchecked(g);
                let weight = s.splat(*weights.get_unchecked(first + slot));
                for (sum, value) in sum.iter_mut().zip(value) {
                    *sum = s.fma(weight, value, *sum);
                }
            }
        }
    }
}

/// What the value sums of one block need.
struct Step<'a, const G: usize> {
    /// Positions of the block.
    n: usize,
    scratch: &'a Scratch,
    /// Whether earlier blocks left their sums in `out`.
    continued: bool,
    /// What the earlier sums are multiplied by, now that the maximum has changed.
    factor: [f32; G],
    /// In the last block: what turns the sums into a mean.
    last: Option<[f32; G]>,
    out: *mut f32,
}
