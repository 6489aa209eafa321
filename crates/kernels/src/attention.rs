//! Causal attention of single rows over paged keys and values, with grouped query heads.
//!
//! The flat path: every row reads its own pages, the query heads of one key-value head together.
//! Positions are taken in blocks of whole pages, at most [`BLOCK`] long, with a running maximum
//! (online softmax). The first block begins with the page of the first position attended to, so
//! the order of all sums depends only on the row's position, the window and the page size.

use crate::Cpu;
use crate::isa::Task;
use crate::kv::KvPages;
use crate::parallel::SharedOut;
use crate::simd::{LANES, Simd};

/// Most positions whose scores are held at once.
const BLOCK: usize = crate::KvShape::MAX_PAGE_SIZE;

/// Most query heads taken together.
const GROUP: usize = 4;

/// Where the queries lie and how scores are scaled.
#[derive(Clone, Copy, Debug)]
pub struct AttentionShape {
    /// Query heads, a multiple of the key-value heads; head `h` reads key-value head
    /// `h / (heads / kv_heads)`.
    pub heads: usize,
    /// Floats from one query row to the next; a row begins with its `heads * head_dim` queries.
    pub stride: usize,
    /// Factor of the scores, usually `1 / sqrt(head_dim)`.
    pub scale: f32,
    /// Most positions a row attends to, its own included (a sliding window); `None` is all.
    pub window: Option<usize>,
}

impl AttentionShape {
    /// The first of `len` positions that lies in the window.
    fn first(&self, len: usize) -> usize {
        self.window.map_or(0, |window| len.saturating_sub(window))
    }
}

/// What one row attends to.
#[derive(Clone, Copy, Debug)]
pub struct AttentionRow {
    /// Index in `tables` of the sequence's first page.
    pub table: u32,
    /// The row's own position plus one: it attends to positions `0..len`, or to the last
    /// [`AttentionShape::window`] of them.
    pub len: u32,
}

/// `out[row] = softmax(scale * q[row] Kᵀ) V` for every row and head; `out` is
/// `[rows, heads * head_dim]` without gaps.
///
/// # Panics
/// If lengths disagree, a page or the layer does not exist, or a row attends to nothing (a window
/// of 0 included).
#[allow(clippy::too_many_arguments)]
pub fn attention(
    cpu: Cpu,
    pages: &KvPages,
    layer: usize,
    shape: AttentionShape,
    q: &[f32],
    tables: &[u32],
    rows: &[AttentionRow],
    out: &mut [f32],
) {
    let kv = pages.shape();
    let width = shape.heads * kv.head_dim;
    assert!(layer < kv.layers && width <= shape.stride);
    assert!(shape.heads > 0 && shape.heads.is_multiple_of(kv.kv_heads));
    assert!(shape.window != Some(0));
    assert_eq!(out.len(), rows.len() * width);
    assert_eq!(q.len(), rows.len() * shape.stride);
    let mut positions = 0;
    for row in rows {
        assert!(row.len > 0);
        let pages = (row.len as usize).div_ceil(kv.page_size);
        assert!(row.table as usize + pages <= tables.len());
        positions += row.len as u64 - shape.first(row.len as usize) as u64;
    }

    let work = 4 * positions * width as u64;
    let items = rows.len() * kv.kv_heads;
    let threads = cpu.parallel.threads_for(work);
    // Rows have unequal lengths: eight runs a thread even them out.
    let runs = if threads == 1 {
        1
    } else {
        items.min(8 * threads)
    };
    let shared = SharedOut::new(out);
    cpu.parallel.for_each(runs, work, |run| {
        cpu.isa.run(Items {
            pages,
            layer,
            shape,
            q,
            tables,
            rows,
            items: run * items / runs..(run + 1) * items / runs,
            out: shared,
        });
    });
}

/// Some of the pairs (row, key-value head), counted row by row.
struct Items<'a> {
    pages: &'a KvPages,
    layer: usize,
    shape: AttentionShape,
    q: &'a [f32],
    tables: &'a [u32],
    rows: &'a [AttentionRow],
    items: std::ops::Range<usize>,
    /// Each pair writes its own heads of its own row.
    out: SharedOut,
}

/// Working memory of a task.
struct Scratch {
    /// Scores, then weights, of a block; whole vectors may be written beyond its end.
    weights: [[f32; BLOCK + LANES]; GROUP],
    /// Start of each page's region of this layer and head.
    regions: [*const f32; BLOCK],
}

impl Task for Items<'_> {
    type Output = ();
    #[inline(always)]
    fn run<S: Simd>(self, s: S) {
        let kv = self.pages.shape();
        let group = self.shape.heads / kv.kv_heads;
        let mut scratch = Scratch {
            weights: [[0.0; BLOCK + LANES]; GROUP],
            regions: [std::ptr::null(); BLOCK],
        };
        for item in self.items.clone() {
            let (r, kv_head) = (item / kv.kv_heads, item % kv.kv_heads);
            let row = &self.rows[r];
            let pages = (row.len as usize).div_ceil(kv.page_size);
            let first = self.shape.first(row.len as usize);
            let before = first / kv.page_size;
            let head = Head {
                pages: self.pages,
                layer: self.layer,
                kv_head,
                table: &self.tables[row.table as usize..][before..pages],
                skip: first % kv.page_size,
                len: row.len as usize - before * kv.page_size,
                scale: self.shape.scale,
            };
            let mut first = kv_head * group;
            let end = first + group;
            while first < end {
                let heads = (end - first).min(GROUP);
                let q = &self.q[r * self.shape.stride + first * kv.head_dim..];
                let q = &q[..heads * kv.head_dim];
                let at = (r * self.shape.heads + first) * kv.head_dim;
                // SAFETY: heads `first..first + heads` of row `r`, inside `out` by its length,
                // which was checked; written by this pair only.
                let out = unsafe { self.out.get().add(at) };
                match heads {
                    1 => head.attend::<S, 1, 8, 4>(s, q, out, &mut scratch),
                    2 => head.attend::<S, 2, 4, 2>(s, q, out, &mut scratch),
                    3 => head.attend::<S, 3, 4, 1>(s, q, out, &mut scratch),
                    _ => head.attend::<S, 4, 4, 1>(s, q, out, &mut scratch),
                }
                first += heads;
            }
        }
    }
}

/// The keys and values that one row's query heads of a group read.
struct Head<'a> {
    pages: &'a KvPages,
    layer: usize,
    kv_head: usize,
    /// The pages from the first in the window on.
    table: &'a [u32],
    /// Positions of the first page that lie before the window.
    skip: usize,
    /// Positions in these pages, those before the window included.
    len: usize,
    scale: f32,
}

impl Head<'_> {
    /// `G` query heads; `P` vectors of scores at a time where the registers suffice; values
    /// summed in `E` strands, that of a position chosen by its place in the page. Few heads need
    /// the strands to hide the latency of the multiply-add, so `E` depends on `G` alone: the
    /// order of a sum is the same in every tier. `out` must be valid for writing
    /// `G * head_dim` floats.
    #[inline(always)]
    fn attend<S: Simd, const G: usize, const P: usize, const E: usize>(
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

/// One query head in float64 over `keys` and `values`, both `[positions, head_dim]`. Tolerance
/// of the fast one: 1e-5.
#[must_use]
pub fn attention_reference(q: &[f32], keys: &[f32], values: &[f32], scale: f32) -> Vec<f64> {
    let d = q.len();
    let scores: Vec<f64> = keys
        .chunks_exact(d)
        .map(|k| {
            let dot: f64 = q
                .iter()
                .zip(k)
                .map(|(q, k)| f64::from(*q) * f64::from(*k))
                .sum();
            dot * f64::from(scale)
        })
        .collect();
    let max = scores.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let weights: Vec<f64> = scores.iter().map(|s| (s - max).exp()).collect();
    let sum: f64 = weights.iter().sum();
    let mut out = vec![0.0; d];
    for (w, v) in weights.iter().zip(values.chunks_exact(d)) {
        for (o, v) in out.iter_mut().zip(v) {
            *o += w / sum * f64::from(*v);
        }
    }
    out
}

#[cfg(test)]
mod tests;
