//! One file into the cache: resumed, verified, and only then under its name.

use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::thread::sleep;
use std::time::Duration;

use sha2::{Digest, Sha256};
use ureq::http::StatusCode;

use crate::error::{RequestError, RequestTarget};
use crate::http::{Client, Metadata, range_start};
use crate::repo_dir::{RepoDir, lock, make_parent};
use crate::{HubError, Progress};

const BUFFER: usize = 1 << 18;

/// Repeats an attempt that fails with a transient error, at most `retries` times in a row. An
/// attempt that made progress starts the count anew.
pub(crate) fn with_retries<T>(
    retries: u32,
    mut attempt: impl FnMut() -> Result<T, TransferError>,
) -> Result<T, TransferError> {
    let mut failures = 0;
    loop {
        match attempt() {
            Err(TransferError::Request { error, progressed }) if error.is_transient() => {
                failures = if progressed { 0 } else { failures };
                if failures >= retries {
                    return Err(TransferError::Request { error, progressed });
                }
                sleep(Duration::from_millis(200 << failures.min(5)));
                failures += 1;
            }
            other => return other,
        }
    }
}

/// Why an attempt failed: at the hub, or at the disk.
#[derive(Debug)]
pub(crate) enum TransferError {
    Request {
        error: RequestError,
        /// Whether bytes came that the attempt before did not get.
        progressed: bool,
    },
    Disk(HubError),
}

impl TransferError {
    pub fn at(self, target: &RequestTarget) -> HubError {
        match self {
            Self::Request { error, .. } => target.failed(error),
            Self::Disk(error) => error,
        }
    }
}

impl From<RequestError> for TransferError {
    fn from(error: RequestError) -> Self {
        Self::Request {
            error,
            progressed: false,
        }
    }
}

/// Downloads a file into `blobs/ETAG`, unless it is there. What an interrupted call left in
/// `blobs/ETAG.incomplete` is continued.
pub(crate) fn fetch(
    client: &Client,
    repo: &RepoDir,
    url: &str,
    metadata: &Metadata,
    retries: u32,
    target: &RequestTarget,
    progress: &mut dyn FnMut(Progress<'_>),
) -> Result<(), HubError> {
    let file = target.file.as_deref().unwrap_or_default();
    let blob = repo.blob(&metadata.etag);
    let is_there = || {
        fs::metadata(&blob).is_ok_and(|found| {
            found.is_file() && metadata.size.is_none_or(|size| size == found.len())
        })
    };
    if is_there() {
        return Ok(());
    }
    let _lock = lock(&repo.lock(&metadata.etag), &mut || {
        progress(Progress::Waiting { file });
    })?;
    if is_there() {
        return Ok(());
    }
    make_parent(&blob)?;
    let mut partial = Partial::open(&blob, metadata)?;
    let mut restarted = partial.len == 0;
    let outcome = loop {
        let outcome = with_retries(retries, || {
            transfer(client, url, &mut partial, metadata.size, &mut |done| {
                progress(Progress::Bytes {
                    file,
                    done,
                    total: metadata.size,
                });
            })
        })
        .and_then(|()| partial.verify(metadata));
        match outcome {
            // the bytes that an earlier call left may be the wrong ones
            Err(TransferError::Request {
                error: RequestError::WrongHash { .. } | RequestError::WrongSize { .. },
                ..
            }) if !restarted => {
                restarted = true;
                partial.restart()?;
            }
            outcome => break outcome,
        }
    };
    match outcome {
        Ok(()) => partial.finish(&blob),
        Err(stop) => {
            let is_corrupt = matches!(
                stop,
                TransferError::Request {
                    error: RequestError::WrongHash { .. } | RequestError::WrongSize { .. },
                    ..
                }
            );
            if is_corrupt || partial.len == 0 {
                partial.discard()?;
            }
            Err(stop.at(target))
        }
    }
}

/// One request for the bytes that are missing.
fn transfer(
    client: &Client,
    url: &str,
    partial: &mut Partial,
    size: Option<u64>,
    done: &mut dyn FnMut(u64),
) -> Result<(), TransferError> {
    if size == Some(partial.len) {
        return Ok(());
    }
    let mut response = client.get(url, partial.len)?;
    let continues = response.status() == StatusCode::PARTIAL_CONTENT
        && range_start(response.headers()) == Some(partial.len);
    if !continues {
        partial.restart().map_err(TransferError::Disk)?;
        if response.status() != StatusCode::OK {
            response = client.get(url, 0)?;
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
    let interrupted = |partial: &Partial, reason: String| TransferError::Request {
        error: RequestError::Interrupted {
            done: partial.len,
            total: size,
            reason,
        },
        progressed: partial.len > start,
    };
    let mut body = response.into_body().into_reader();
    let mut buffer = vec![0; BUFFER];
    done(start);
    loop {
        match body.read(&mut buffer) {
            Ok(0) => break,
            Ok(read) => {
                partial.write(&buffer[..read])?;
                done(partial.len);
                if let Some(promised) = size
                    && partial.len > promised
                {
                    let sent = partial.len;
                    return Err(RequestError::WrongSize { promised, sent }.into());
                }
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => (),
            Err(error) => {
                let reason = match client.request_error(ureq::Error::from(error)) {
                    RequestError::Timeout(limit) => format!("no bytes for {limit:?}"),
                    RequestError::Unreachable(reason) => reason,
                    error => error.to_string(),
                };
                return Err(interrupted(partial, reason));
            }
        }
    }
    if size.is_some_and(|size| partial.len < size) {
        return Err(interrupted(partial, "the connection was closed".to_owned()));
    }
    Ok(())
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
        let mut path = blob.to_owned().into_os_string();
        path.push(".incomplete");
        let path = PathBuf::from(path);
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
