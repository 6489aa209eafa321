use super::{Buffer, CudaError, Device};

/// Lists of words that are copied to a device in one copy. A copy for each list would take longer
/// than some kernels.
#[derive(Debug)]
pub struct Staging {
    host: Vec<u32>,
    memory: Buffer,
    /// Counts the calls of [`clear`](Self::clear), so that lists of an earlier turn are recognised.
    turn: u64,
    copied: bool,
}

impl Staging {
    /// Empty, with room for so many words.
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

    /// Appends a list and fills it up with zeros to `room` words. Returns at which byte of
    /// [`memory`](Self::memory) it will be.
    ///
    /// # Panics
    /// If there is no room for it, or all was copied already.
    pub fn push(&mut self, list: impl IntoIterator<Item = u32>, room: usize) -> usize {
        assert!(!self.copied, "a list behind what was copied");
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
    /// [`CudaError::OutOfMemory`], after which there is no memory at all; or what the driver says.
    pub fn copy(&mut self) -> Result<bool, CudaError> {
        let bytes = size_of_val(&*self.host);
        let moves = bytes > self.memory.bytes();
        if moves {
            // Freed first: both together would be more than the memory plan allows.
            let device = self.memory.device().clone();
            self.memory = device.alloc(0)?;
            self.memory = device.alloc(bytes.next_power_of_two())?;
        }
        self.memory.write(0, self.host.as_slice())?;
        self.copied = true;
        Ok(moves)
    }

    /// What was copied last.
    #[must_use]
    pub fn memory(&self) -> &Buffer {
        &self.memory
    }

    pub(super) fn turn(&self) -> u64 {
        self.turn
    }

    /// Whether what was staged in this turn is on the device.
    pub(super) fn has_copied(&self, turn: u64) -> bool {
        self.copied && self.turn == turn
    }
}
