//! Memory of numbers on cache-line boundaries, zero until written, not touched until used.

use std::alloc::{Layout, alloc_zeroed, dealloc, handle_alloc_error};
use std::ops::{Deref, DerefMut};
use std::ptr::NonNull;

use memmap2::MmapMut;

/// A cache line, and the width of an AVX-512 load: unaligned ones cost a second access.
const ALIGN: usize = 64;

/// Numbers for which all bits zero is a value.
///
/// # Safety
/// That must be so.
pub(crate) unsafe trait Number: Copy + Send + Sync + 'static {}

// SAFETY: it is 0.0.
unsafe impl Number for f32 {}
// SAFETY: it is 0.
unsafe impl Number for u16 {}
// SAFETY: it is 0.
unsafe impl Number for u8 {}

/// Bytes from which a buffer has pages of its own: some of the system's huge ones (2 MiB on x86-64).
const LARGE: usize = 4 << 20;

/// A fixed number of zeroed numbers on a 64-byte boundary. Large ones come from the system as
/// untouched pages, huge ones where it has them: weights are read at the speed of memory only if the
/// machine need not look up an address every 4 KiB.
pub(crate) struct AlignedBuf<T: Number = f32> {
    data: NonNull<T>,
    len: usize,
    /// The pages that `data` lies in, if it is large.
    pages: Option<MmapMut>,
}

// SAFETY: it owns its memory, as a `Vec<T>` does.
unsafe impl<T: Number> Send for AlignedBuf<T> {}
// SAFETY: as above; shared access is through `&[T]`.
unsafe impl<T: Number> Sync for AlignedBuf<T> {}

impl<T: Number> AlignedBuf<T> {
    pub(crate) fn zeroed(len: usize) -> Self {
        if len == 0 {
            return Self {
                data: NonNull::dangling(),
                len,
                pages: None,
            };
        }
        if let Some(mut pages) = Self::pages(len) {
            return Self {
                // Pages begin on boundaries of more than 64 bytes.
                data: NonNull::from(&mut pages[..]).cast(),
                len,
                pages: Some(pages),
            };
        }
        let layout = Self::layout(len);
        // SAFETY: the layout is not empty.
        let raw = unsafe { alloc_zeroed(layout) };
        let Some(data) = NonNull::new(raw.cast::<T>()) else {
            handle_alloc_error(layout)
        };
        Self {
            data,
            len,
            pages: None,
        }
    }

    /// Pages for so many numbers, if they are large and the system has such pages.
    fn pages(len: usize) -> Option<MmapMut> {
        let bytes = len.checked_mul(size_of::<T>())?;
        let pages = (bytes >= LARGE).then(|| MmapMut::map_anon(bytes).ok())??;
        // Nothing but speed is lost if the system refuses.
        #[cfg(target_os = "linux")]
        let _ = pages.advise(memmap2::Advice::HugePage);
        Some(pages)
    }

    fn layout(len: usize) -> Layout {
        Layout::array::<T>(len)
            .and_then(|l| l.align_to(ALIGN))
            .expect("more numbers than the address space holds")
    }
}

impl<T: Number> Drop for AlignedBuf<T> {
    fn drop(&mut self) {
        if self.len > 0 && self.pages.is_none() {
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
        // SAFETY: as in `deref`, and the borrow is unique.
        unsafe { std::slice::from_raw_parts_mut(self.data.as_ptr(), self.len) }
    }
}

/// Buffers that tasks share to write disjoint parts of them.
#[derive(Clone, Copy)]
pub(crate) struct SharedBufs<'a>(&'a [AlignedBuf]);

impl<'a> SharedBufs<'a> {
    pub(crate) fn new(bufs: &'a mut [AlignedBuf]) -> Self {
        Self(bufs)
    }

    /// # Safety
    /// `start..start + len` must lie inside buffer `index`, and nothing else may use that part
    /// while the result lives.
    #[inline(always)]
    #[allow(clippy::mut_from_ref)]
    pub(crate) unsafe fn part(&self, index: usize, start: usize, len: usize) -> &'a mut [f32] {
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
        for len in [0, 1, 15, 16, 17, 4099, LARGE + 3] {
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
