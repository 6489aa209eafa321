//! The cache folder of one repository. The layout is that of Python's `huggingface_hub`:
//! a folder `models--ORG--NAME` or `datasets--ORG--NAME` with
//! `{blobs/ETAG, snapshots/COMMIT/FILE -> ../../blobs/ETAG, refs/REVISION}`, and
//! locks in `.locks/`.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use hf_hub::{Cache, CacheRepo, Repo, RepoType};

use crate::HubError;
use crate::id::{Kind, ModelId, is_commit};
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

    /// Returns the commit of a revision, as the hub last reported it.
    pub(crate) fn commit(&self, id: &ModelId) -> Option<String> {
        if let Some(commit) = id.commit() {
            return Some(commit.to_owned());
        }
        let text = fs::read_to_string(self.root.join("refs").join(id.revision())).ok()?;
        // The text becomes part of a path, and the file may be damaged, so the form is checked.
        Some(text.trim().to_owned()).filter(|commit| is_commit(commit))
    }

    /// Records the commit of a revision. The file is replaced by a rename, so no reader sees half
    /// of it.
    pub(crate) fn set_commit(&self, id: &ModelId, commit: &str) -> Result<(), HubError> {
        // Writing the same commit again could fail on a read-only cache.
        if self.commit(id).as_deref() == Some(commit) {
            return Ok(());
        }
        let path = self.root.join("refs").join(id.revision());
        make_parent(&path)?;
        beamgen_files::write(&path, commit).map_err(HubError::io(&path))
    }

    /// Links a file of the snapshot to its blob. On systems without links, the blob is copied.
    pub(crate) fn link(&self, commit: &str, file: &str, etag: &str) -> Result<(), HubError> {
        let pointer = self.snapshot(commit).join(file);
        if pointer.is_file() {
            return Ok(());
        }
        make_parent(&pointer)?;
        if pointer.is_symlink() {
            // The link leads to a deleted blob: `is_file` is false, but the link exists.
            fs::remove_file(&pointer).map_err(HubError::io(&pointer))?;
        }
        // A relative link stays valid if the cache is moved. Two levels lead out of
        // `snapshots/COMMIT`, and one more out of each folder in the file's name.
        let up = "../".repeat(2 + file.matches('/').count());
        match symlink(&format!("{up}blobs/{etag}"), &self.blob(etag), &pointer) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
                Err(HubError::io(&pointer)(error))
            }
            // `AlreadyExists`: another process has made the same link.
            _ => Ok(()),
        }
    }
}

pub(crate) fn hf_repo(id: &ModelId) -> Repo {
    Repo::with_revision(
        id.repo().to_owned(),
        match id.kind() {
            Kind::Model => RepoType::Model,
            Kind::DataSet => RepoType::Dataset,
        },
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

/// Takes an exclusive lock, which Python's `filelock` respects; dropping the file releases the
/// lock. Returns `None` if the download was stopped, or if the file system has no locks. In the
/// latter case two processes may download the same file, and verification finds any damage.
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
    // Polled, because a blocking `lock` would not notice that the download was stopped.
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
