//! The rows of one pass.

use beamgen_kernels::{AttentionRow, KvSlot};

/// Rows of one pass, one for each token. All vectors except `wanted` have the same length.
#[derive(Debug, Default)]
pub(crate) struct Chunk {
    pub(crate) tokens: Vec<u32>,
    /// The position of each row's token in its sequence.
    pub(crate) positions: Vec<u32>,
    /// The places in pages where the keys and values of each row are written.
    pub(crate) slots: Vec<KvSlot>,
    /// The page table and the number of positions that each row attends to.
    pub(crate) attends: Vec<AttentionRow>,
    /// Indices of the rows that the call returns, rising.
    pub(crate) wanted: Vec<u32>,
}

impl Chunk {
    pub(crate) fn with_capacity(rows: usize) -> Self {
        Self {
            tokens: Vec::with_capacity(rows),
            positions: Vec::with_capacity(rows),
            slots: Vec::with_capacity(rows),
            attends: Vec::with_capacity(rows),
            wanted: Vec::with_capacity(rows),
        }
    }

    pub(crate) fn clear(&mut self) {
        self.tokens.clear();
        self.positions.clear();
        self.slots.clear();
        self.attends.clear();
        self.wanted.clear();
    }

    pub(crate) fn len(&self) -> usize {
        self.tokens.len()
    }
}
