//! One file into the cache: resumed, verified, and only then under its name.

use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::thread::sleep;
use std::time::Duration;

use sha2::{Digest, Sha256};
use ureq::http::StatusCode;

use crate::error::{Fault, Place};
use crate::http::{Client, Metadata, range_start};
use crate::repo_dir::{RepoDir, lock, make_parent};
use crate::{HubError, Progress};

const BUFFER: usize = 1 << 18;

/// Repeats what may succeed a moment later, `retries` times in a row without success. The attempt says with its error
/// whether it got further than the last one, which starts the count anew.
pub(crate) fn patiently<T>(
    retries: u32,
    mut attempt: impl FnMut() -> Result<T, Stop>,
) -> Result<T, Stop> {
    let mut failures = 0;
    loop {
        match attempt() {
            Err(Stop::Fault { fault, got_further }) if fault.is_passing() => {
                failures = if got_further { 0 } else { failures };
                if failures >= retries {
                    return Err(Stop::Fault { fault, got_further });
                }
                sleep(Duration::from_millis(200 << failures.min(5)));
                failures += 1;
            }
            other => return other,
        }
    }
}

/// Why an attempt ended: at the hub, or at the disk.
#[derive(Debug)]
pub(crate) enum Stop {
    Fault { fault: Fault, got_further: bool },
    Disk(HubError),
}

impl Stop {
    pub fn at(self, place: &Place) -> HubError {
        match self {
            Self::Fault { fault, .. } => place.error(fault),
            Self::Disk(error) => error,
        }
    }
}

impl From<Fault> for Stop {
    fn from(fault: Fault) -> Self {
        Self::Fault {
            fault,
            got_further: false,
        }
    }
}

/// Fetches a file's content into `blobs/ETAG`, unless it is there. What an interrupted call left in
/// `blobs/ETAG.incomplete` is kept and continued.
pub(crate) fn fetch(
    client: &Client,
    repo: &RepoDir,
    url: &str,
    metadata: &Metadata,
    retries: u32,
    place: &Place,
    progress: &mut dyn FnMut(Progress<'_>),
) -> Result<(), HubError> {
    let file = place.file.as_deref().unwrap_or_default();
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
        let outcome = patiently(retries, || {
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
            // the beginning, from an earlier call, may be what is wrong
            Err(Stop::Fault {
                fault: Fault::WrongHash { .. } | Fault::WrongSize { .. },
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
            let of_no_use = matches!(
                stop,
                Stop::Fault {
                    fault: Fault::WrongHash { .. } | Fault::WrongSize { .. },
                    ..
                }
            );
            if of_no_use || partial.len == 0 {
                partial.discard()?;
            }
            Err(stop.at(place))
        }
    }
}

/// One request for what is still lacking.
fn transfer(
    client: &Client,
    url: &str,
    partial: &mut Partial,
    size: Option<u64>,
    done: &mut dyn FnMut(u64),
) -> Result<(), Stop> {
    if size == Some(partial.len) {
        return Ok(());
    }
    let mut response = client.get(url, partial.len)?;
    let continues = response.status() == StatusCode::PARTIAL_CONTENT
        && range_start(response.headers()) == Some(partial.len);
    if !continues {
        partial.restart().map_err(Stop::Disk)?;
        if response.status() != StatusCode::OK {
            response = client.get(url, 0)?;
        }
        if response.status() != StatusCode::OK {
            let what = "a part of the file that was not asked for";
            return Err(Fault::BadReply(what.to_owned()).into());
        }
    }
    let start = partial.len;
    let sent = response.body().content_length();
    if let (Some(promised), Some(rest)) = (size, sent)
        && promised != start.saturating_add(rest)
    {
        let sent = start.saturating_add(rest);
        return Err(Fault::WrongSize { promised, sent }.into());
    }
    let broke_off = |partial: &Partial, reason: String| Stop::Fault {
        fault: Fault::Interrupted {
            done: partial.len,
            total: size,
            reason,
        },
        got_further: partial.len > start,
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
                    return Err(Fault::WrongSize { promised, sent }.into());
                }
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => (),
            Err(error) => {
                let reason = match client.fault(ureq::Error::from(error)) {
                    Fault::Timeout(limit) => format!("no bytes for {limit:?}"),
                    Fault::Unreachable(reason) => reason,
                    fault => fault.to_string(),
                };
                return Err(broke_off(partial, reason));
            }
        }
    }
    if size.is_some_and(|size| partial.len < size) {
        return Err(broke_off(partial, "the connection was closed".to_owned()));
    }
    Ok(())
}

/// `ETAG.incomplete`, its length and its hash so far.
struct Partial {
    path: PathBuf,
    file: File,
    len: u64,
    hash: Option<Sha256>,
}

impl Partial {
    /// Takes up what an earlier call left, if it can be the beginning of the file.
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
        partial.take_up().map_err(HubError::io(&partial.path))?;
        // with neither, nothing would tell whether the parts fit together
        if metadata.size.is_none() && !metadata.is_sha256 {
            partial.restart()?;
        }
        Ok(partial)
    }

    fn take_up(&mut self) -> io::Result<()> {
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

    fn write(&mut self, bytes: &[u8]) -> Result<(), Stop> {
        self.file
            .write_all(bytes)
            .map_err(|error| Stop::Disk(HubError::io(&self.path)(error)))?;
        if let Some(hash) = &mut self.hash {
            hash.update(bytes);
        }
        self.len += bytes.len() as u64;
        Ok(())
    }

    fn verify(&mut self, metadata: &Metadata) -> Result<(), Stop> {
        if let Some(hash) = &mut self.hash {
            let digest = hash.finalize_reset();
            let found: String = digest.iter().map(|byte| format!("{byte:02x}")).collect();
            if found != metadata.etag.to_ascii_lowercase() {
                return Err(Fault::WrongHash { found }.into());
            }
        }
        Ok(())
    }

    /// On the disk first, then under its name: a crash leaves no blob that lacks its end.
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
