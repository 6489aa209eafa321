//! A call's rows, cut into what is computed at once.

use beamgen_kernels::{AttentionRow, KvSlot};

use crate::chunk::Chunk;
use crate::sequences::Sequences;
use crate::{Append, Error};

/// Positions of a segment, of which a device keeps a result for each row.
const SEGMENT: usize = 256;
#[cfg(feature = "cuda")]
const _: () = assert!(SEGMENT == beamgen_kernels::cuda::AttentionPlan::SEGMENT);

/// The rows of a call, cut into chunks.
pub(crate) struct Chunks<'a> {
    pub(crate) items: &'a [Append<'a>],
    pub(crate) sequences: &'a Sequences,
    pub(crate) page_size: usize,
    pub(crate) max_rows: usize,
    /// Most segments of positions that the rows of a chunk attend to.
    pub(crate) most_segments: usize,
}

impl Chunks<'_> {
    /// Calls `flush` with one chunk after the other.
    pub(crate) fn each(
        &self,
        chunk: &mut Chunk,
        flush: &mut dyn FnMut(&mut Chunk) -> Result<(), Error>,
    ) -> Result<(), Error> {
        chunk.clear();
        let (mut table, mut segments) = (0, 0);
        for item in self.items {
            let sequence = self.sequences.get(item.seq).expect("checked");
            let mut from = 0;
            while from < item.tokens.len() {
                let most = item.tokens.len().min(from + self.max_rows - chunk.len());
                let mut to = from;
                while to < most {
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
                if chunk.len() == self.max_rows || to < most {
                    flush(chunk)?;
                    chunk.clear();
                    segments = 0;
                }
            }
            table += sequence.pages.len() as u32;
        }
        if chunk.len() > 0 {
            flush(chunk)?;
            chunk.clear();
        }
        Ok(())
    }
}
