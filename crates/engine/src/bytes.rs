//! The bytes of a checkpoint file: mapped, embedded in the program, or read.

use std::ops::{Deref, Range};
use std::path::Path;

use beamgen_kernels::MappedFile;

use crate::Error;

#[derive(Debug)]
pub(crate) enum Bytes {
    Mapped(MappedFile),
    Static(&'static [u8]),
    Owned(Vec<u8>),
}

impl Bytes {
    /// Whether the file still has its full length. Another process may have shortened a mapped
    /// file, and reading beyond its end would kill the program.
    pub(crate) fn are_whole(&self) -> bool {
        match self {
            Self::Mapped(file) => file.is_whole(),
            Self::Static(_) | Self::Owned(_) => true,
        }
    }

    /// Advises the system that these bytes will not be read soon, so that the system may drop their
    /// pages.
    pub(crate) fn set_aside(&self, bytes: Range<usize>) {
        if let Self::Mapped(file) = self {
            file.set_aside(bytes);
        }
    }
}

impl Deref for Bytes {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match self {
            Self::Mapped(file) => file,
            Self::Static(bytes) => bytes,
            Self::Owned(bytes) => bytes,
        }
    }
}

/// Maps a file of weights. Refuses everything but a regular file.
pub(crate) fn mapped(path: &Path) -> Result<Bytes, Error> {
    // Opening a pipe would block, and mapping a device would not give a file's contents.
    let file = beamgen_files::open_regular_file(path).and_then(MappedFile::of);
    let file = file.map_err(|source| Error::Io {
        path: path.to_owned(),
        source,
    })?;
    refuse_pointer(path, &file)?;
    Ok(Bytes::Mapped(file))
}

/// Refuses the pointer that Git LFS leaves in place of a large file that was not downloaded.
pub(crate) fn refuse_pointer(path: &Path, bytes: &[u8]) -> Result<(), Error> {
    if !bytes.starts_with(b"version https://git-lfs.github.com/") {
        return Ok(());
    }
    let reason = "is a Git LFS pointer, not the file itself; run `git lfs pull` in its folder";
    Err(Error::checkpoint(path, reason))
}
