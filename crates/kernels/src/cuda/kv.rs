use super::{Buffer, Number};

/// The layout of an engine's keys and values in memory: pages of `[layers][kv_heads]` entries. An
/// entry is a block of keys `[page_size][head_dim]`, then a block of values
/// `[head_dim][page_size]`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct KvLayout {
    /// The type of stored keys and values. Kernels round to it when they store.
    pub number: Number,
    /// Positions of a page.
    pub page_size: usize,
    /// The number of layers, all of which have a part in every page.
    pub layers: usize,
    /// Heads of keys and values.
    pub kv_heads: usize,
    /// Elements of a head.
    pub head_dim: usize,
}

impl KvLayout {
    /// The bytes of a page: keys and values of all layers and heads.
    #[must_use]
    pub fn page_bytes(&self) -> usize {
        2 * self.number.bytes() * self.page_size * self.layers * self.kv_heads * self.head_dim
    }

    /// The number of whole pages that fit in `kv`. Kernels ignore slots beyond them.
    #[must_use]
    pub fn pages(&self, kv: &Buffer) -> usize {
        kv.bytes() / self.page_bytes()
    }
}
