//! Errors of the hub and its cache. Every message is one line and ends with what to do.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use beamgen_certificates::{ADVICE, CertificatesError};

/// The reason why a model could not be fetched.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum HubError {
    /// The text is not a model's name or the address of its page.
    #[error(
        "invalid model name {id:?}: {reason}; use ORG/NAME, ORG/NAME@REVISION, ORG/NAME:FILE.gguf, ORG/NAME:Q4_K_M or the address of a model's page"
    )]
    BadModelId {
        /// The text as it was given.
        id: String,
        /// The broken rule.
        reason: NameError,
    },
    /// An environment variable or a field of [`HubConfig`](crate::HubConfig) has a bad value.
    #[error("{setting}: {reason}")]
    BadSetting {
        /// The name of the environment variable, also where the field was set by code.
        setting: &'static str,
        /// The fault and an example of a good value.
        reason: String,
    },
    /// A request failed, after all retries.
    #[error("{target}: {error}{}", page(target, error))]
    Request {
        /// The repository, file and hub of the request.
        target: Box<RequestTarget>,
        /// The fault of the last attempt.
        error: RequestError,
    },
    /// Requests are forbidden ([`HubConfig::offline`](crate::HubConfig)) and the cache lacks files.
    #[error(
        "{id}: offline, and {missing} not in the cache {}: run `{command}` where there is a network, or allow requests (no --offline, no HF_HUB_OFFLINE)",
        cache.display()
    )]
    Offline {
        /// The model as `ORG/NAME@REVISION`, with `:FILE` or `:QUANTISATION` if given.
        id: String,
        /// The missing files and the verb: `model.safetensors is`.
        missing: String,
        /// The folder that was searched.
        cache: PathBuf,
        /// The command of Python's `huggingface_hub` that downloads the files.
        command: String,
    },
    /// The disk has too little room for the missing files. Found before anything is downloaded.
    #[error(
        "{}: the download needs {} and only {} are free: make room, or set HF_HOME to a folder on another disk",
        folder.display(), size(*needed), size(*free)
    )]
    NoSpace {
        /// The model's folder in the cache.
        folder: PathBuf,
        /// Bytes still to download.
        needed: u64,
        /// Bytes that this user may still write on that disk.
        free: u64,
    },
    /// The cache cannot be read or written.
    #[error("{}: {}", path.display(), io_reason(source))]
    Io {
        /// The file or folder that the operation was about.
        path: PathBuf,
        /// The error of the operating system.
        source: io::Error,
    },
}

impl HubError {
    pub(crate) fn io(path: &Path) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::Io {
            path: path.to_owned(),
            source,
        }
    }

    /// Returns the fault of a request; `None` for errors of names, settings and the disk.
    #[must_use]
    pub fn request_error(&self) -> Option<&RequestError> {
        match self {
            Self::Request { error, .. } => Some(error),
            _ => None,
        }
    }
}

fn io_reason(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
            "the disk is full; make room, or set HF_HUB_CACHE to another disk, and run again: the download resumes where it stopped"
                .to_owned()
        }
        _ => error.to_string(),
    }
}

fn size(bytes: u64) -> String {
    match bytes {
        0..10_000_000 => format!("{bytes} bytes"),
        _ => format!("{:.2} GB", bytes as f64 / 1e9),
    }
}

/// The rule that a model's name breaks.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum NameError {
    /// The text does not have exactly two parts with a slash between them.
    #[error("not of the form ORG/NAME")]
    Form,
    /// The organisation or the repository's name breaks the hub's rules.
    #[error("the {part} {text:?} {reason}")]
    Part {
        /// `organisation` or `name`.
        part: &'static str,
        /// The faulty half of the name.
        text: String,
        /// The broken rule as a predicate: `is empty`.
        reason: &'static str,
    },
    /// Joined to the cache's folder, the revision or the file might lead out of it.
    #[error("the {part} {text:?} has {reason}")]
    Path {
        /// `revision` or `file`.
        part: &'static str,
        /// The revision or the file as given.
        text: String,
        /// The part of the path that is not allowed.
        reason: PathError,
    },
    /// The name of the file does not end in `.gguf`; only GGUF files are fetched singly.
    #[error("the file {0:?} does not end in .gguf")]
    NotGguf(String),
    /// The address is on the hub, but not a model's page.
    #[error(
        "not the address of a model's page (ORG/NAME, optionally with /tree/REVISION or /blob/REVISION/FILE)"
    )]
    Page,
    /// The address is on another host than the hub (the field).
    #[error("the address is not on {0}; set HF_ENDPOINT to use another hub")]
    OtherHub(String),
}

/// The reason why a path of slash-separated parts might leave the folder that it is joined to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PathError {
    /// A character that no name of a branch, tag or commit may have.
    #[error("a character outside A-Z a-z 0-9 . _ - + = /")]
    Character,
    /// A control character, or a backslash, which separates folders on Windows.
    #[error("a control character or a backslash")]
    Control,
    /// A colon, which names a drive or a stream on Windows.
    #[error("a colon")]
    Colon,
    /// Two slashes in a row, or a slash at the beginning or the end.
    #[error("an empty part")]
    EmptyPart,
    /// A part that is `.` or `..`.
    #[error("a part . or ..")]
    Dots,
}

/// The object of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct RequestTarget {
    /// `ORG/NAME`.
    pub repo: String,
    /// The branch, tag or commit as given, before the hub resolved it.
    pub revision: String,
    /// The file's name in the repository; `None` for a request about the whole repository.
    pub file: Option<String>,
    /// The hub's address, without a slash at its end.
    pub endpoint: String,
}

impl RequestTarget {
    pub(crate) fn with_file(&self, file: &str) -> Self {
        Self {
            file: Some(file.to_owned()),
            ..self.clone()
        }
    }

    pub(crate) fn failed(&self, error: RequestError) -> HubError {
        HubError::Request {
            target: Box::new(self.clone()),
            error,
        }
    }
}

impl fmt::Display for RequestTarget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}@{}", self.repo, self.revision)?;
        if let Some(file) = &self.file {
            write!(f, ", {file},")?;
        }
        write!(f, " from {}", self.endpoint)
    }
}

/// The reason why a request to a hub failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RequestError {
    /// Status 401 or 403 for a model whose licence has to be accepted.
    #[error("access refused ({status}), the model is gated: accept its licence on its page, {}", token_advice(*.has_token))]
    Gated {
        /// The HTTP status, 401 or 403.
        status: u16,
        /// Whether a token was sent.
        has_token: bool,
    },
    /// Status 401 or 403 for a repository that is private or does not exist: hubs hide which.
    #[error("access refused ({status}): the repository is private or does not exist; check the name, {}", token_advice(*.has_token))]
    Refused {
        /// The HTTP status, 401 or 403.
        status: u16,
        /// Whether a token was sent.
        has_token: bool,
    },
    /// The storage server that the hub redirects to refuses the bytes of a file: the signed address
    /// has expired, or requests from this network are blocked.
    #[error(
        "the hub's storage server {host} refused ({status}), each time with a new signature; run again later or from another network, or set HF_ENDPOINT to a mirror"
    )]
    StorageRefused {
        /// The host name of the storage server.
        host: String,
        /// The HTTP status, 400 to 499.
        status: u16,
    },
    /// Status 429: the hub limits requests, and asks to wait longer than this program does.
    #[error("the hub limits requests (429{}): {}", wait_text(*.wait), limit_advice(*.has_token))]
    TooMany {
        /// The time that the hub asks to wait; `None` if the answer does not state it.
        wait: Option<Duration>,
        /// Whether a token was sent.
        has_token: bool,
    },
    /// Status 404 for the repository.
    #[error("no such repository (404); check the name")]
    NoRepository,
    /// Status 404 for the revision.
    #[error("no such revision (404); give a branch, a tag or a commit of the repository")]
    NoRevision,
    /// Status 404 for the file, or the listing of the repository lacks it.
    #[error("the repository has no such file; check the name, or take another revision")]
    NoFile,
    /// The repository has only a LoRA adapter of another model.
    #[error(
        "the repository has an adapter (LoRA) of the model that its adapter_config.json names, and adapters are not supported: merge it into that model first (merge_and_unload of Python's peft, then save_pretrained) and name the new folder"
    )]
    Adapter,
    /// The repository has no `tokenizer.json`, but a file (the field) of an unsupported format.
    #[error(
        "the repository has no tokenizer.json, and {0} is not supported: convert it once with Python's transformers (AutoTokenizer.from_pretrained(NAME).save_pretrained(FOLDER)), put tokenizer.json next to the other files in a folder and name that folder"
    )]
    OtherTokenizer(&'static str),
    /// Any other HTTP status than 200, 206 and 416.
    #[error("the hub answered {0}; try again later")]
    Status(u16),
    /// No bytes arrived within the time limit (the field).
    #[error("no answer within {0:?}; check the connection and run again")]
    Timeout(Duration),
    /// No connection: name resolution, refusal or TLS failed.
    #[error("cannot be reached ({0}); check the connection, HF_ENDPOINT and the proxy settings")]
    Unreachable(String),
    /// The server's certificate is not signed by an authority that is trusted here.
    #[error("the certificate of {host} is not trusted ({reason}); {}", ADVICE)]
    Certificate {
        /// The server's host name.
        host: String,
        /// The fault that the TLS library found.
        reason: String,
    },
    /// A file of certificates that the user named cannot be read.
    #[error(transparent)]
    Certificates(#[from] CertificatesError),
    /// The connection ended in the middle of a file; the bytes so far are kept.
    #[error("the download broke off at {done} of {} bytes ({reason}); run again to resume it", total_text(*.total))]
    Interrupted {
        /// Bytes that the cache has now.
        done: u64,
        /// Bytes of the whole file; `None` if the hub does not state it.
        total: Option<u64>,
        /// The fault of the connection.
        reason: String,
    },
    /// The file has another length than the hub lists; the bytes are thrown away.
    #[error("the hub promised {promised} bytes but sends {sent}; nothing was kept, run again")]
    WrongSize {
        /// Bytes of the file in the hub's metadata.
        promised: u64,
        /// Bytes of the file as sent; where more than promised come, those read until then.
        sent: u64,
    },
    /// The SHA-256 of the file differs from the hub's; the bytes are thrown away.
    #[error("the file arrived damaged (its SHA-256 is {found}); nothing was kept, run again")]
    WrongHash {
        /// The digest of the bytes that came, 64 hexadecimal digits.
        found: String,
    },
    /// The answer does not follow the hub's protocol; the field says where.
    #[error("not a response of a Hugging Face hub ({0}): check HF_ENDPOINT")]
    BadReply(String),
    /// A file came from another commit than the listing, also after a second listing.
    #[error(
        "the hub lists the commit {listed} and sends files of {found}: run again when nobody changes the repository, or name a commit"
    )]
    OtherCommit {
        /// The commit that the revision meant, 40 hexadecimal digits.
        listed: String,
        /// The commit that the answer for the file names.
        found: String,
    },
    /// No GGUF file has the quantisation, or several have it.
    #[error("{}", quantisation_text(.quantisation, .matching, .gguf))]
    Quantisation {
        /// The quantisation as given, such as `Q4_K_M`.
        quantisation: String,
        /// The names of the files that match: none, or more than one.
        matching: Vec<String>,
        /// All GGUF files of the repository.
        gguf: Vec<String>,
    },
    /// The repository has weights in no supported format.
    #[error("the repository has no safetensors and no PyTorch weights{}", gguf_text(.gguf))]
    NoWeights {
        /// The names of the GGUF files in the repository, each of which could be fetched by name.
        gguf: Vec<String>,
    },
}

impl RequestError {
    /// Whether the same request may succeed later.
    pub(crate) fn is_transient(&self) -> bool {
        match self {
            Self::Timeout(_)
            | Self::Unreachable(_)
            | Self::Interrupted { .. }
            | Self::StorageRefused { .. }
            | Self::TooMany { .. } => true,
            Self::Status(status) => *status == 408 || *status >= 500,
            _ => false,
        }
    }

    /// Whether the commit that the cache has may be used instead: the hub cannot be reached, or
    /// refuses access. A hub that answers "does not exist" is believed.
    pub(crate) fn allows_cached_copy(&self) -> bool {
        let closed = matches!(
            self,
            Self::Gated { .. }
                | Self::Refused { .. }
                | Self::Certificate { .. }
                | Self::Certificates(_)
        );
        closed || self.is_transient()
    }
}

fn page(target: &RequestTarget, error: &RequestError) -> String {
    match error {
        RequestError::Gated { .. } => format!("; its page: {}/{}", target.endpoint, target.repo),
        _ => String::new(),
    }
}

fn token_advice(has_token: bool) -> &'static str {
    if has_token {
        "and give HF_TOKEN a token of an account with access"
    } else {
        "and set HF_TOKEN, or log in with `hf auth login`"
    }
}

fn wait_text(wait: Option<Duration>) -> String {
    wait.map_or(String::new(), |wait| {
        format!(", which asks to wait {} s", wait.as_secs())
    })
}

fn limit_advice(has_token: bool) -> &'static str {
    if has_token {
        "run again later"
    } else {
        "set HF_TOKEN or log in with `hf auth login` (without a token, everybody on a network shares one limit), or run again later"
    }
}

fn quantisation_text(quantisation: &str, matching: &[String], gguf: &[String]) -> String {
    match (matching, gguf) {
        ([], []) => format!("no GGUF file is of {quantisation}: the repository has no GGUF files"),
        ([], gguf) => format!(
            "no GGUF file is of {quantisation}: take one of {}",
            gguf.join(", ")
        ),
        (matching, _) => format!(
            "several GGUF files are of {quantisation}: {}; name one as ORG/NAME:FILE.gguf",
            matching.join(", ")
        ),
    }
}

fn total_text(total: Option<u64>) -> String {
    total.map_or("unknown".to_owned(), |total| total.to_string())
}

fn gguf_text(gguf: &[String]) -> String {
    match gguf {
        [] => String::new(),
        [one] => format!("; name its GGUF file as ORG/NAME:{one}"),
        [first, ..] => format!(
            "; name one of its {} GGUF files as ORG/NAME:{first}",
            gguf.len()
        ),
    }
}
