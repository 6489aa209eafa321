//! Splits the rows of a call into chunks. Each chunk is computed in one pass.

use beamgen_kernels::{AttentionRow, KvSlot};

use crate::chunk::Chunk;
use crate::sequences::Sequences;
use crate::{Append, Error};

/// The number of positions in a segment. Attention on a device computes one partial result per row
/// and segment.
const SEGMENT: usize = 256;
// The device's plan of attention must count segments in the same way.
#[cfg(feature = "cuda")]
const _: () = assert!(SEGMENT == beamgen_kernels::cuda::AttentionPlan::SEGMENT);

pub(crate) struct Chunks<'a> {
    pub(crate) items: &'a [Append<'a>],
    /// For each item, the number of its first tokens that are in the cache already.
    pub(crate) found: &'a [usize],
    pub(crate) sequences: &'a Sequences,
    pub(crate) page_size: usize,
    pub(crate) max_rows: usize,
    /// The most segments in a chunk, summed over its rows. The device's memory for partial results
    /// sets this limit.
    pub(crate) most_segments: usize,
}

impl Chunks<'_> {
    /// Calls `flush` with each chunk in turn. `chunk` is the buffer that holds them.
    pub(crate) fn each(
        &self,
        chunk: &mut Chunk,
        flush: &mut dyn FnMut(&mut Chunk) -> Result<(), Error>,
    ) -> Result<(), Error> {
        chunk.clear();
        let (mut table, mut segments) = (0, 0);
        for (item, &found) in self.items.iter().zip(self.found) {
            let sequence = self.sequences.get(item.seq).expect("checked");
            let mut from = found;
            while from < item.tokens.len() {
                // An item may be split between chunks: its later rows read the keys and values of
                // the earlier rows from the cache.
                let most = item.tokens.len().min(from + self.max_rows - chunk.len());
                let mut to = from;
                while to < most {
                    // Row `to` attends to itself and all positions before it.
                    let more = (sequence.len + to) / SEGMENT + 1;
                    if segments + more > self.most_segments {
                        break;
                    }
                    (segments, to) = (segments + more, to + 1);
                }
                let first = chunk.len();
                for (i, token) in item.tokens[from..to].iter().enumerate() {
                    let position = sequence.len + from + i;
                    chunk.tokens.push(*token);
                    chunk.positions.push(position as u32);
                    chunk.slots.push(KvSlot {
                        page: sequence.pages[position / self.page_size],
                        offset: (position % self.page_size) as u32,
                    });
                    chunk.attends.push(AttentionRow {
                        table,
                        len: position as u32 + 1,
                    });
                }
                item.want.for_each_in(from, to, item.tokens.len(), |i| {
                    chunk.wanted.push((first + i - from) as u32);
                });
                from = to;
                // If `to < most`, there is room for the next row but not for its segments.
                if chunk.len() == self.max_rows || to < most {
                    flush(chunk)?;
                    chunk.clear();
                    segments = 0;
                }
            }
            // The page tables of all items are concatenated, also those of items without tokens.
            table += sequence.pages.len() as u32;
        }
        if chunk.len() > 0 {
            flush(chunk)?;
            chunk.clear();
        }
        Ok(())
    }
}
