//! The rows of one pass.

use beamgen_kernels::{AttentionRow, KvSlot};

/// The rows of one pass, one row for each token. All vectors except `wanted` have one entry per
/// row.
#[derive(Debug, Default)]
pub(crate) struct Chunk {
    pub(crate) tokens: Vec<u32>,
    /// The position of each token in its sequence, from 0.
    pub(crate) positions: Vec<u32>,
    /// The page and offset to which each row's keys and values are written.
    pub(crate) slots: Vec<KvSlot>,
    /// For each row, the start of its page table and the number of positions it attends to.
    pub(crate) attends: Vec<AttentionRow>,
    /// Indices of the rows whose outputs the caller wants, in rising order.
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
