//! Memory of numbers on cache-line boundaries, zero until written, not touched until used.

use std::alloc::{Layout, alloc_zeroed, dealloc, handle_alloc_error};
use std::ops::{Deref, DerefMut};
use std::ptr::NonNull;

use memmap2::MmapMut;

/// A cache line, and the width of an AVX-512 load: unaligned ones cost a second access.
const ALIGN: usize = 64;

/// Plain numbers, which need no initialisation beyond zeroed memory.
///
/// # Safety
/// Every bit pattern must be a valid value of the type, also all zeros.
pub(crate) unsafe trait Number: Copy + Send + Sync + 'static {}

// SAFETY: every bit pattern is a valid float.
unsafe impl Number for f32 {}
// SAFETY: every bit pattern is a valid integer.
unsafe impl Number for u16 {}
// SAFETY: every bit pattern is a valid integer.
unsafe impl Number for u32 {}
// SAFETY: every bit pattern is a valid integer.
unsafe impl Number for u8 {}

/// The bytes of a huge page. Every pass reads all weights and the cache from end to end. With pages
/// of 4 KiB, address translation takes much of that time, especially in virtual machines.
const HUGE: usize = 2 << 20;

/// A buffer of numbers on a 64-byte boundary, which begin as zeros. At least [`HUGE`] bytes are
/// mapped as untouched pages, huge ones if available; smaller buffers are on the heap.
#[derive(Debug)]
pub(crate) struct AlignedBuf<T: Number = f32> {
    data: NonNull<T>,
    len: usize,
    /// The mapping that has the numbers; `None` if they are on the heap.
    mapped: Option<MmapMut>,
}

// SAFETY: the buffer owns its memory, like a `Vec<T>`.
unsafe impl<T: Number> Send for AlignedBuf<T> {}
// SAFETY: a shared buffer only gives out `&[T]`, and any thread may read numbers.
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
        // A new mapping is zero without being touched. The heap may have to clear used memory.
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

    /// Maps memory for `len` numbers of `bytes` bytes in total. Returns `None` if the system
    /// refuses.
    fn mapped(len: usize, bytes: usize) -> Option<Self> {
        // The mapping has one more huge page, so that the numbers can begin on the boundary of one.
        // Pages that are never touched cost nothing.
        let mut map = MmapMut::map_anon(bytes.checked_add(HUGE)?).ok()?;
        // Huge pages are only advice: without them, reading is slower.
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

    /// Gives those pages of `numbers` back to the system that are entirely inside. Afterwards each
    /// number is either unchanged or zero.
    ///
    /// # Panics
    /// If `numbers` is out of bounds.
    pub(crate) fn discard(&mut self, numbers: std::ops::Range<usize>) {
        let part = &mut self[numbers];
        #[cfg(target_os = "linux")]
        {
            // The largest default page size of this architecture. `madvise` takes whole pages only.
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
    /// `start..start + len` must be inside buffer `index`, and nothing else may use that range
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
