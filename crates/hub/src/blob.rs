//! The download of one file, which can be resumed. The file gets its final name in the cache only
//! after it was verified.

use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

use sha2::{Digest, Sha256};
use ureq::http::StatusCode;

use crate::HubError;
use crate::error::{RequestError, RequestTarget};
use crate::headers::range_start;
use crate::http::{Client, Metadata};
use crate::progress::{Progress, Reporter};
use crate::repo_dir::{RepoDir, lock, make_parent};
use crate::retry::{Patience, Retry, TransferError};

const BUFFER: usize = 1 << 18;

/// A file that is missing in a snapshot, with what is needed to download it.
#[derive(Debug)]
pub(crate) struct Job {
    pub target: RequestTarget,
    pub file: String,
    pub url: String,
    pub metadata: Metadata,
}

impl Job {
    /// Returns the number of bytes that are not in the cache yet; 0 if the file's size is unknown.
    pub(crate) fn missing(&self, repo: &RepoDir) -> u64 {
        let blob = repo.blob(&self.metadata.etag);
        if is_whole(&blob, &self.metadata) {
            return 0;
        }
        let begun = fs::metadata(incomplete(&blob)).map_or(0, |found| found.len());
        self.metadata.size.unwrap_or(0).saturating_sub(begun)
    }

    /// Downloads the file to `blobs/ETAG` if that file does not exist. Resumes from
    /// `blobs/ETAG.incomplete`, which an interrupted call leaves.
    pub(crate) fn fetch(
        &self,
        client: &Client,
        repo: &RepoDir,
        retry: &Retry<'_>,
        patience: Patience,
    ) -> Result<(), HubError> {
        let (metadata, reporter) = (&self.metadata, retry.reporter);
        let blob = repo.blob(&metadata.etag);
        if is_whole(&blob, metadata) {
            return Ok(());
        }
        let _lock = lock(&repo.lock(&metadata.etag), reporter, &self.file)?;
        // Another process may have completed the file while this one waited for the lock.
        if is_whole(&blob, metadata) {
            return Ok(());
        }
        if reporter.is_over() {
            return Err(self.target.failed(given_up(0, metadata.size)));
        }
        make_parent(&blob)?;
        let mut partial = Partial::open(&blob, metadata)?;
        let mut restarted = partial.len == 0;
        loop {
            let outcome = retry
                .run(patience, || self.transfer(client, &mut partial, reporter))
                .and_then(|()| partial.verify(metadata));
            let stop = match outcome {
                Ok(()) => return partial.finish(&blob),
                Err(stop) => stop,
            };
            let is_corrupt = matches!(
                stop,
                TransferError::Request {
                    error: RequestError::WrongHash { .. } | RequestError::WrongSize { .. },
                    ..
                }
            );
            // The damaged bytes may be those of an earlier call, so the file is downloaded once
            // more. If all bytes came from this call, another download would probably be damaged,
            // too.
            if is_corrupt && !restarted {
                restarted = true;
                partial.restart()?;
                continue;
            }
            // Damaged bytes must not be resumed, and an empty file has nothing to resume.
            if is_corrupt || partial.len == 0 {
                partial.discard()?;
            }
            return Err(stop.at(&self.target));
        }
    }

    /// Sends one request for the missing bytes and appends them to the file.
    fn transfer(
        &self,
        client: &Client,
        partial: &mut Partial,
        reporter: &Reporter,
    ) -> Result<(), TransferError> {
        let size = self.metadata.size;
        if size == Some(partial.len) {
            return Ok(());
        }
        let mut response = client.get(&self.url, partial.len)?;
        // A server may answer 206 with another range than the requested one.
        let continues = response.status() == StatusCode::PARTIAL_CONTENT
            && range_start(response.headers()) == Some(partial.len);
        if !continues {
            partial.restart().map_err(TransferError::Disk)?;
            // A 200 answer contains the whole file. Other answers, e.g. 416 or a wrong range, are
            // useless.
            if response.status() != StatusCode::OK {
                response = client.get(&self.url, 0)?;
            }
            if response.status() != StatusCode::OK {
                let fault = "a part of the file that was not asked for";
                return Err(RequestError::BadReply(fault.to_owned()).into());
            }
        }
        let start = partial.len;
        let sent = response.body().content_length();
        // A wrong length is found before the first byte is downloaded.
        if let (Some(promised), Some(rest)) = (size, sent)
            && promised != start.saturating_add(rest)
        {
            let sent = start.saturating_add(rest);
            return Err(RequestError::WrongSize { promised, sent }.into());
        }
        let stopped = |partial: &Partial, error| TransferError::Request {
            error,
            progressed: partial.len > start,
        };
        let mut body = response.into_body().into_reader();
        let mut buffer = vec![0; BUFFER];
        self.tell(reporter, start);
        loop {
            // A complete file is kept even if another download has failed.
            if reporter.is_over() && size != Some(partial.len) {
                return Err(stopped(partial, given_up(partial.len, size)));
            }
            match body.read(&mut buffer) {
                Ok(0) => break,
                Ok(read) => {
                    partial.write(&buffer[..read])?;
                    self.tell(reporter, partial.len);
                    // Without `Content-Length` an endless answer would fill the disk.
                    if let Some(promised) = size
                        && partial.len > promised
                    {
                        let sent = partial.len;
                        return Err(RequestError::WrongSize { promised, sent }.into());
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => (),
                Err(error) => {
                    let reason = match client.broken(ureq::Error::from(error)) {
                        RequestError::Timeout(limit) => format!("no bytes for {limit:?}"),
                        RequestError::Unreachable(reason) => reason,
                        error => error.to_string(),
                    };
                    return Err(stopped(partial, interrupted(partial.len, size, reason)));
                }
            }
        }
        if size.is_some_and(|size| partial.len < size) {
            let reason = "the connection was closed".to_owned();
            return Err(stopped(partial, interrupted(partial.len, size, reason)));
        }
        Ok(())
    }

    fn tell(&self, reporter: &Reporter, done: u64) {
        reporter.tell(Progress::Bytes {
            file: self.file.clone(),
            done,
            total: self.metadata.size,
        });
    }
}

fn interrupted(done: u64, total: Option<u64>, reason: String) -> RequestError {
    RequestError::Interrupted {
        done,
        total,
        reason,
    }
}

/// Returns the error of a download that was stopped because another one failed. Only the first
/// failure is shown to the user.
fn given_up(done: u64, total: Option<u64>) -> RequestError {
    interrupted(done, total, "another file failed".to_owned())
}

fn is_whole(blob: &Path, metadata: &Metadata) -> bool {
    // The length is enough, since only verified files get this name. Hashing gigabytes at every
    // start would take minutes.
    fs::metadata(blob)
        .is_ok_and(|found| found.is_file() && metadata.size.is_none_or(|size| size == found.len()))
}

/// Returns the path of a file that is still being downloaded. Python's `huggingface_hub` uses the
/// same path.
fn incomplete(blob: &Path) -> PathBuf {
    let mut path = blob.to_owned().into_os_string();
    path.push(".incomplete");
    PathBuf::from(path)
}

/// An open file `ETAG.incomplete`, with the length and the running hash of its contents.
struct Partial {
    path: PathBuf,
    file: File,
    len: u64,
    hash: Option<Sha256>,
}

impl Partial {
    /// Opens or creates the file. Bytes of an earlier call are kept only if a known size or hash
    /// can later show that they are wrong.
    fn open(blob: &Path, metadata: &Metadata) -> Result<Self, HubError> {
        let path = incomplete(blob);
        let open = File::options()
            .read(true)
            .append(true)
            .create(true)
            .open(&path);
        let mut partial = Self {
            file: open.map_err(HubError::io(&path))?,
            path,
            len: 0,
            hash: metadata.is_sha256.then(Sha256::new),
        };
        partial
            .read_existing()
            .map_err(HubError::io(&partial.path))?;
        // Without a size and a hash nothing would show that old and new bytes belong to different
        // files.
        if metadata.size.is_none() && !metadata.is_sha256 {
            partial.restart()?;
        }
        Ok(partial)
    }

    fn read_existing(&mut self) -> io::Result<()> {
        let len = self.file.metadata()?.len();
        // The earlier process took the state of the hash with it, so the bytes are hashed again.
        if let Some(hash) = &mut self.hash {
            io::copy(&mut (&self.file).take(len), hash)?;
        }
        self.len = len;
        Ok(())
    }

    fn restart(&mut self) -> Result<(), HubError> {
        if self.len > 0 {
            self.file.set_len(0).map_err(HubError::io(&self.path))?;
            self.len = 0;
        }
        if let Some(hash) = &mut self.hash {
            hash.reset();
        }
        Ok(())
    }

    fn write(&mut self, bytes: &[u8]) -> Result<(), TransferError> {
        self.file
            .write_all(bytes)
            .map_err(|error| TransferError::Disk(HubError::io(&self.path)(error)))?;
        if let Some(hash) = &mut self.hash {
            hash.update(bytes);
        }
        self.len += bytes.len() as u64;
        Ok(())
    }

    fn verify(&mut self, metadata: &Metadata) -> Result<(), TransferError> {
        if let Some(hash) = &mut self.hash {
            let digest = hash.finalize_reset();
            let found: String = digest.iter().map(|byte| format!("{byte:02x}")).collect();
            if found != metadata.etag.to_ascii_lowercase() {
                return Err(RequestError::WrongHash { found }.into());
            }
        }
        Ok(())
    }

    /// Renames the file to its final name. The bytes are synced first; otherwise a crash could
    /// leave an incomplete file with that name.
    fn finish(self, blob: &Path) -> Result<(), HubError> {
        self.file
            .sync_all()
            .and_then(|()| fs::rename(&self.path, blob))
            .map_err(HubError::io(blob))
    }

    fn discard(self) -> Result<(), HubError> {
        fs::remove_file(&self.path).map_err(HubError::io(&self.path))
    }
}
