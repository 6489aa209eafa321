//! Memory of numbers on cache-line boundaries, zero until written, not touched until used.

use std::alloc::{Layout, alloc_zeroed, dealloc, handle_alloc_error};
use std::ops::{Deref, DerefMut};
use std::ptr::NonNull;

use memmap2::MmapMut;

/// A cache line, and the width of an AVX-512 load: unaligned ones cost a second access.
const ALIGN: usize = 64;

/// Plain numbers, whose memory may begin as zeros.
///
/// # Safety
/// Every bit pattern, all zeros included, must be a value of the type.
pub(crate) unsafe trait Number: Copy + Send + Sync + 'static {}

// SAFETY: every bit pattern is a float.
unsafe impl Number for f32 {}
// SAFETY: every bit pattern is an integer.
unsafe impl Number for u16 {}
// SAFETY: every bit pattern is an integer.
unsafe impl Number for u8 {}

/// Bytes of a huge page. Weights and the KV cache are read from end to end in every pass. With
/// pages of 4 KiB, looking up addresses takes much of that time, above all in virtual machines.
const HUGE: usize = 2 << 20;

/// A fixed number of zeroed numbers on a 64-byte boundary. A buffer of at least [`HUGE`] bytes
/// comes from the system as untouched pages, huge ones where available.
#[derive(Debug)]
pub(crate) struct AlignedBuf<T: Number = f32> {
    data: NonNull<T>,
    len: usize,
    /// The mapping that holds the numbers; `None` if they are on the heap.
    mapped: Option<MmapMut>,
}

// SAFETY: the buffer owns its memory, as a `Vec<T>` does.
unsafe impl<T: Number> Send for AlignedBuf<T> {}
// SAFETY: a shared buffer gives out `&[T]` only, and numbers may be read from any thread.
unsafe impl<T: Number> Sync for AlignedBuf<T> {}

impl<T: Number> AlignedBuf<T> {
    pub(crate) fn zeroed(len: usize) -> Self {
        if len == 0 {
            return Self {
                data: NonNull::dangling(),
                len,
                mapped: None,
            };
        }
        let layout = Self::layout(len);
        // A fresh mapping is zero without being touched; the heap might write zeros to used memory.
        if layout.size() >= HUGE
            && let Some(buffer) = Self::mapped(len, layout.size())
        {
            return buffer;
        }
        // SAFETY: the layout is not empty.
        let raw = unsafe { alloc_zeroed(layout) };
        let Some(data) = NonNull::new(raw.cast::<T>()) else {
            handle_alloc_error(layout)
        };
        Self {
            data,
            len,
            mapped: None,
        }
    }

    /// Maps `bytes` bytes for `len` numbers in pages of their own; `None` if the system refuses.
    fn mapped(len: usize, bytes: usize) -> Option<Self> {
        // Over-allocated by a huge page, so that the numbers can begin at a huge page's boundary.
        // Untouched pages cost nothing.
        let mut map = MmapMut::map_anon(bytes.checked_add(HUGE)?).ok()?;
        // Advice only: without huge pages the buffer works, but is read more slowly.
        #[cfg(target_os = "linux")]
        let _ = map.advise(memmap2::Advice::HugePage);
        let skip = map.as_ptr().align_offset(HUGE);
        let data = NonNull::new(map[skip..][..bytes].as_mut_ptr().cast::<T>())?;
        Some(Self {
            data,
            len,
            mapped: Some(map),
        })
    }

    /// Returns the memory of `numbers` to the system, as far as it covers whole pages. The numbers
    /// are zero afterwards, or unchanged.
    ///
    /// # Panics
    /// If `numbers` is out of bounds.
    pub(crate) fn discard(&mut self, numbers: std::ops::Range<usize>) {
        let part = &mut self[numbers];
        #[cfg(target_os = "linux")]
        {
            // The largest page size that these machines use by default: `madvise` takes whole pages
            // only.
            const PAGE: usize = if cfg!(target_arch = "x86_64") {
                1 << 12
            } else {
                1 << 16
            };
            let start = (part.as_ptr() as usize).next_multiple_of(PAGE);
            let end = part.as_ptr_range().end as usize / PAGE * PAGE;
            if start < end {
                // SAFETY: the pages are inside memory that `self` owns and that is borrowed
                // uniquely; private memory reads as zeros afterwards, which are numbers.
                unsafe {
                    libc::madvise(start as *mut libc::c_void, end - start, libc::MADV_DONTNEED)
                };
            }
        }
        #[cfg(not(target_os = "linux"))]
        let _ = part;
    }

    fn layout(len: usize) -> Layout {
        Layout::array::<T>(len)
            .and_then(|l| l.align_to(ALIGN))
            .expect("more numbers than the address space holds")
    }
}

impl<T: Number> Drop for AlignedBuf<T> {
    fn drop(&mut self) {
        if self.len > 0 && self.mapped.is_none() {
            // SAFETY: allocated in `zeroed` with the same layout.
            unsafe { dealloc(self.data.as_ptr().cast(), Self::layout(self.len)) }
        }
    }
}

impl<T: Number> Deref for AlignedBuf<T> {
    type Target = [T];
    fn deref(&self) -> &[T] {
        // SAFETY: `len` initialised (zeroed) numbers that `self` owns.
        unsafe { std::slice::from_raw_parts(self.data.as_ptr(), self.len) }
    }
}

impl<T: Number> DerefMut for AlignedBuf<T> {
    fn deref_mut(&mut self) -> &mut [T] {
        // SAFETY: `len` initialised numbers that `self` owns, and `self` is borrowed uniquely.
        unsafe { std::slice::from_raw_parts_mut(self.data.as_ptr(), self.len) }
    }
}

/// Buffers that tasks share to write disjoint parts of them.
#[derive(Clone, Copy)]
pub(crate) struct SharedBufs<'a>(&'a [AlignedBuf<u8>]);

impl<'a> SharedBufs<'a> {
    pub(crate) fn new(bufs: &'a mut [AlignedBuf<u8>]) -> Self {
        Self(bufs)
    }

    /// # Safety
    /// `start..start + len` must be inside buffer `index`, and nothing else may use that part
    /// while the result lives.
    #[inline(always)]
    #[allow(clippy::mut_from_ref)]
    pub(crate) unsafe fn part(&self, index: usize, start: usize, len: usize) -> &'a mut [u8] {
        // SAFETY: the caller's promise; the buffers are borrowed uniquely for `'a`, and the
        // pointer is the allocation's own.
        unsafe { std::slice::from_raw_parts_mut(self.0[index].data.as_ptr().add(start), len) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn is_aligned_zero_and_writable() {
        for len in [0, 1, 15, 16, 17, 4099, HUGE / 4 + 3, HUGE + 1] {
            let half = AlignedBuf::<u16>::zeroed(len);
            assert!(half.len() == len && half.iter().all(|x| *x == 0));
            let mut buf = AlignedBuf::<f32>::zeroed(len);
            assert_eq!(buf.len(), len);
            assert!(buf.iter().all(|x| *x == 0.0));
            if len > 0 {
                assert_eq!(buf.as_ptr() as usize % ALIGN, 0);
                buf[len - 1] = 3.0;
                assert_eq!(buf[len - 1], 3.0);
            }
        }
    }
}
