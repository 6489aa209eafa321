//! Causal attention of single rows over paged keys and values, with grouped query heads.
//!
//! The flat path: every row reads its own pages, the query heads of one key-value head together.
//! Positions are taken in blocks of whole pages, at most [`BLOCK`] long, with a running maximum
//! (online softmax). The first block begins with the page of the first position attended to, so
//! the order of all sums depends only on the row's position, the window and the page size.

mod head;

use crate::Cpu;
use crate::isa::Task;
use crate::kv::KvPages;
use crate::parallel::SharedOut;
use crate::simd::Simd;
use head::{Head, Scratch};

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
    let runs = cpu.parallel.tasks_for(work).min(items);
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

impl Task for Items<'_> {
    type Output = ();
    #[inline(always)]
    fn run<S: Simd>(self, s: S) {
        let kv = self.pages.shape();
        let group = self.shape.heads / kv.kv_heads;
        let mut scratch = Scratch::new();
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
