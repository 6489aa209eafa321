use std::ptr::NonNull;
use std::sync::Arc;

use cudarc::driver::{CudaContext, CudaEvent, CudaStream, DriverError, result, sys};

/// The bytes of a slot. A longer copy uses several slots.
const SLOT: usize = 256 << 10;
/// The number of slots. The host fills one slot while the device reads others.
const SLOTS: usize = 8;

/// Page-locked host memory through which all copies to the device go. The driver may read the
/// source of an asynchronous copy until the copy is done, so the caller's bytes are first copied to
/// a slot. A slot is reused after the event of its last copy.
pub(super) struct Uploads {
    stream: Arc<CudaStream>,
    memory: NonNull<u8>,
    /// The event of each slot, recorded after the slot's last copy.
    copied: Vec<CudaEvent>,
    next: usize,
}

// SAFETY: page-locked memory may be used from any thread, and `&mut self` lets only one thread use
// it at a time.
unsafe impl Send for Uploads {}

impl Uploads {
    pub(super) fn new(
        context: &Arc<CudaContext>,
        stream: &Arc<CudaStream>,
    ) -> Result<Self, DriverError> {
        let copied = (0..SLOTS).map(|_| context.new_event(None));
        let copied = copied.collect::<Result<_, _>>()?;
        // SAFETY: the events made the context current. Nothing reads the memory before it is
        // written.
        let memory = unsafe { result::malloc_host(SLOTS * SLOT, 0) }?;
        Ok(Self {
            stream: Arc::clone(stream),
            memory: NonNull::new(memory.cast()).expect("the driver returned memory"),
            copied,
            next: 0,
        })
    }

    /// Queues a copy of `bytes` to the device. The caller may change them when this returns.
    ///
    /// # Safety
    /// The device's context must be current, and the `bytes.len()` bytes at `to` must be device
    /// memory.
    pub(super) unsafe fn copy(
        &mut self,
        to: sys::CUdeviceptr,
        bytes: &[u8],
    ) -> Result<(), DriverError> {
        for (i, piece) in bytes.chunks(SLOT).enumerate() {
            let copied = &self.copied[self.next];
            copied.synchronize()?;
            // SAFETY: within the page-locked memory, and the last copy that reads the slot is done.
            let slot = unsafe {
                let slot = self.memory.add(self.next * SLOT);
                slot.copy_from_nonoverlapping(NonNull::from(piece).cast(), piece.len());
                std::slice::from_raw_parts(slot.as_ptr(), piece.len())
            };
            self.next = (self.next + 1) % SLOTS;
            // SAFETY: the caller's promise for `to`; nobody writes to the slot before the event is
            // reached.
            unsafe {
                result::memcpy_htod_async(to + (i * SLOT) as u64, slot, self.stream.cu_stream())
            }?;
            if let Err(error) = copied.record(&self.stream) {
                // Without the event, the slot's reuse could not be timed, so this waits for the
                // copy.
                self.stream.synchronize()?;
                return Err(error);
            }
        }
        Ok(())
    }
}

impl Drop for Uploads {
    fn drop(&mut self) {
        // The first call may only report, and forget, an error of an earlier call.
        let _ = self
            .stream
            .synchronize()
            .or_else(|_| self.stream.synchronize());
        // SAFETY: allocated in `new`, and no copy reads it any more.
        let _ = unsafe { result::free_host(self.memory.as_ptr().cast()) };
    }
}
