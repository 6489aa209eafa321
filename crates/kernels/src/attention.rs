//! Causal attention of single rows over paged keys and values, with grouped query heads.
//!
//! Positions are taken in blocks of whole pages, at most [`BLOCK`] long, with a running maximum
//! (online softmax). The first block begins with the page of the first position in the window. The
//! order of all sums therefore depends only on the row's position, the window and the page size.
//!
//! Rows that share whole blocks (branches of a tree, tokens of a prompt) are computed together over
//! these blocks. Then each row continues by itself with its own maximum, sum and output. A row's
//! sums have the same order in both cases, so the result has the same bits whatever is shared.
//! Shared blocks are found by comparing page tables.

mod head;
mod pairs;
#[cfg(all(target_arch = "x86_64", target_os = "linux"))]
mod tiles;
mod unit;

use std::marker::PhantomData;
use std::mem::MaybeUninit;

use crate::isa::Task;
use crate::kv::{F16, F32, KvFormat, KvPages};
use crate::parallel::SharedOut;
use crate::simd::Simd;
use crate::{Cpu, Isa};
use head::Float;
use pairs::Pairs;
use unit::{MOST, Stage, Unit};

/// The most positions whose scores are in working memory at once.
const BLOCK: usize = crate::KvShape::MAX_PAGE_SIZE;

/// The fewest shared blocks for which rows are computed together.
const WORTH_SHARING: usize = 1;

/// The layout of the queries, the scale of the scores and the window.
#[derive(Clone, Copy, Debug)]
pub struct AttentionShape {
    /// Query heads, a multiple of the key-value heads; head `h` reads key-value head
    /// `h / (heads / kv_heads)`.
    pub heads: usize,
    /// Floats from one query row to the next; a row begins with its `heads * head_dim` queries.
    pub stride: usize,
    /// Factor of the scores, usually `1 / sqrt(head_dim)`.
    pub scale: f32,
    /// The most positions that a row attends to, its own included (a sliding window). `None` means
    /// all.
    pub window: Option<usize>,
}

impl AttentionShape {
    /// The first position that is inside the window of a row with `len` positions.
    fn first(&self, len: usize) -> usize {
        self.window.map_or(0, |window| len.saturating_sub(window))
    }
}

/// A row's page table, and the number of positions it attends to.
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
    run(cpu, pages, layer, shape, q, tables, rows, MOST, out);
}

/// Computes [`attention`] with the same bits, but shares no block between rows. Comparing the times
/// of both shows the gain of sharing.
///
/// # Panics
/// If [`attention`] would panic.
#[allow(clippy::too_many_arguments)]
pub fn attention_flat(
    cpu: Cpu,
    pages: &KvPages,
    layer: usize,
    shape: AttentionShape,
    q: &[f32],
    tables: &[u32],
    rows: &[AttentionRow],
    out: &mut [f32],
) {
    run(cpu, pages, layer, shape, q, tables, rows, 1, out);
}

/// Computes attention with at most `together` rows in a unit (rows that may share blocks).
#[allow(clippy::too_many_arguments)]
fn run(
    cpu: Cpu,
    pages: &KvPages,
    layer: usize,
    shape: AttentionShape,
    q: &[f32],
    tables: &[u32],
    rows: &[AttentionRow],
    together: usize,
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

    let call = Call {
        pages,
        layer,
        shape,
        q,
        tables,
        rows,
        work: 4 * positions * width as u64,
    };
    match pages.format() {
        KvFormat::F32 => call.run::<Float<F32>>(cpu, together, out),
        KvFormat::F16 => call.run::<Float<F16>>(cpu, together, out),
        KvFormat::Bf16 => call.run::<Pairs>(cpu, together, out),
    }
}

/// The arguments of a call, which are the same for all its tasks.
#[derive(Clone, Copy)]
struct Call<'a> {
    pages: &'a KvPages,
    layer: usize,
    shape: AttentionShape,
    q: &'a [f32],
    tables: &'a [u32],
    rows: &'a [AttentionRow],
    /// The estimated floating-point operations of the whole call, not of one task.
    work: u64,
}

impl Call<'_> {
    /// Splits the call into tasks. At most `together` rows form a unit.
    fn run<T: Stage>(self, cpu: Cpu, together: usize, out: &mut [f32]) {
        let kv_heads = self.pages.shape().kv_heads;
        let group = self.shape.heads / kv_heads;
        // The rows of a unit times the query heads of a group are at most [`MOST`].
        let together = together.min(MOST / group.min(MOST));
        let threads = cpu.parallel.threads_for(self.work);
        // Rows differ in length, so several runs per thread balance the load.
        let together = match threads {
            1 => together,
            _ => together.min((self.rows.len() * kv_heads).div_ceil(4 * threads)),
        };
        let items = self.rows.len().div_ceil(together.max(1)) * kv_heads;
        let runs = match threads {
            1 => items.min(1),
            _ => items.min(8 * threads),
        };
        let shared = SharedOut::new(out);
        cpu.parallel.for_each(runs, self.work, |run| {
            cpu.isa.run(Items::<T> {
                call: self,
                isa: cpu.isa,
                together: together.max(1),
                items: run * items / runs..(run + 1) * items / runs,
                out: shared,
                stage: PhantomData,
            });
        });
    }
}

/// Some of the pairs (`together` rows, key-value head), counted row by row.
struct Items<'a, T> {
    call: Call<'a>,
    isa: Isa,
    together: usize,
    items: std::ops::Range<usize>,
    /// Each pair writes its own heads of its own rows.
    out: SharedOut,
    stage: PhantomData<T>,
}

impl<T: Stage> Task for Items<'_, T> {
    type Output = ();
    #[inline(always)]
    fn run<S: Simd>(self, s: S) {
        let kv = self.call.pages.shape();
        let group = self.call.shape.heads / kv.kv_heads;
        let mut scratch = MaybeUninit::uninit();
        let mut regions = [std::ptr::null(); BLOCK];
        // SAFETY: the scratch memory lives as long as the stage.
        let mut stage = unsafe { T::new(self.isa, self.call.pages, scratch.as_mut_ptr()) };
        for item in self.items.clone() {
            let (rows, kv_head) = (item / kv.kv_heads, item % kv.kv_heads);
            let end = self.call.rows.len().min((rows + 1) * self.together);
            let mut first = rows * self.together;
            while first < end {
                let (count, shared) = self.sharing(first, end);
                for head in (0..group).step_by(MOST) {
                    let heads = MOST.min(group - head);
                    let rows = first..first + count;
                    let unit = self.unit(kv_head * group + head, heads, rows, shared);
                    // SAFETY: heads of this pair's rows, inside `q` and `out` by their lengths,
                    // which were checked; written by this pair only.
                    unsafe { unit.run(s, &mut stage, &mut regions) };
                }
                first += count;
            }
        }
    }
}

impl<'a, T: Stage> Items<'a, T> {
    /// Returns the number of rows from `first` on (before `end`) that are computed together, and
    /// the number of leading blocks that they share.
    #[inline(always)]
    fn sharing(&self, first: usize, end: usize) -> (usize, usize) {
        let page_size = self.call.pages.shape().page_size;
        let per_block = (T::POSITIONS / page_size).max(1);
        // Whole blocks before the row's last position; none if its window begins later.
        let blocks = |row: &AttentionRow| match self.call.shape.first(row.len as usize) {
            0 => (row.len as usize - 1) / (per_block * page_size),
            _ => 0,
        };
        let mut shared = blocks(&self.call.rows[first]);
        let mut count = 1;
        while shared >= WORTH_SHARING && first + count < end {
            let (a, b) = (
                &self.call.rows[first + count - 1],
                &self.call.rows[first + count],
            );
            let most = shared.min(blocks(b));
            let common = if a.table == b.table {
                most
            } else {
                let pages = |row: &AttentionRow| {
                    &self.call.tables[row.table as usize..][..most * per_block]
                };
                let equal = pages(a).iter().zip(pages(b)).take_while(|(a, b)| a == b);
                equal.count() / per_block
            };
            // A row that shares much less begins another group, which may share more.
            if common < WORTH_SHARING || 2 * common < shared {
                break;
            }
            shared = common;
            count += 1;
        }
        // A single row shares no block.
        if count == 1 { (1, 0) } else { (count, shared) }
    }

    /// Returns a unit with the `heads` query heads from `head` on of each row. All these heads read
    /// one key-value head.
    #[inline(always)]
    fn unit(
        &self,
        head: usize,
        heads: usize,
        rows: std::ops::Range<usize>,
        shared: usize,
    ) -> Unit<'a> {
        let kv = self.call.pages.shape();
        let at = rows.start * self.call.shape.heads + head;
        Unit {
            pages: self.call.pages,
            layer: self.call.layer,
            kv_head: head / (self.call.shape.heads / kv.kv_heads),
            tables: self.call.tables,
            shared,
            window: self.call.shape.window.unwrap_or(usize::MAX),
            heads,
            scale: self.call.shape.scale,
            q: self.call.q[rows.start * self.call.shape.stride + head * kv.head_dim..].as_ptr(),
            q_stride: self.call.shape.stride,
            out: self.out.get().wrapping_add(at * kv.head_dim),
            out_stride: self.call.shape.heads * kv.head_dim,
            rows: &self.call.rows[rows],
        }
    }
}

/// Computes one query head in float64 over `keys` and `values`, both `[positions, head_dim]`.
/// [`attention`] over float32 is within 1e-5 of this result.
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
