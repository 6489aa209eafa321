use super::{Buffer, Number};

/// How keys and values lie in the memory of an engine: pages of `[layers][kv_heads]`, each a block
/// of keys `[page_size][head_dim]` and one of values `[head_dim][page_size]`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct KvLayout {
    /// What they are kept in.
    pub number: Number,
    /// Positions of a page.
    pub page_size: usize,
    /// Layers.
    pub layers: usize,
    /// Heads of keys and values.
    pub kv_heads: usize,
    /// Elements of a head.
    pub head_dim: usize,
}

impl KvLayout {
    /// Bytes of a page.
    #[must_use]
    pub fn page_bytes(&self) -> usize {
        2 * self.number.bytes() * self.page_size * self.layers * self.kv_heads * self.head_dim
    }

    /// Pages that a buffer holds.
    #[must_use]
    pub fn pages(&self, kv: &Buffer) -> usize {
        kv.bytes() / self.page_bytes()
    }
}
