//! The rows of one pass.

use beamgen_kernels::{AttentionRow, KvSlot};

/// Rows of one pass, one for each token: vectors of the same length, except `wanted`.
#[derive(Debug, Default)]
pub(crate) struct Chunk {
    pub(crate) tokens: Vec<u32>,
    /// Position in the row's sequence.
    pub(crate) positions: Vec<u32>,
    /// Where its keys and values go.
    pub(crate) slots: Vec<KvSlot>,
    /// What it attends to.
    pub(crate) attends: Vec<AttentionRow>,
    /// Rows that are wanted back, in rising order.
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
