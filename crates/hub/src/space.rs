//! The check that the disk has room for a download.

use std::path::Path;

use crate::HubError;

/// Returns an error if the disk has fewer than `needed` bytes free. If the free space is unknown,
/// the download is tried.
pub(crate) fn check(folder: &Path, needed: u64) -> Result<(), HubError> {
    match free(folder) {
        Some(free) if needed > free => Err(HubError::NoSpace {
            folder: folder.to_owned(),
            needed,
            free,
        }),
        _ => Ok(()),
    }
}

/// Returns the number of bytes that this user may write; `folder` need not exist.
#[cfg(unix)]
fn free(folder: &Path) -> Option<u64> {
    let folder = std::path::absolute(folder).ok()?;
    // `statvfs` needs an existing path, and before the first download the cache does not exist.
    let there = folder.ancestors().find(|folder| folder.exists())?;
    let found = rustix::fs::statvfs(there).ok()?;
    // `f_bavail`, since `f_bfree` includes blocks that only root may use.
    Some(found.f_bavail.saturating_mul(found.f_frsize))
}

#[cfg(not(unix))]
fn free(_folder: &Path) -> Option<u64> {
    None
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;

    #[test]
    fn the_folder_above_is_measured() {
        let dir = tempfile::tempdir().expect("a folder");
        let below = dir.path().join("a/b");
        let free = free(&below).expect("a size");
        assert!(free > 0 && free < u64::MAX / 2, "{free}");
        check(&below, 0).expect("room");
        let error = check(&below, u64::MAX).expect_err("no room");
        assert!(matches!(
            error,
            HubError::NoSpace {
                needed: u64::MAX,
                ..
            }
        ));
    }
}
