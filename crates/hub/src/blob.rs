//! One file into the cache: resumed, verified, and only then under its name.

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

/// One file that a snapshot lacks.
#[derive(Debug)]
pub(crate) struct Job {
    pub target: RequestTarget,
    pub file: String,
    pub url: String,
    pub metadata: Metadata,
}

impl Job {
    /// Bytes that have to come. What is in the cache is not needed again.
    pub(crate) fn missing(&self, repo: &RepoDir) -> u64 {
        let blob = repo.blob(&self.metadata.etag);
        if is_whole(&blob, &self.metadata) {
            return 0;
        }
        let begun = fs::metadata(incomplete(&blob)).map_or(0, |found| found.len());
        self.metadata.size.unwrap_or(0).saturating_sub(begun)
    }

    /// Downloads the file into `blobs/ETAG`, unless it is there. What an interrupted call left in
    /// `blobs/ETAG.incomplete` is continued.
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
            // the bytes that an earlier call left may be the wrong ones
            if is_corrupt && !restarted {
                restarted = true;
                partial.restart()?;
                continue;
            }
            if is_corrupt || partial.len == 0 {
                partial.discard()?;
            }
            return Err(stop.at(&self.target));
        }
    }

    /// One request for the bytes that are missing.
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
        let continues = response.status() == StatusCode::PARTIAL_CONTENT
            && range_start(response.headers()) == Some(partial.len);
        if !continues {
            partial.restart().map_err(TransferError::Disk)?;
            if response.status() != StatusCode::OK {
                response = client.get(&self.url, 0)?;
            }
            if response.status() != StatusCode::OK {
                let what = "a part of the file that was not asked for";
                return Err(RequestError::BadReply(what.to_owned()).into());
            }
        }
        let start = partial.len;
        let sent = response.body().content_length();
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
            if reporter.is_over() && size != Some(partial.len) {
                return Err(stopped(partial, given_up(partial.len, size)));
            }
            match body.read(&mut buffer) {
                Ok(0) => break,
                Ok(read) => {
                    partial.write(&buffer[..read])?;
                    self.tell(reporter, partial.len);
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

/// Another file of the model failed, and that is what the user hears.
fn given_up(done: u64, total: Option<u64>) -> RequestError {
    interrupted(done, total, "another file failed".to_owned())
}

fn is_whole(blob: &Path, metadata: &Metadata) -> bool {
    fs::metadata(blob)
        .is_ok_and(|found| found.is_file() && metadata.size.is_none_or(|size| size == found.len()))
}

/// Where a blob's bytes are until all have come.
fn incomplete(blob: &Path) -> PathBuf {
    let mut path = blob.to_owned().into_os_string();
    path.push(".incomplete");
    PathBuf::from(path)
}

/// The file `ETAG.incomplete`, with its length and hash so far.
struct Partial {
    path: PathBuf,
    file: File,
    len: u64,
    hash: Option<Sha256>,
}

impl Partial {
    /// Continues what an earlier call left, if a check will tell whether it is the file's
    /// beginning.
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
        // without a size and a hash, nothing tells whether the two parts belong together
        if metadata.size.is_none() && !metadata.is_sha256 {
            partial.restart()?;
        }
        Ok(partial)
    }

    fn read_existing(&mut self) -> io::Result<()> {
        let len = self.file.metadata()?.len();
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

    /// Syncs before renaming, so that a crash leaves no blob that lacks its end.
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
