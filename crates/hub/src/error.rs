//! Errors. Every message is one line and says what to do.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use beamgen_certificates::{ADVICE, CertificatesError};

/// Why a model is not there.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum HubError {
    /// The name cannot be a model's of a hub.
    #[error(
        "{id:?} is no model of a hub: {reason}; expected ORG/NAME, ORG/NAME@REVISION, ORG/NAME:FILE.gguf, ORG/NAME:Q4_K_M or the address of a model's page"
    )]
    BadModelId {
        /// What was given.
        id: String,
        /// What is wrong with it.
        reason: NameError,
    },
    /// A setting cannot be used.
    #[error("{setting}: {reason}")]
    BadSetting {
        /// The environment variable that sets it.
        setting: &'static str,
        /// What is wrong with it, and what would do.
        reason: String,
    },
    /// A request to the hub failed.
    #[error("{target}: {error}{}", page(target, error))]
    Request {
        /// What was asked for.
        target: Box<RequestTarget>,
        /// Why it failed.
        error: RequestError,
    },
    /// Offline, and the cache lacks something.
    #[error(
        "{id}: offline, and {missing} not in the cache {}; get it where there is a network: `{command}`, or let the hub be asked (no --offline, no HF_HUB_OFFLINE)",
        cache.display()
    )]
    Offline {
        /// The model.
        id: String,
        /// The files, and "is" or "are".
        missing: String,
        /// The cache.
        cache: PathBuf,
        /// The command of Python's `huggingface_hub` that fills the cache.
        command: String,
    },
    /// The disk has no room for what is missing.
    #[error(
        "{}: the download needs {} more, and {} are free there; make room, or set HF_HOME to a folder on another disk",
        folder.display(), size(*needed), size(*free)
    )]
    NoSpace {
        /// The model's folder in the cache.
        folder: PathBuf,
        /// Bytes that are missing.
        needed: u64,
        /// Bytes that are free.
        free: u64,
    },
    /// The cache cannot be read or written.
    #[error("{}: {}", path.display(), io_reason(source))]
    Io {
        /// The file or folder.
        path: PathBuf,
        /// What the system said.
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

    /// Why the request failed, if it is about a request.
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
            "the disk is full; make room, or set HF_HUB_CACHE to another disk, and run again: the download goes on where it stopped"
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

/// What is wrong with a model's name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum NameError {
    /// Not two parts with a slash between them.
    #[error("it has no form ORG/NAME")]
    Form,
    /// The organisation or the repository's name breaks the hub's rules.
    #[error("its {part} {text:?} {reason}")]
    Part {
        /// `organisation` or `name`.
        part: &'static str,
        /// It.
        text: String,
        /// The rule.
        reason: &'static str,
    },
    /// The revision or the file could not be a path below the cache.
    #[error("the {part} {text:?} has {reason}")]
    Path {
        /// `revision` or `file`.
        part: &'static str,
        /// It.
        text: String,
        /// Why not.
        reason: PathError,
    },
    /// The file is no GGUF file.
    #[error("the file {0:?} does not end in .gguf")]
    NotGguf(String),
    /// An address on the hub that is not a model's.
    #[error(
        "the address is not that of a model's page, with /tree/REVISION or /blob/REVISION/FILE at most"
    )]
    Page,
    /// An address that is not the hub's.
    #[error("the address is not one of {0}; set HF_ENDPOINT to ask another hub")]
    OtherHub(String),
}

/// Why a path of slash-separated parts might leave the folder it is joined to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PathError {
    /// A character that revisions cannot have.
    #[error("a character outside A-Z a-z 0-9 . _ - + = /")]
    Character,
    /// A control character or a backslash.
    #[error("a control character or a backslash")]
    Control,
    /// A colon.
    #[error("a colon")]
    Colon,
    /// Nothing between two slashes, or before the first or after the last.
    #[error("an empty part")]
    EmptyPart,
    /// `.` or `..`.
    #[error("a part . or ..")]
    Dots,
}

/// What a request asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct RequestTarget {
    /// `ORG/NAME`.
    pub repo: String,
    /// The revision that was asked for.
    pub revision: String,
    /// The file, if the request was for one.
    pub file: Option<String>,
    /// The hub.
    pub endpoint: String,
}

impl RequestTarget {
    pub(crate) fn of(&self, file: &str) -> Self {
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

/// Why a request to a hub failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RequestError {
    /// 401 or 403 for a model whose licence has to be accepted.
    #[error("access refused ({status}), the model is gated: accept its licence on its page, {}", token_advice(*.has_token))]
    Gated {
        /// The status.
        status: u16,
        /// Whether a token was sent.
        has_token: bool,
    },
    /// 401 or 403.
    #[error("access refused ({status}): the repository is private or does not exist; check the name, {}", token_advice(*.has_token))]
    Refused {
        /// The status.
        status: u16,
        /// Whether a token was sent.
        has_token: bool,
    },
    /// A server that the hub sends to for the bytes of a file refuses: its signed address has
    /// expired, or it takes no requests from this network.
    #[error(
        "the hub's storage server {host} refused ({status}), each time with a new signature; run again later or from another network, or set HF_ENDPOINT to a mirror"
    )]
    StorageRefused {
        /// The server.
        host: String,
        /// The status.
        status: u16,
    },
    /// 429: the hub limits requests, and the wait was too long.
    #[error("the hub has had too many requests (429{}); {}", wait_text(*.wait), limit_advice(*.has_token))]
    TooMany {
        /// How long the hub asks to wait, if it says.
        wait: Option<Duration>,
        /// Whether a token was sent.
        has_token: bool,
    },
    /// 404 for the repository.
    #[error("no such repository (404); check the name")]
    NoRepository,
    /// 404 for the revision.
    #[error("no such revision (404); give a branch, a tag or a commit of the repository")]
    NoRevision,
    /// 404 for the file, or the repository does not list it.
    #[error("the repository has no such file; check the name, or take another revision")]
    NoFile,
    /// The repository has an adapter of another model.
    #[error(
        "the repository has an adapter (LoRA) of the model that its adapter_config.json names; adapters are not applied: merge it into that model first (merge_and_unload of Python's peft, then save_pretrained) and name the new folder"
    )]
    Adapter,
    /// The repository has its tokenizer in a file that is not read.
    #[error(
        "the repository has no tokenizer.json, and its {0} is not read; convert it once with Python's transformers (AutoTokenizer.from_pretrained(NAME).save_pretrained(FOLDER)), put it beside the other files in a folder and name that"
    )]
    OtherTokenizer(&'static str),
    /// Any other status.
    #[error("the hub answered {0}; try again later")]
    Status(u16),
    /// No bytes within the time limit.
    #[error("no answer within {0:?}; check the connection and run again")]
    Timeout(Duration),
    /// No connection: name resolution, refusal, TLS.
    #[error("cannot be reached ({0}); check the connection, HF_ENDPOINT and the proxy settings")]
    Unreachable(String),
    /// A certificate that is not trusted.
    #[error("the certificate of {host} is not trusted ({reason}); {}", ADVICE)]
    Certificate {
        /// The server.
        host: String,
        /// The fault.
        reason: String,
    },
    /// The certificates that are to be trusted cannot be read.
    #[error(transparent)]
    Certificates(#[from] CertificatesError),
    /// The connection ended in the middle of a file.
    #[error("the download broke off at {done} of {} bytes ({reason}); run again, it goes on from there", total_text(*.total))]
    Interrupted {
        /// Bytes that are kept.
        done: u64,
        /// Bytes of the file, if the hub said.
        total: Option<u64>,
        /// What happened.
        reason: String,
    },
    /// A file of another length than promised; nothing of it is kept.
    #[error("the hub promised {promised} bytes but sends {sent}; nothing was kept, run again")]
    WrongSize {
        /// Bytes of the file as the hub lists it.
        promised: u64,
        /// Bytes of the answer.
        sent: u64,
    },
    /// A file of another content than promised; nothing of it is kept.
    #[error("the file arrived damaged (its SHA-256 is {found}); nothing was kept, run again")]
    WrongHash {
        /// The digest of what came, in hexadecimal.
        found: String,
    },
    /// An answer that does not follow the hub's protocol.
    #[error("the answer is none of a hub: {0}; check HF_ENDPOINT")]
    BadReply(String),
    /// A file of another commit than the one that was listed, twice.
    #[error(
        "the hub lists the commit {listed} and gives files of {found}; run again when nobody changes the repository, or name a commit"
    )]
    OtherCommit {
        /// The commit of the listing.
        listed: String,
        /// The commit of the file.
        found: String,
    },
    /// No GGUF file has the quantisation, or several have it.
    #[error("{}", quantisation_text(.quantisation, .matching, .gguf))]
    Quantisation {
        /// The quantisation that was asked for.
        quantisation: String,
        /// The files that have it.
        matching: Vec<String>,
        /// All GGUF files of the repository.
        gguf: Vec<String>,
    },
    /// The repository has no weights that can be read.
    #[error("the repository has no safetensors and no PyTorch weights{}", gguf_text(.gguf))]
    NoWeights {
        /// GGUF files that it has.
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

    /// Whether a revision from the cache may be used instead: the hub cannot be reached, or refuses
    /// access.
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

/// Where a licence is accepted.
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
        "set HF_TOKEN, or log in with `hf auth login`: without a token all of a network share one limit; or run again later"
    }
}

fn quantisation_text(quantisation: &str, matching: &[String], gguf: &[String]) -> String {
    match (matching, gguf) {
        ([], []) => format!("the repository has no GGUF file, so none of {quantisation}"),
        ([], gguf) => format!(
            "no GGUF file is of {quantisation}; there are {}",
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
