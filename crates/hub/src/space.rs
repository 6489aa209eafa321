//! Whether the disk can hold a download.

use std::path::Path;

use crate::HubError;

/// Refuses what the file system of the folder has no room for. Where it does not say, the download
/// is tried.
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

/// Bytes that this user may write. The folder itself need not be there yet.
#[cfg(unix)]
fn free(folder: &Path) -> Option<u64> {
    let folder = std::path::absolute(folder).ok()?;
    let there = folder.ancestors().find(|folder| folder.exists())?;
    let found = rustix::fs::statvfs(there).ok()?;
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
    fn the_folder_above_says_it() {
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
