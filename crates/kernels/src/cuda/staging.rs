use super::{Buffer, CudaError, Device};

/// Lists of words that go to a device in one copy. A copy for each list would take longer than some
/// kernels.
#[derive(Debug)]
pub struct Staging {
    host: Vec<u32>,
    memory: Buffer,
    /// Counts the calls of [`clear`](Self::clear), so that lists of an earlier turn are recognised.
    turn: u64,
    copied: bool,
}

impl Staging {
    /// An empty staging area with room for `words` words.
    ///
    /// # Errors
    /// [`CudaError::OutOfMemory`].
    pub fn new(device: &Device, words: usize) -> Result<Self, CudaError> {
        Ok(Self {
            host: Vec::with_capacity(words),
            memory: device.alloc(4 * words)?,
            turn: 1,
            copied: false,
        })
    }

    /// Forgets all lists.
    pub fn clear(&mut self) {
        self.host.clear();
        self.turn += 1;
        self.copied = false;
    }

    /// Appends a list, filled up with zeros to `room` words. Returns the byte of
    /// [`memory`](Self::memory) where the list will begin.
    ///
    /// # Panics
    /// If there is no room for it, or all was copied already.
    pub fn push(&mut self, list: impl IntoIterator<Item = u32>, room: usize) -> usize {
        assert!(!self.copied, "a list after the copy of this turn");
        let start = self.host.len();
        self.host.extend(list);
        assert!(self.host.len() <= start + room, "no room for a list");
        self.host.resize(start + room, 0);
        4 * start
    }

    /// Queues the copy of all lists. Returns whether they are in other memory than before, because
    /// the old memory was too small.
    ///
    /// # Errors
    /// [`CudaError::OutOfMemory`], after which the staging area has no memory; or the driver's
    /// error.
    pub fn copy(&mut self) -> Result<bool, CudaError> {
        let bytes = size_of_val(&*self.host);
        let moves = bytes > self.memory.bytes();
        if moves {
            // Freed first: both together would exceed the memory plan. Powers of two make this
            // rare.
            let device = self.memory.device().clone();
            self.memory = device.alloc(0)?;
            self.memory = device.alloc(bytes.next_power_of_two())?;
        }
        self.memory.write(0, self.host.as_slice())?;
        self.copied = true;
        Ok(moves)
    }

    /// The memory that the lists are copied to.
    #[must_use]
    pub fn memory(&self) -> &Buffer {
        &self.memory
    }

    pub(super) fn turn(&self) -> u64 {
        self.turn
    }

    /// Whether the lists staged in turn `turn` are on the device.
    pub(super) fn has_copied(&self, turn: u64) -> bool {
        self.copied && self.turn == turn
    }
}
