//! The bytes of a checkpoint's file.

use std::ops::{Deref, Range};
use std::path::Path;

use beamgen_kernels::MappedFile;

use crate::Error;

/// The bytes of a file.
#[derive(Debug)]
pub(crate) enum Bytes {
    Mapped(MappedFile),
    Static(&'static [u8]),
    Owned(Vec<u8>),
}

impl Bytes {
    /// Whether all bytes are still there: a mapped file may have been shortened.
    pub(crate) fn are_whole(&self) -> bool {
        match self {
            Self::Mapped(file) => file.is_whole(),
            Self::Static(_) | Self::Owned(_) => true,
        }
    }

    /// Says that these bytes will not be read soon.
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

/// The bytes of a file of weights.
pub(crate) fn mapped(path: &Path) -> Result<Bytes, Error> {
    let file = beamgen_files::open_regular_file(path).and_then(MappedFile::of);
    let file = file.map_err(|source| Error::Io {
        path: path.to_owned(),
        source,
    })?;
    refuse_pointer(path, &file)?;
    Ok(Bytes::Mapped(file))
}

/// Refuses what Git leaves in place of a large file that it did not fetch.
pub(crate) fn refuse_pointer(path: &Path, bytes: &[u8]) -> Result<(), Error> {
    if !bytes.starts_with(b"version https://git-lfs.github.com/") {
        return Ok(());
    }
    let reason = "is a Git LFS pointer, not the file itself; run `git lfs pull` in its folder";
    Err(Error::checkpoint(path, reason))
}
