//! The memory of keys and values: fixed-size pages that hold a run of positions for all layers.
//!
//! A page is `[layer][kv_head][K | V]`; keys and values have the layout of their format
//! (`kv/format.rs`). Keys are transposed, so that the scores of sixteen positions are sixteen
//! lanes, without sums across lanes. Values are stored by position, so that the output also
//! accumulates in lanes.

mod format;

use crate::Cpu;
use crate::buffer::{AlignedBuf, SharedBufs};
use crate::isa::Task;
use crate::simd::{LANES, Simd, prefetch};

pub use format::KvFormat;
pub(crate) use format::{F16, F32, Numbers, TINY, nearest_bf16};

/// The approximate bytes of a slab. Memory is taken from the system slab by slab, as pages are
/// needed.
const SLAB_BYTES: usize = 4 << 20;

/// The bytes after a head's region that may be read, because kernels load whole vectors.
const BEYOND: usize = 4 * LANES;

/// Sizes of a key-value memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KvShape {
    /// Layers of the model.
    pub layers: usize,
    /// Key-value heads of a layer.
    pub kv_heads: usize,
    /// Values of a head.
    pub head_dim: usize,
    /// Positions of a page.
    pub page_size: usize,
}

impl KvShape {
    /// The most positions of a page; attention has working memory for as many scores.
    pub const MAX_PAGE_SIZE: usize = 256;
}

/// The place of one position's keys and values, in every layer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KvSlot {
    /// The number of the page, from 0.
    pub page: u32,
    /// The position inside the page.
    pub offset: u32,
}

/// Pages of keys and values, allocated in slabs. A page never moves in memory.
#[derive(Debug)]
pub struct KvPages {
    shape: KvShape,
    format: KvFormat,
    slabs: Vec<AlignedBuf<u8>>,
    pages_per_slab: usize,
}

impl KvPages {
    /// Creates a memory without pages; [`grow_to`](Self::grow_to) adds them.
    ///
    /// # Panics
    /// If a size is 0, a page has more than [`KvShape::MAX_PAGE_SIZE`] positions, or a head of
    /// bfloat16 more than [`KvFormat::WIDEST_BF16`] values.
    #[must_use]
    pub fn stored_as(shape: KvShape, format: KvFormat) -> Self {
        assert!(format.page_bytes(shape) > 0, "a page holds something");
        assert!(shape.page_size <= KvShape::MAX_PAGE_SIZE);
        assert!(format != KvFormat::Bf16 || shape.head_dim <= KvFormat::WIDEST_BF16);
        // A page of more than `SLAB_BYTES` gets its own slab.
        let pages_per_slab = (SLAB_BYTES / format.page_bytes(shape)).max(1);
        Self {
            shape,
            format,
            slabs: Vec::new(),
            pages_per_slab,
        }
    }

    /// The sizes that were passed to [`stored_as`](Self::stored_as), which never change.
    #[must_use]
    pub fn shape(&self) -> KvShape {
        self.shape
    }

    /// The number format of keys and values, which never changes.
    #[must_use]
    pub fn format(&self) -> KvFormat {
        self.format
    }

    /// The bytes of a page: keys and values of all layers and heads.
    #[must_use]
    pub fn page_bytes(&self) -> usize {
        self.format.page_bytes(self.shape)
    }

    /// The number of allocated pages, which is a multiple of the pages per slab.
    #[must_use]
    pub fn pages(&self) -> usize {
        self.slabs.len() * self.pages_per_slab
    }

    /// Allocates slabs until pages `0..pages` exist. The last slab may have more pages.
    pub fn grow_to(&mut self, pages: usize) {
        while self.pages() < pages {
            // The kernels load whole vectors, which may reach beyond the last page's end; the
            // lanes are not used.
            let len = self.pages_per_slab * self.page_bytes() + BEYOND;
            self.slabs.push(AlignedBuf::zeroed(len));
        }
    }

    /// Copies the keys and values of page `from` to page `to`, in all layers.
    ///
    /// # Panics
    /// If `from` or `to` does not exist.
    pub fn copy_page(&mut self, from: u32, to: u32) {
        let len = self.page_bytes();
        let ((from_slab, from), (to_slab, to)) = (self.place(from), self.place(to));
        if from_slab == to_slab {
            self.slabs[from_slab].copy_within(from..from + len, to);
        } else {
            let (low, high) = self.slabs.split_at_mut(from_slab.max(to_slab));
            let (source, target) = if from_slab < to_slab {
                (&low[from_slab], &mut high[0])
            } else {
                (&high[0], &mut low[to_slab])
            };
            target[to..to + len].copy_from_slice(&source[from..from + len]);
        }
    }

    /// Gives those parts of a page's memory back to the system that are whole system pages. Only
    /// Linux does this. The page remains usable, but its contents are lost.
    ///
    /// # Panics
    /// If `page` does not exist.
    pub fn discard_page(&mut self, page: u32) {
        let (slab, start) = self.place(page);
        let end = start + self.page_bytes();
        self.slabs[slab].discard(start..end);
    }

    /// Returns the slab of a page, and the offset of the page in that slab.
    fn place(&self, page: u32) -> (usize, usize) {
        let page = page as usize;
        (
            page / self.pages_per_slab,
            page % self.pages_per_slab * self.page_bytes(),
        )
    }

    /// The bytes of a head's keys and values in a page, and [`BEYOND`] more bytes that may be read.
    ///
    /// # Panics
    /// If `page` does not exist.
    #[inline(always)]
    pub(crate) fn head(&self, page: u32, layer: usize, head: usize) -> &[u8] {
        let (slab, start) = self.place(page);
        let bytes = self.format.head_bytes(self.shape);
        let within = (layer * self.shape.kv_heads + head) * bytes;
        &self.slabs[slab][start + within..][..bytes + BEYOND]
    }
}

/// Writes the keys and values of one layer: row `i` of `qkv: [rows, stride]` has its keys
/// `[kv_heads, head_dim]` at column `k_offset`, its values at `v_offset`, and goes to `slots[i]`.
///
/// # Panics
/// If a slot or the layer does not exist, or the columns do not fit into a row.
#[allow(clippy::too_many_arguments)]
pub fn kv_store(
    cpu: Cpu,
    pages: &mut KvPages,
    layer: usize,
    qkv: &[f32],
    stride: usize,
    k_offset: usize,
    v_offset: usize,
    slots: &[KvSlot],
) {
    let (shape, format) = (pages.shape, pages.format);
    let width = shape.kv_heads * shape.head_dim;
    assert_eq!(qkv.len(), slots.len() * stride);
    assert!(k_offset + width <= stride && v_offset + width <= stride && layer < shape.layers);
    let exists = pages.pages();
    for slot in slots {
        assert!((slot.page as usize) < exists && (slot.offset as usize) < shape.page_size);
    }
    if slots.is_empty() {
        return;
    }
    // Keys are transposed, so each value goes to another cache line, which makes writing slow.
    let work = 100 * (slots.len() * width) as u64;
    let pages_per_slab = pages.pages_per_slab;
    let (page_bytes, head_bytes) = (pages.page_bytes(), format.head_bytes(shape));
    let slabs = SharedBufs::new(&mut pages.slabs);
    // Each task writes the regions of one head, so tasks never write to the same memory.
    cpu.parallel.for_each(shape.kv_heads, work, |head| {
        let region = |page: usize| {
            let start =
                page % pages_per_slab * page_bytes + (layer * shape.kv_heads + head) * head_bytes;
            // SAFETY: page and layer exist (checked above), so the region is inside its slab; no
            // other task touches this head's regions, `pages` is borrowed uniquely, and the task
            // uses one region at a time.
            unsafe { slabs.part(page / pages_per_slab, start, head_bytes) }
        };
        let column = head * shape.head_dim;
        cpu.isa.run(Write {
            format,
            shape,
            slots,
            region,
            k: &qkv[k_offset + column..],
            v: &qkv[v_offset + column..],
            stride,
        });
    });
}

/// Writes the keys and values of one head, with the vector instructions of the tier.
struct Write<'a, R> {
    format: KvFormat,
    shape: KvShape,
    slots: &'a [KvSlot],
    /// Returns the head's region of a page.
    region: R,
    /// The first row's key and value.
    k: &'a [f32],
    v: &'a [f32],
    stride: usize,
}

impl<'a, R: Fn(usize) -> &'a mut [u8]> Task for Write<'_, R> {
    type Output = ();
    #[inline(always)]
    fn run<S: Simd>(self, _: S) {
        let key_bytes = self.format.key_bytes(self.shape);
        // Words of a key are that far apart, so most are in lines of their own.
        let step = self.format.key_step(self.shape);
        let word = step / self.shape.page_size;
        for (i, slot) in self.slots.iter().enumerate() {
            let [k, v] = [self.k, self.v].map(|x| &x[i * self.stride..][..self.shape.head_dim]);
            // The lines of the next key are rarely in a cache.
            if let Some(next) = self.slots.get(i + 1).filter(|next| next.page != slot.page) {
                let region = (self.region)(next.page as usize).as_ptr();
                for at in (next.offset as usize * word..key_bytes).step_by(step.max(4 * LANES)) {
                    prefetch(region.wrapping_add(at));
                }
            }
            let region = (self.region)(slot.page as usize);
            self.format
                .write(region, self.shape, slot.offset as usize, k, v);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::noise;
    use crate::{Isa, ThreadPool};

    const SHAPE: KvShape = KvShape {
        layers: 2,
        kv_heads: 3,
        head_dim: 5,
        page_size: 4,
    };

    /// Key and value of a slot, read back.
    fn read(pages: &KvPages, layer: usize, head: usize, slot: KvSlot) -> (Vec<f32>, Vec<f32>) {
        let region = pages.head(slot.page, layer, head);
        pages.format.read(region, SHAPE, slot.offset as usize)
    }

    #[test]
    fn stores_where_it_says_with_any_threads() {
        let (stride, k, v) = (40, 4, 20);
        let slots = [(0, 0), (0, 1), (9, 3), (2, 2)].map(|(page, offset)| KvSlot { page, offset });
        let qkv = noise(4 * stride, 1);
        let formats = [KvFormat::F32, KvFormat::Bf16, KvFormat::F16];
        for (threads, format) in [1, 3].into_iter().flat_map(|t| formats.map(|f| (t, f))) {
            let mut pages = KvPages::stored_as(SHAPE, format);
            let rounded = |x: &[f32]| -> Vec<f32> { x.iter().map(|x| format.round(*x)).collect() };
            pages.grow_to(10);
            ThreadPool::new(threads).run(u64::MAX, |parallel| {
                let cpu = Cpu {
                    isa: Isa::detect(),
                    parallel,
                };
                kv_store(cpu, &mut pages, 1, &[], stride, k, v, &[]);
                kv_store(cpu, &mut pages, 1, &qkv, stride, k, v, &slots);
            });
            for (i, slot) in slots.iter().enumerate() {
                for head in 0..3 {
                    let row = &qkv[i * stride..][..stride];
                    let (key, value) = read(&pages, 1, head, *slot);
                    assert_eq!(key, rounded(&row[k + 5 * head..][..5]));
                    assert_eq!(value, rounded(&row[v + 5 * head..][..5]));
                    assert_eq!(read(&pages, 0, head, *slot).0, [0.0; 5]);
                }
            }
        }
    }

    /// A head may be longer than the numbers that are rounded at a time, and odd.
    #[test]
    fn rounds_every_number_and_leaves_the_other_positions() {
        let shape = KvShape {
            head_dim: 131,
            ..SHAPE
        };
        let edges = [
            0.0,
            -0.0,
            1.0 + 1.0 / 256.0,
            1.0 + 3.0 / 256.0,
            -(1.0 + 1.0 / 2048.0),
            1.0 + 3.0 / 2048.0,
            f32::MAX,
            f32::NEG_INFINITY,
            1e-16,
            6e-8,
            f32::NAN,
        ];
        let (stride, k, v) = (2 * 3 * 131, 0, 3 * 131);
        let mut qkv = noise(stride, 1);
        for (i, x) in qkv.iter_mut().enumerate().step_by(2) {
            *x = edges[i / 2 % edges.len()];
        }
        let right = |format, x: f32| match format {
            KvFormat::F32 => x,
            KvFormat::Bf16 if x.abs() < TINY => 0.0,
            KvFormat::Bf16 => half::bf16::from_f32(x.clamp(-3.389_531_4e38, 3.389_531_4e38)).into(),
            KvFormat::F16 => half::f16::from_f32(x.clamp(-65504.0, 65504.0)).into(),
        };
        for format in [KvFormat::F32, KvFormat::Bf16, KvFormat::F16] {
            for isa in Isa::all() {
                let mut cpu = Cpu::serial();
                cpu.isa = isa;
                let mut pages = KvPages::stored_as(shape, format);
                pages.grow_to(1);
                // Position 2 is written again after its neighbour of the same pairs.
                for offset in [1, 0, 2, 3, 2] {
                    let qkv: Vec<f32> = qkv.iter().map(|x| x * (1 << offset) as f32).collect();
                    let slot = KvSlot { page: 0, offset };
                    kv_store(cpu, &mut pages, 1, &qkv, stride, k, v, &[slot]);
                }
                for (offset, head) in (0..4).flat_map(|offset| (0..3).map(move |h| (offset, h))) {
                    let region = pages.head(0, 1, head);
                    let (key, value) = format.read(region, shape, offset);
                    for (got, first) in [(key, k), (value, v)] {
                        for (got, x) in got.iter().zip(&qkv[first + 131 * head..]) {
                            let right = right(format, x * (1 << offset) as f32);
                            let same =
                                got.to_bits() == right.to_bits() || got.is_nan() && right.is_nan();
                            assert!(same, "{format:?} {offset} {head}: {got} for {right}");
                        }
                    }
                }
            }
        }
    }

    #[test]
    fn a_discarded_page_takes_nothing_of_its_neighbours() {
        let shape = KvShape {
            layers: 16,
            head_dim: 160,
            ..SHAPE
        };
        let mut pages = KvPages::stored_as(shape, KvFormat::F32);
        pages.grow_to(3);
        let len = pages.page_bytes();
        // Only whole pages of the system are given back, and on Arm these may have 64 KiB.
        assert!(
            len > 3 << 16,
            "a page of the cache holds none of the system"
        );
        pages.slabs[0].fill(1);
        pages.discard_page(1);
        let slab = &pages.slabs[0];
        assert!(slab[..len].iter().all(|x| *x == 1));
        assert!(slab[2 * len..3 * len].iter().all(|x| *x == 1));
        if cfg!(target_os = "linux") {
            assert!(slab[len..2 * len].contains(&0));
        }
        pages.slabs[0][len..2 * len].fill(2);
        assert!(pages.slabs[0][len..2 * len].iter().all(|x| *x == 2));
    }

    #[test]
    fn copies_within_and_across_slabs() {
        let mut pages = KvPages::stored_as(SHAPE, KvFormat::F32);
        pages.pages_per_slab = 2;
        pages.grow_to(4);
        let qkv = noise(15 * 2, 2);
        let slot = KvSlot { page: 0, offset: 2 };
        kv_store(Cpu::serial(), &mut pages, 0, &qkv, 30, 0, 15, &[slot]);
        for (from, to) in [(0, 1), (1, 3), (3, 2), (2, 0)] {
            pages.copy_page(from, to);
            let copy = KvSlot {
                page: to,
                offset: 2,
            };
            assert_eq!(read(&pages, 0, 2, copy).0, qkv[10..15]);
        }
    }
}
