use std::sync::Arc;

use cudarc::driver::{result, sys};
use half::slice::HalfFloatSliceExt;
use half::{bf16, f16};

use super::{CudaError, Device, Number};

/// A type of numbers that may be copied to and from device memory.
///
/// # Safety
/// The type must have no padding, and every bit pattern must be a valid value.
pub unsafe trait Element: Copy + 'static {}

macro_rules! elements {
    ($($number:ty),*) => {$(
        // SAFETY: a plain number: no padding, and every bit pattern is a value.
        unsafe impl Element for $number {}
    )*};
}
elements!(u8, u16, u32, i32, f32, f64, bf16, f16);

/// Device memory, or a part of another buffer. The contents are arbitrary until they are written.
/// Work on buffers runs in the order in which it is queued, so buffers may overlap.
#[derive(Debug)]
pub struct Buffer {
    memory: Arc<Memory>,
    start: usize,
    bytes: usize,
}

/// Memory that the driver has allocated, aligned to 256 bytes. It is freed when dropped.
#[derive(Debug)]
struct Memory {
    device: Device,
    pointer: sys::CUdeviceptr,
}

impl Buffer {
    pub(super) fn new(device: &Device, bytes: usize) -> Result<Self, CudaError> {
        device.bind()?;
        // The driver refuses to allocate 0 bytes.
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
        let memory = Memory {
            device: device.clone(),
            pointer,
        };
        Ok(Self {
            memory: Arc::new(memory),
            start: 0,
            bytes,
        })
    }

    /// Returns another handle to the same memory, from byte `start` on.
    ///
    /// # Panics
    /// If `start` is beyond the end of the buffer.
    #[must_use]
    pub fn from(&self, start: usize) -> Self {
        assert!(start <= self.bytes, "byte {start} of {}", self.bytes);
        Self {
            memory: Arc::clone(&self.memory),
            start: self.start + start,
            bytes: self.bytes - start,
        }
    }

    /// The length in bytes. A part of another buffer reaches to that buffer's end.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// The device whose memory this is, and on whose stream all its work is queued.
    #[must_use]
    pub fn device(&self) -> &Device {
        &self.memory.device
    }

    pub(super) fn pointer(&self) -> sys::CUdeviceptr {
        self.memory.pointer + self.start as u64
    }

    /// Panics unless `count` numbers of `size` bytes fit.
    #[track_caller]
    pub(super) fn assert_holds(&self, count: usize, size: usize) {
        let fits = count
            .checked_mul(size)
            .is_some_and(|bytes| bytes <= self.bytes);
        assert!(
            fits,
            "{count} numbers of {size} bytes in a buffer of {}",
            self.bytes
        );
    }

    #[track_caller]
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

    /// Queues a copy of `values` to byte `offset`. The caller may change `values` once this
    /// returns.
    ///
    /// # Errors
    /// Errors of the driver.
    ///
    /// # Panics
    /// If the values do not fit after `offset`.
    pub fn write<T: Element>(&mut self, offset: usize, values: &[T]) -> Result<(), CudaError> {
        self.check(offset, values);
        if values.is_empty() {
            return Ok(());
        }
        // SAFETY: an `Element` has no padding, so that all its bytes are initialised.
        let bytes =
            unsafe { std::slice::from_raw_parts(values.as_ptr().cast(), size_of_val(values)) };
        // SAFETY: inside the buffer, checked.
        unsafe { self.device().copy_to(self.pointer() + offset as u64, bytes) }
    }

    /// Waits for all work that is queued so far, then copies the numbers at byte `offset` to
    /// `values`.
    ///
    /// # Errors
    /// Errors of the driver, also of work queued before.
    ///
    /// # Panics
    /// If the buffer has fewer numbers after `offset`.
    pub fn read<T: Element>(&self, offset: usize, values: &mut [T]) -> Result<(), CudaError> {
        const WHAT: &str = "copying from the device";
        self.check(offset, values);
        let device = self.device();
        if values.is_empty() {
            return device.synchronize();
        }
        device.bind()?;
        let turn = device.turn(WHAT)?;
        let from = self.pointer() + offset as u64;
        // SAFETY: inside the buffer, checked; every bit pattern is a value; the call below waits
        // for the copy.
        unsafe { result::memcpy_dtoh_async(values, from, device.stream()) }
            .map_err(CudaError::failed(WHAT))?;
        device.wait(&turn)
    }

    /// Reads numbers of the type `number` like [`read`](Self::read), and converts them to `f32`.
    ///
    /// # Errors
    /// Errors of the driver, also of work queued before.
    ///
    /// # Panics
    /// If the buffer has fewer numbers after `offset`.
    pub fn read_f32(
        &self,
        offset: usize,
        number: Number,
        values: &mut [f32],
    ) -> Result<(), CudaError> {
        match number {
            Number::F32 => self.read(offset, values)?,
            Number::Bf16 => {
                let mut narrow = vec![bf16::ZERO; values.len()];
                self.read(offset, &mut narrow)?;
                narrow.convert_to_f32_slice(values);
            }
            Number::F16 => {
                let mut narrow = vec![f16::ZERO; values.len()];
                self.read(offset, &mut narrow)?;
                narrow.convert_to_f32_slice(values);
            }
        }
        Ok(())
    }

    /// Queues a copy of `bytes` bytes within the buffer, from byte `from` to byte `to`.
    ///
    /// # Errors
    /// Errors of the driver.
    ///
    /// # Panics
    /// If a range is out of bounds, or the two ranges overlap.
    pub fn copy_within(&mut self, from: usize, to: usize, bytes: usize) -> Result<(), CudaError> {
        const WHAT: &str = "copying on the device";
        assert!(from.max(to) + bytes <= self.bytes && from.abs_diff(to) >= bytes);
        if bytes == 0 {
            return Ok(());
        }
        let device = self.device();
        device.bind()?;
        let _turn = device.turn(WHAT)?;
        let [from, to] = [from, to].map(|offset| self.pointer() + offset as u64);
        // SAFETY: both ranges are inside the buffer and do not overlap, checked.
        unsafe { result::memcpy_dtod_async(to, from, bytes, device.stream()) }
            .map_err(CudaError::failed(WHAT))
    }

    /// Queues a fill of the whole buffer with zero bytes.
    ///
    /// # Errors
    /// Errors of the driver.
    pub fn clear(&mut self) -> Result<(), CudaError> {
        const WHAT: &str = "clearing memory";
        if self.bytes == 0 {
            return Ok(());
        }
        let device = self.device();
        device.bind()?;
        let _turn = device.turn(WHAT)?;
        // SAFETY: the whole buffer.
        unsafe { result::memset_d8_async(self.pointer(), 0, self.bytes, device.stream()) }
            .map_err(CudaError::failed(WHAT))
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        // The driver does not document that freeing waits for work that uses the memory.
        self.device.drain();
        // SAFETY: allocated in `Buffer::new`, freed once, and no queued work uses it. A failure was
        // reported before, or the next call reports it.
        let _ = unsafe { result::free_sync(self.pointer) };
    }
}
