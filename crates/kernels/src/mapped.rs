//! A file's bytes without reading them first.

use std::fs::File;
use std::io;
use std::ops::{Deref, Range};
use std::path::Path;

/// A file mapped for reading.
///
/// Nobody may change or shorten the file while it is mapped; a checkpoint is mapped only while
/// it is loaded.
#[derive(Debug)]
pub struct MappedFile(memmap2::Mmap);

impl MappedFile {
    /// Maps the file at `path`.
    ///
    /// # Errors
    /// What the system says about opening or mapping it.
    pub fn open(path: &Path) -> io::Result<Self> {
        let file = File::open(path)?;
        // SAFETY: the mapping is private and read-only. A checkpoint that another process
        // rewrites in place while it is being loaded is outside what any mapping reader
        // survives; the type's documentation says so.
        unsafe { memmap2::Mmap::map(&file) }.map(Self)
    }

    /// Says that these bytes will not be read soon: their memory need not count as this process's. Read
    /// all the same, they come from the file again.
    ///
    /// # Panics
    /// If they are not inside.
    pub fn set_aside(&self, bytes: Range<usize>) {
        assert!(bytes.start <= bytes.end && bytes.end <= self.0.len());
        #[cfg(unix)]
        {
            let advice = memmap2::UncheckedAdvice::DontNeed;
            // SAFETY: nothing was ever written to the mapping, so that it can be read from the file again.
            // That it did not help is no reason to stop.
            let _ = unsafe {
                self.0
                    .unchecked_advise_range(advice, bytes.start, bytes.len())
            };
        }
    }
}

impl Deref for MappedFile {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        &self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_set_aside_are_read_again() {
        let path = std::env::temp_dir().join(format!("beamgen-mapped-{}", std::process::id()));
        let bytes: Vec<u8> = (0..50_000u32).map(|i| (i % 251) as u8).collect();
        std::fs::write(&path, &bytes).unwrap();
        let mapped = MappedFile::open(&path).unwrap();
        assert_eq!(*mapped, bytes);
        for range in [0..50_000, 17..9000, 4096..8192, 50_000..50_000] {
            mapped.set_aside(range);
            assert_eq!(*mapped, bytes);
        }
        drop(mapped);
        std::fs::remove_file(path).unwrap();
    }
}
