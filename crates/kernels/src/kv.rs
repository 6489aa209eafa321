//! The memory of keys and values: fixed-size pages that hold a run of positions for all layers.
//!
//! A page is `[layer][kv_head][K: head_dim x page_size | V: page_size x head_dim]`. Keys lie
//! transposed, so that the scores of sixteen positions are sixteen lanes and need no sum across
//! lanes; values lie by position, so that the output is accumulated in lanes as well.

use crate::Cpu;
use crate::buffer::{AlignedBuf, SharedBufs};
use crate::simd::LANES;

/// Bytes of a slab, about: memory comes from the system in such pieces, when it is needed.
const SLAB_BYTES: usize = 4 << 20;

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
    /// Most positions of a page.
    pub const MAX_PAGE_SIZE: usize = 256;

    /// Floats of one page.
    #[must_use]
    pub fn page_len(&self) -> usize {
        self.layers * self.layer_len()
    }

    /// Floats of one layer in a page.
    fn layer_len(&self) -> usize {
        self.kv_heads * self.head_len()
    }

    /// Floats of one head of one layer in a page.
    pub(crate) fn head_len(&self) -> usize {
        2 * self.head_dim * self.page_size
    }
}

/// Where one position lives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KvSlot {
    /// The page.
    pub page: u32,
    /// The position inside the page.
    pub offset: u32,
}

/// Pages, allocated in slabs, never moved.
pub struct KvPages {
    shape: KvShape,
    slabs: Vec<AlignedBuf>,
    pages_per_slab: usize,
}

impl std::fmt::Debug for KvPages {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("KvPages")
            .field("shape", &self.shape)
            .field("pages", &self.pages())
            .finish()
    }
}

impl KvPages {
    /// No pages yet.
    ///
    /// # Panics
    /// If a size is 0 or a page has more than [`KvShape::MAX_PAGE_SIZE`] positions.
    #[must_use]
    pub fn new(shape: KvShape) -> Self {
        assert!(shape.page_len() > 0, "a page holds something");
        assert!(shape.page_size <= KvShape::MAX_PAGE_SIZE);
        let pages_per_slab = (SLAB_BYTES / (4 * shape.page_len())).max(1);
        Self {
            shape,
            slabs: Vec::new(),
            pages_per_slab,
        }
    }

    /// The sizes.
    #[must_use]
    pub fn shape(&self) -> KvShape {
        self.shape
    }

    /// Pages that exist.
    #[must_use]
    pub fn pages(&self) -> usize {
        self.slabs.len() * self.pages_per_slab
    }

    /// Makes pages `0..pages` exist (more may).
    pub fn grow_to(&mut self, pages: usize) {
        while self.pages() < pages {
            // The kernels load whole vectors, which may reach beyond the last page's end; the
            // lanes are not used.
            let len = self.pages_per_slab * self.shape.page_len() + LANES;
            self.slabs.push(AlignedBuf::zeroed(len));
        }
    }

    /// Copies a page.
    ///
    /// # Panics
    /// If either does not exist.
    pub fn copy_page(&mut self, from: u32, to: u32) {
        let len = self.shape.page_len();
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

    /// Gives a page's memory back to the system, as far as whole pages of the system go and where it
    /// takes memory back. The page stays; its contents are lost.
    ///
    /// # Panics
    /// If it does not exist.
    pub fn discard_page(&mut self, page: u32) {
        let (slab, start) = self.place(page);
        self.slabs[slab].discard(start..start + self.shape.page_len());
    }

    /// Slab and index of a page's first float.
    fn place(&self, page: u32) -> (usize, usize) {
        let page = page as usize;
        (
            page / self.pages_per_slab,
            page % self.pages_per_slab * self.shape.page_len(),
        )
    }

    /// Start of a head's keys and values: `head_len` floats and at least 16 more may be read.
    ///
    /// # Panics
    /// If there is no such page.
    #[inline(always)]
    pub(crate) fn head(&self, page: u32, layer: usize, head: usize) -> &[f32] {
        let (slab, start) = self.place(page);
        let within = layer * self.shape.layer_len() + head * self.shape.head_len();
        &self.slabs[slab][start + within..][..self.shape.head_len() + LANES]
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
    let shape = pages.shape;
    let width = shape.kv_heads * shape.head_dim;
    assert_eq!(qkv.len(), slots.len() * stride);
    assert!(k_offset + width <= stride && v_offset + width <= stride && layer < shape.layers);
    let exists = pages.pages();
    for slot in slots {
        assert!((slot.page as usize) < exists && (slot.offset as usize) < shape.page_size);
    }
    let work = 4 * (slots.len() * width) as u64;
    let pages_per_slab = pages.pages_per_slab;
    let slabs = SharedBufs::new(&mut pages.slabs);
    // A task a head: its region of a page is written by no other task, whatever the slots are.
    cpu.parallel.for_each(shape.kv_heads, work, |head| {
        for (slot, row) in slots.iter().zip(qkv.chunks_exact(stride)) {
            let page = slot.page as usize;
            let start = page % pages_per_slab * shape.page_len()
                + layer * shape.layer_len()
                + head * shape.head_len();
            // SAFETY: page and layer exist (checked above), so the region lies inside its slab;
            // no other task touches this head's regions, and `pages` is borrowed uniquely.
            let target = unsafe { slabs.part(page / pages_per_slab, start, shape.head_len()) };
            let (keys, values) = target.split_at_mut(shape.head_dim * shape.page_size);
            let offset = slot.offset as usize;
            let column = head * shape.head_dim;
            let k = &row[k_offset + column..][..shape.head_dim];
            for (to, from) in keys[offset..].iter_mut().step_by(shape.page_size).zip(k) {
                *to = *from;
            }
            values[offset * shape.head_dim..][..shape.head_dim]
                .copy_from_slice(&row[v_offset + column..][..shape.head_dim]);
        }
    });
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
        let (d, p, o) = (SHAPE.head_dim, SHAPE.page_size, slot.offset as usize);
        let key = (0..d).map(|i| region[i * p + o]).collect();
        (key, region[d * p + o * d..][..d].to_vec())
    }

    #[test]
    fn stores_where_it_says_with_any_threads() {
        let (stride, k, v) = (40, 4, 20);
        let slots = [(0, 0), (0, 1), (9, 3), (2, 2)].map(|(page, offset)| KvSlot { page, offset });
        let qkv = noise(4 * stride, 1);
        for threads in [1, 3] {
            let mut pages = KvPages::new(SHAPE);
            pages.grow_to(10);
            ThreadPool::new(threads).run(u64::MAX, |parallel| {
                let cpu = Cpu {
                    isa: Isa::detect(),
                    parallel,
                };
                kv_store(cpu, &mut pages, 1, &qkv, stride, k, v, &slots);
            });
            for (i, slot) in slots.iter().enumerate() {
                for head in 0..3 {
                    let row = &qkv[i * stride..][..stride];
                    let (key, value) = read(&pages, 1, head, *slot);
                    assert_eq!(key, row[k + 5 * head..][..5]);
                    assert_eq!(value, row[v + 5 * head..][..5]);
                    assert_eq!(read(&pages, 0, head, *slot).0, [0.0; 5]);
                }
            }
        }
    }

    #[test]
    fn a_discarded_page_takes_nothing_of_its_neighbours() {
        let mut pages = KvPages::new(KvShape {
            head_dim: 160,
            ..SHAPE
        });
        pages.grow_to(3);
        let len = pages.shape.page_len();
        assert!(4 * len > 3 * 4096, "there is something to give back");
        pages.slabs[0].fill(1.0);
        pages.discard_page(1);
        let slab = &pages.slabs[0];
        assert!(slab[..len].iter().all(|x| *x == 1.0));
        assert!(slab[2 * len..3 * len].iter().all(|x| *x == 1.0));
        if cfg!(target_os = "linux") {
            assert!(slab[len..2 * len].contains(&0.0));
        }
        pages.slabs[0][len..2 * len].fill(2.0);
        assert!(pages.slabs[0][len..2 * len].iter().all(|x| *x == 2.0));
    }

    #[test]
    fn copies_within_and_across_slabs() {
        let mut pages = KvPages::new(SHAPE);
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
