use cudarc::driver::{result, sys};

use super::{CudaError, Device};

/// A number that may lie in device memory: no padding, every bit pattern is a value.
///
/// # Safety
/// Both must hold.
pub unsafe trait Element: Copy + 'static {}

// SAFETY: plain numbers.
unsafe impl Element for u8 {}
// SAFETY: as above.
unsafe impl Element for u16 {}
// SAFETY: as above.
unsafe impl Element for u32 {}
// SAFETY: as above.
unsafe impl Element for i32 {}
// SAFETY: as above.
unsafe impl Element for f32 {}
// SAFETY: as above.
unsafe impl Element for f64 {}
// SAFETY: as above.
unsafe impl Element for half::bf16 {}
// SAFETY: as above.
unsafe impl Element for half::f16 {}

/// Memory of a device, 256-byte aligned. Its content is arbitrary until it is written.
#[derive(Debug)]
pub struct Buffer {
    device: Device,
    pointer: sys::CUdeviceptr,
    bytes: usize,
}

impl Buffer {
    pub(super) fn new(device: &Device, bytes: usize) -> Result<Self, CudaError> {
        device.bind()?;
        // An empty buffer has an address, too.
        // SAFETY: the context is current; the size is not 0.
        let pointer = match unsafe { result::malloc_sync(bytes.max(1)) } {
            Ok(pointer) => pointer,
            Err(error) if error.0 == sys::CUresult::CUDA_ERROR_OUT_OF_MEMORY => {
                let free = device.free_bytes()?;
                return Err(CudaError::OutOfMemory {
                    needed: bytes,
                    free,
                });
            }
            Err(error) => return Err(CudaError::failed("taking memory")(error)),
        };
        Ok(Self {
            device: device.clone(),
            pointer,
            bytes,
        })
    }

    /// Its length.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Its device.
    #[must_use]
    pub fn device(&self) -> &Device {
        &self.device
    }

    pub(super) fn pointer(&self, offset: usize) -> sys::CUdeviceptr {
        assert!(offset <= self.bytes, "byte {offset} of {}", self.bytes);
        self.pointer + offset as u64
    }

    /// Panics unless `count` numbers of `bytes` bytes fit.
    #[track_caller]
    pub(super) fn assert_holds(&self, count: usize, bytes: usize) {
        assert!(
            count
                .checked_mul(bytes)
                .is_some_and(|all| all <= self.bytes),
            "{count} numbers of {bytes} bytes in a buffer of {}",
            self.bytes
        );
    }

    fn check<T: Element>(&self, offset: usize, values: &[T]) {
        let bytes = size_of_val(values);
        assert!(
            offset
                .checked_add(bytes)
                .is_some_and(|end| end <= self.bytes),
            "{bytes} bytes at {offset} of {}",
            self.bytes
        );
    }

    /// Copies `values` to byte `offset`, in the order of the stream. The host may change them at once.
    ///
    /// # Errors
    /// What the driver says.
    ///
    /// # Panics
    /// If they do not fit.
    pub fn write<T: Element>(&mut self, offset: usize, values: &[T]) -> Result<(), CudaError> {
        self.check(offset, values);
        if values.is_empty() {
            return Ok(());
        }
        self.device.bind()?;
        // SAFETY: inside the buffer, checked. The source is pageable memory, which the driver has
        // copied when the call returns.
        unsafe {
            result::memcpy_htod_async(self.pointer + offset as u64, values, self.device.stream())
        }
        .map_err(CudaError::failed("copying to the device"))
    }

    /// Waits for all work queued so far and copies what is at byte `offset` to `values`.
    ///
    /// # Errors
    /// What the driver says, also of work queued before.
    ///
    /// # Panics
    /// If so much is not there.
    pub fn read<T: Element>(&self, offset: usize, values: &mut [T]) -> Result<(), CudaError> {
        self.check(offset, values);
        if values.is_empty() {
            return self.device.synchronize();
        }
        self.device.bind()?;
        // SAFETY: inside the buffer, checked; every bit pattern is a value; the call below waits for the copy.
        unsafe {
            result::memcpy_dtoh_async(values, self.pointer + offset as u64, self.device.stream())
        }
        .map_err(CudaError::failed("copying from the device"))?;
        self.device.synchronize()
    }

    /// Copies `bytes` bytes within the buffer; the two places must not overlap.
    ///
    /// # Errors
    /// What the driver says.
    ///
    /// # Panics
    /// If a place is outside or they overlap.
    pub fn copy_within(&mut self, from: usize, to: usize, bytes: usize) -> Result<(), CudaError> {
        assert!(from.max(to) + bytes <= self.bytes && from.abs_diff(to) >= bytes);
        self.device.bind()?;
        // SAFETY: inside the buffer and apart, checked.
        unsafe {
            result::memcpy_dtod_async(
                self.pointer + to as u64,
                self.pointer + from as u64,
                bytes,
                self.device.stream(),
            )
        }
        .map_err(CudaError::failed("copying on the device"))
    }

    /// Fills it with zero bytes.
    ///
    /// # Errors
    /// What the driver says.
    pub fn clear(&mut self) -> Result<(), CudaError> {
        self.device.bind()?;
        // SAFETY: the whole buffer.
        unsafe { result::memset_d8_async(self.pointer, 0, self.bytes, self.device.stream()) }
            .map_err(CudaError::failed("clearing memory"))
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        if self.device.bind().is_ok() {
            // The driver waits for work that uses it. A failure here was one before.
            // SAFETY: taken in `new`, given back once.
            let _ = unsafe { result::free_sync(self.pointer) };
        }
    }
}
