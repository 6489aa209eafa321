//! Stores an engine's sequences, and gives out handles to them.

/// A handle to a sequence of an engine. The handle of a freed sequence never refers to another
/// sequence.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct SeqId {
    index: u32,
    generation: u32,
}

/// The state of a sequence. `pages` has `len / page_size` entries, rounded up.
#[derive(Debug, Default)]
pub(crate) struct Sequence {
    pub(crate) pages: Vec<u32>,
    pub(crate) len: usize,
    /// Number of the last call that this sequence was part of.
    pub(crate) call: u64,
}

/// The table of sequences. Slots of removed sequences are reused.
#[derive(Debug, Default)]
pub(crate) struct Sequences {
    slots: Vec<Slot>,
    free: Vec<u32>,
}

#[derive(Debug)]
struct Slot {
    /// The number of sequences that the slot had before. A handle with another generation is stale.
    generation: u32,
    live: bool,
    sequence: Sequence,
}

impl Sequences {
    /// Creates an empty sequence, in the slot of a removed one if there is any.
    pub(crate) fn create(&mut self) -> SeqId {
        let index = self.free.pop().unwrap_or_else(|| {
            let sequence = Sequence::default();
            self.slots.push(Slot {
                generation: 0,
                live: false,
                sequence,
            });
            (self.slots.len() - 1) as u32
        });
        let slot = &mut self.slots[index as usize];
        slot.live = true;
        SeqId {
            index,
            generation: slot.generation,
        }
    }

    pub(crate) fn get(&self, id: SeqId) -> Option<&Sequence> {
        self.slots
            .get(id.index as usize)
            .filter(|s| s.is(id))
            .map(|s| &s.sequence)
    }

    pub(crate) fn get_mut(&mut self, id: SeqId) -> Option<&mut Sequence> {
        self.slots
            .get_mut(id.index as usize)
            .filter(|s| s.is(id))
            .map(|s| &mut s.sequence)
    }

    /// Removes a sequence. Its pages must have been released before.
    pub(crate) fn remove(&mut self, id: SeqId) {
        let slot = &mut self.slots[id.index as usize];
        debug_assert!(slot.is(id) && slot.sequence.pages.is_empty());
        slot.live = false;
        // After 2^32 reuses of a slot an old handle would match again. No program gets that far.
        slot.generation = slot.generation.wrapping_add(1);
        slot.sequence.len = 0;
        // The vector of pages stays in the slot, so the next sequence there allocates nothing.
        self.free.push(id.index);
    }

    pub(crate) fn len(&self) -> usize {
        self.slots.len() - self.free.len()
    }
}

impl Slot {
    fn is(&self, id: SeqId) -> bool {
        self.live && self.generation == id.generation
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stale_handles_are_recognised() {
        let mut sequences = Sequences::default();
        let a = sequences.create();
        sequences.remove(a);
        assert!(sequences.get(a).is_none());
        let b = sequences.create();
        assert_ne!(a, b);
        assert!(sequences.get(a).is_none() && sequences.get(b).is_some());
        assert_eq!(sequences.len(), 1);
    }
}
