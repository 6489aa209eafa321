//! Float memory on cache-line boundaries, zero until written, not touched until used.

use std::alloc::{Layout, alloc_zeroed, dealloc, handle_alloc_error};
use std::ops::{Deref, DerefMut};
use std::ptr::NonNull;

/// A cache line, and the width of an AVX-512 load: unaligned ones cost a second access.
const ALIGN: usize = 64;

/// A fixed number of zeroed floats on a 64-byte boundary. Large ones come from the system as
/// untouched pages.
pub(crate) struct AlignedBuf {
    data: NonNull<f32>,
    len: usize,
}

// SAFETY: it owns its memory, as a `Vec<f32>` does.
unsafe impl Send for AlignedBuf {}
// SAFETY: as above; shared access is through `&[f32]`.
unsafe impl Sync for AlignedBuf {}

impl AlignedBuf {
    pub(crate) fn zeroed(len: usize) -> Self {
        if len == 0 {
            return Self {
                data: NonNull::dangling(),
                len,
            };
        }
        let layout = Self::layout(len);
        // SAFETY: the layout is not empty.
        let raw = unsafe { alloc_zeroed(layout) };
        let Some(data) = NonNull::new(raw.cast::<f32>()) else {
            handle_alloc_error(layout)
        };
        Self { data, len }
    }

    fn layout(len: usize) -> Layout {
        Layout::array::<f32>(len)
            .and_then(|l| l.align_to(ALIGN))
            .expect("more floats than the address space holds")
    }
}

impl Drop for AlignedBuf {
    fn drop(&mut self) {
        if self.len > 0 {
            // SAFETY: allocated in `zeroed` with the same layout.
            unsafe { dealloc(self.data.as_ptr().cast(), Self::layout(self.len)) }
        }
    }
}

impl Deref for AlignedBuf {
    type Target = [f32];
    fn deref(&self) -> &[f32] {
        // SAFETY: `len` initialised (zeroed) floats that `self` owns.
        unsafe { std::slice::from_raw_parts(self.data.as_ptr(), self.len) }
    }
}

impl DerefMut for AlignedBuf {
    fn deref_mut(&mut self) -> &mut [f32] {
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
        for len in [0, 1, 15, 16, 17, 4099] {
            let mut buf = AlignedBuf::zeroed(len);
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
