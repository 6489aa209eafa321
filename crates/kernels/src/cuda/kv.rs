use super::{Buffer, Number};

/// Layout of keys and values in the memory of an engine: pages of `[layers][kv_heads]`, each a
/// block of keys `[page_size][head_dim]` and one of values `[head_dim][page_size]`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct KvLayout {
    /// The type of stored keys and values.
    pub number: Number,
    /// Positions of a page.
    pub page_size: usize,
    /// Layers of the model.
    pub layers: usize,
    /// Heads of keys and values.
    pub kv_heads: usize,
    /// Elements of a head.
    pub head_dim: usize,
}

impl KvLayout {
    /// Bytes of a page, all layers and heads included.
    #[must_use]
    pub fn page_bytes(&self) -> usize {
        2 * self.number.bytes() * self.page_size * self.layers * self.kv_heads * self.head_dim
    }

    /// The number of whole pages that fit into a buffer.
    #[must_use]
    pub fn pages(&self, kv: &Buffer) -> usize {
        kv.bytes() / self.page_bytes()
    }
}
