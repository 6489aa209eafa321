//! Maps files into memory.

use std::fs::File;
use std::io;
use std::ops::{Deref, Range};

/// A file mapped for reading.
///
/// No process may change or shorten the file while it is mapped: reading beyond the new end would
/// kill this process. A checkpoint is mapped only while it is loaded, and
/// [`is_whole`](Self::is_whole) detects a shortened file before the next read.
#[derive(Debug)]
pub struct MappedFile {
    bytes: memmap2::Mmap,
    file: File,
}

impl MappedFile {
    /// Maps an open file.
    ///
    /// # Errors
    /// The system's error, if it refuses the mapping.
    pub fn of(file: File) -> io::Result<Self> {
        // SAFETY: the mapping is private and read-only. A checkpoint that another process
        // rewrites in place while it is being loaded is outside what any mapping reader
        // survives; the type's documentation says so.
        let bytes = unsafe { memmap2::Mmap::map(&file) }?;
        Ok(Self { bytes, file })
    }

    /// Whether the file is still as long as when it was mapped.
    #[must_use]
    pub fn is_whole(&self) -> bool {
        let now = self.file.metadata();
        // A file that has grown still has all mapped bytes.
        now.is_ok_and(|now| now.len() >= self.bytes.len() as u64)
    }

    /// Advises the system that these bytes will not be read soon, so that it may free their memory.
    /// A later read loads them from the file again.
    ///
    /// # Panics
    /// If `bytes` is out of bounds.
    pub fn set_aside(&self, bytes: Range<usize>) {
        assert!(bytes.start <= bytes.end && bytes.end <= self.bytes.len());
        #[cfg(unix)]
        {
            let advice = memmap2::UncheckedAdvice::DontNeed;
            // SAFETY: nothing was ever written to the mapping, so it can be read from the file
            // again. If the advice fails, the memory only stays in use.
            let _ = unsafe {
                self.bytes
                    .unchecked_advise_range(advice, bytes.start, bytes.len())
            };
        }
    }
}

impl Deref for MappedFile {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        &self.bytes
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
        let mapped = MappedFile::of(File::open(&path).unwrap()).unwrap();
        assert_eq!(*mapped, bytes);
        for range in [0..50_000, 17..9000, 4096..8192, 50_000..50_000] {
            mapped.set_aside(range);
            assert_eq!(*mapped, bytes);
        }
        assert!(mapped.is_whole());
        File::options()
            .write(true)
            .open(&path)
            .unwrap()
            .set_len(49_999)
            .unwrap();
        assert!(!mapped.is_whole());
        drop(mapped);
        std::fs::remove_file(path).unwrap();
    }
}
