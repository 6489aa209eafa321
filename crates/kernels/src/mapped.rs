//! A file's bytes without reading them first.

use std::fs::File;
use std::io;
use std::ops::Deref;
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
}

impl Deref for MappedFile {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        &self.0
    }
}
