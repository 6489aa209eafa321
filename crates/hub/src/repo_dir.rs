//! The folder of one repository in the cache, with the layout of Python's `huggingface_hub`:
//! `models--ORG--NAME/{blobs/ETAG, snapshots/COMMIT/FILE -> ../../blobs/ETAG, refs/REVISION}`, and
//! locks in `.locks/`.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use hf_hub::{Cache, CacheRepo, Repo, RepoType};

use crate::HubError;
use crate::id::{ModelId, is_commit};
use crate::progress::{Progress, Reporter};

#[derive(Debug)]
pub(crate) struct RepoDir {
    pub root: PathBuf,
    locks: PathBuf,
    paths: CacheRepo,
}

impl RepoDir {
    pub(crate) fn new(cache: &Path, id: &ModelId) -> Self {
        let repo = hf_repo(id);
        let folder = repo.folder_name();
        Self {
            root: cache.join(&folder),
            locks: cache.join(".locks").join(folder),
            paths: Cache::new(cache.to_owned()).repo(repo),
        }
    }

    pub(crate) fn snapshot(&self, commit: &str) -> PathBuf {
        self.paths.pointer_path(commit)
    }

    pub(crate) fn blob(&self, etag: &str) -> PathBuf {
        self.paths.blob_path(etag)
    }

    pub(crate) fn lock(&self, etag: &str) -> PathBuf {
        self.locks.join(format!("{etag}.lock"))
    }

    /// Returns the commit that a revision meant when the hub was last asked.
    pub(crate) fn commit(&self, id: &ModelId) -> Option<String> {
        if let Some(commit) = id.commit() {
            return Some(commit.to_owned());
        }
        let text = fs::read_to_string(self.root.join("refs").join(id.revision())).ok()?;
        // The text becomes a part of a path, and a crash of another program may have damaged it.
        Some(text.trim().to_owned()).filter(|commit| is_commit(commit))
    }

    /// Stores the commit that a revision means now, by a rename: no reader sees half a commit.
    pub(crate) fn set_commit(&self, id: &ModelId, commit: &str) -> Result<(), HubError> {
        // A write that changes nothing would fail needlessly on a read-only cache.
        if self.commit(id).as_deref() == Some(commit) {
            return Ok(());
        }
        let path = self.root.join("refs").join(id.revision());
        make_parent(&path)?;
        beamgen_files::write(&path, commit).map_err(HubError::io(&path))
    }

    /// Links a file of the snapshot to its blob, or copies it where the system has no links.
    pub(crate) fn link(&self, commit: &str, file: &str, etag: &str) -> Result<(), HubError> {
        let pointer = self.snapshot(commit).join(file);
        if pointer.is_file() {
            return Ok(());
        }
        make_parent(&pointer)?;
        if pointer.is_symlink() {
            // A link whose blob was deleted: `is_file` follows the link and finds nothing.
            fs::remove_file(&pointer).map_err(HubError::io(&pointer))?;
        }
        // Relative, so the cache can be moved. Two levels up for `snapshots/COMMIT`, one for each
        // folder in the file's name.
        let up = "../".repeat(2 + file.matches('/').count());
        match symlink(&format!("{up}blobs/{etag}"), &self.blob(etag), &pointer) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
                Err(HubError::io(&pointer)(error))
            }
            // AlreadyExists: another process was faster, with the same link.
            _ => Ok(()),
        }
    }
}

pub(crate) fn hf_repo(id: &ModelId) -> Repo {
    Repo::with_revision(
        id.repo().to_owned(),
        RepoType::Model,
        id.revision().to_owned(),
    )
}

pub(crate) fn make_parent(path: &Path) -> Result<(), HubError> {
    match path.parent() {
        Some(parent) => fs::create_dir_all(parent).map_err(HubError::io(parent)),
        None => Ok(()),
    }
}

#[cfg(unix)]
fn symlink(target: &str, _blob: &Path, pointer: &Path) -> io::Result<()> {
    std::os::unix::fs::symlink(target, pointer)
}

#[cfg(not(unix))]
fn symlink(_target: &str, blob: &Path, pointer: &Path) -> io::Result<()> {
    fs::copy(blob, pointer).map(drop)
}

/// Takes an exclusive lock, which Python's `filelock` respects; dropping the file releases it.
/// Returns `None` when the download is over. Also returns `None` where the file system has no
/// locks: two processes may then download the same file, and the checks find a damaged one.
pub(crate) fn lock(
    path: &Path,
    reporter: &Reporter,
    file_name: &str,
) -> Result<Option<File>, HubError> {
    make_parent(path)?;
    let file = File::options()
        .create(true)
        .write(true)
        .truncate(false)
        .open(path)
        .map_err(HubError::io(path))?;
    let mut reported = false;
    // Polled instead of a blocking `lock`, which could not notice that the download is over.
    loop {
        match file.try_lock() {
            Ok(()) => return Ok(Some(file)),
            Err(fs::TryLockError::Error(_)) => return Ok(None),
            Err(fs::TryLockError::WouldBlock) if reporter.is_over() => return Ok(None),
            Err(fs::TryLockError::WouldBlock) => {
                if !reported {
                    let file = file_name.to_owned();
                    reporter.tell(Progress::Waiting { file });
                    reported = true;
                }
                std::thread::sleep(std::time::Duration::from_millis(50));
            }
        }
    }
}
