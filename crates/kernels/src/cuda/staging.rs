use super::{Buffer, CudaError, Device};

/// Lists of 32-bit words that go to a device in a single copy. One copy per list would take longer
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
    /// Creates an empty staging area. It grows if the lists exceed `words` words.
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

    /// Appends a list, filled up with zeros to `room` words. Returns the list's offset in
    /// [`memory`](Self::memory), in bytes.
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
    /// [`CudaError::OutOfMemory`], after which the staging area has no memory, or the driver's
    /// error.
    pub fn copy(&mut self) -> Result<bool, CudaError> {
        let bytes = size_of_val(&*self.host);
        let moves = bytes > self.memory.bytes();
        if moves {
            // The old memory is freed first, because both together would exceed the planned memory.
            // Powers of two make growth rare.
            let device = self.memory.device().clone();
            self.memory = device.alloc(0)?;
            self.memory = device.alloc(bytes.next_power_of_two())?;
        }
        self.memory.write(0, self.host.as_slice())?;
        self.copied = true;
        Ok(moves)
    }

    /// The device memory of the lists. It has the current lists after [`copy`](Self::copy).
    #[must_use]
    pub fn memory(&self) -> &Buffer {
        &self.memory
    }

    pub(super) fn turn(&self) -> u64 {
        self.turn
    }

    /// Whether [`copy`](Self::copy) was called in turn `turn`, and that turn is the current one.
    pub(super) fn has_copied(&self, turn: u64) -> bool {
        self.copied && self.turn == turn
    }
}
