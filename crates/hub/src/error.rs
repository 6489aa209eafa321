//! The errors of fetching a model or a data set. Every message is one line and ends with advice.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use beamgen_certificates::{ADVICE, CertificatesError};

/// An error of fetching a model or reading the cache.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum HubError {
    /// The text is neither a model's name nor the address of its page.
    #[error(
        "invalid model name {id:?}: {reason}; use ORG/NAME, ORG/NAME@REVISION, ORG/NAME:FILE.gguf, ORG/NAME:Q4_K_M or the address of a model's page"
    )]
    BadModelId {
        /// The rejected text.
        id: String,
        /// The rule that the text breaks.
        reason: NameError,
    },
    /// The text is neither a data set's name nor the address of its page.
    #[error(
        "invalid name of a data set {id:?}: {reason}; use ORG/NAME, ORG/NAME@REVISION or the address of its page"
    )]
    BadDataSetId {
        /// The rejected text.
        id: String,
        /// The rule that the text breaks.
        reason: NameError,
    },
    /// The data set has no such subset or split, or several to choose from.
    #[error("{id}: {reason}")]
    DataSet {
        /// The data set as `ORG/NAME` or `ORG/NAME@REVISION`.
        id: String,
        /// The fault and the names to choose from.
        reason: String,
    },
    /// An environment variable, or a field of [`HubConfig`](crate::HubConfig), has an invalid
    /// value.
    #[error("{setting}: {reason}")]
    BadSetting {
        /// The environment variable; its name is also used for a field that a program has set.
        setting: &'static str,
        /// The fault and an example of a valid value.
        reason: String,
    },
    /// A request failed, and all retries failed as well.
    #[error("{target}: {error}{}", page(target, error))]
    Request {
        /// The repository, file and hub of the failed request.
        target: Box<RequestTarget>,
        /// The fault of the last attempt.
        error: RequestError,
    },
    /// The cache lacks files, and [`HubConfig::offline`](crate::HubConfig::offline) forbids
    /// requests.
    #[error(
        "{id}: offline, and {missing} not in the cache {}: run `{command}` where there is a network, or allow requests (no --offline, no HF_HUB_OFFLINE)",
        cache.display()
    )]
    Offline {
        /// The model as `ORG/NAME@REVISION`, with `:FILE` or `:QUANTISATION` if one was given.
        id: String,
        /// The missing files with a verb, e.g. `model.safetensors is`.
        missing: String,
        /// The folder in which the model was searched.
        cache: PathBuf,
        /// The command by which Python's `huggingface_hub` downloads the files.
        command: String,
    },
    /// The disk is too small for the missing files; this is checked before the download.
    #[error(
        "{}: the download needs {} and only {} are free: make room, or set HF_HOME to a folder on another disk",
        folder.display(), size(*needed), size(*free)
    )]
    NoSpace {
        /// The model's folder in the cache.
        folder: PathBuf,
        /// The number of bytes to download.
        needed: u64,
        /// The number of bytes that the user may still write to the disk.
        free: u64,
    },
    /// The cache cannot be read or written.
    #[error("{}: {}", path.display(), io_reason(source))]
    Io {
        /// The file or folder that could not be read or written.
        path: PathBuf,
        /// The cause reported by the operating system.
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

    /// Returns the fault of a failed request; `None` for other errors.
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

/// A rule for models' names that a text breaks.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum NameError {
    /// The text is not two parts with one slash between them.
    #[error("not of the form ORG/NAME")]
    Form,
    /// The organisation or the repository's name breaks the hub's rules.
    #[error("the {part} {text:?} {reason}")]
    Part {
        /// `organisation` or `name`.
        part: &'static str,
        /// The organisation or name that breaks the rule.
        text: String,
        /// The broken rule as a predicate, e.g. `is empty`.
        reason: &'static str,
    },
    /// The revision or file could lead out of the cache folder.
    #[error("the {part} {text:?} has {reason}")]
    Path {
        /// `revision` or `file`.
        part: &'static str,
        /// The rejected revision or file.
        text: String,
        /// The element that is not allowed in a path.
        reason: PathError,
    },
    /// The file does not end in `.gguf`; single files of other formats cannot be fetched.
    #[error("the file {0:?} does not end in .gguf")]
    NotGguf(String),
    /// The address is on the hub but is not the page of a model.
    #[error(
        "not the address of a model's page (ORG/NAME, optionally with /tree/REVISION or /blob/REVISION/FILE)"
    )]
    Page,
    /// The address is not on the configured hub, whose address the field has.
    #[error("the address is not on {0}; set HF_ENDPOINT to use another hub")]
    OtherHub(String),
}

/// An element of a relative path that could lead out of the folder above.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PathError {
    /// A character that a revision cannot have.
    #[error("a character outside A-Z a-z 0-9 . _ - + = /")]
    Character,
    /// A control character or a backslash, which Windows uses between folders.
    #[error("a control character or a backslash")]
    Control,
    /// A colon, which Windows uses after drives and before streams.
    #[error("a colon")]
    Colon,
    /// An empty part: two slashes in a row, or a slash at an end.
    #[error("an empty part")]
    EmptyPart,
    /// A part `.` or `..`, which means this or the parent folder.
    #[error("a part . or ..")]
    Dots,
}

/// The thing that was requested, for messages.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct RequestTarget {
    /// `ORG/NAME`.
    pub repo: String,
    /// The branch, tag or commit as the user gave it.
    pub revision: String,
    /// The file in the repository; `None` if the request was about the whole repository.
    pub file: Option<String>,
    /// The address of the hub, without a slash at the end.
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

/// The fault of a request to a hub.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RequestError {
    /// The model's licence must be accepted first (status 401 or 403).
    #[error("access refused ({status}), the model is gated: accept its licence on its page, {}", token_advice(*.has_token))]
    Gated {
        /// The HTTP status: 401 or 403.
        status: u16,
        /// Whether a token was sent.
        has_token: bool,
    },
    /// The repository is private or does not exist (status 401 or 403). Hubs do not reveal which.
    #[error("access refused ({status}): the repository is private or does not exist; check the name, {}", token_advice(*.has_token))]
    Refused {
        /// The HTTP status: 401 or 403.
        status: u16,
        /// Whether a token was sent.
        has_token: bool,
    },
    /// The storage server to which the hub redirects does not send the file. The signed address may
    /// have expired, or this network is blocked.
    #[error(
        "the hub's storage server {host} refused ({status}), each time with a new signature; run again later or from another network, or set HF_ENDPOINT to a mirror"
    )]
    StorageRefused {
        /// The host name of the storage server.
        host: String,
        /// The HTTP status: 400 to 499.
        status: u16,
    },
    /// The hub limits requests (status 429) and demands a longer wait than this program accepts.
    #[error("the hub limits requests (429{}): {}", wait_text(*.wait), limit_advice(*.has_token))]
    TooMany {
        /// The demanded wait; `None` if the answer does not contain it.
        wait: Option<Duration>,
        /// Whether a token was sent.
        has_token: bool,
    },
    /// The repository does not exist (status 404).
    #[error("no such repository (404); check the name")]
    NoRepository,
    /// The revision does not exist (status 404).
    #[error("no such revision (404); give a branch, a tag or a commit of the repository")]
    NoRevision,
    /// The file does not exist: status 404, or the listing of the repository does not have it.
    #[error("the repository has no such file; check the name, or take another revision")]
    NoFile,
    /// The repository has no `tokenizer.json`, only a tokenizer in the unsupported file of the
    /// field.
    #[error(
        "the repository has no tokenizer.json, and {0} is not supported: convert it once with Python's transformers (AutoTokenizer.from_pretrained(NAME).save_pretrained(FOLDER)), put tokenizer.json next to the other files in a folder and name that folder"
    )]
    OtherTokenizer(&'static str),
    /// The HTTP status, if no other variant covers it.
    #[error("the hub answered {0}; try again later")]
    Status(u16),
    /// No bytes arrived for the time in the field.
    #[error("no answer within {0:?}; check the connection and run again")]
    Timeout(Duration),
    /// The connection failed, e.g. name resolution or TLS; the field has the reason.
    #[error("cannot be reached ({0}); check the connection, HF_ENDPOINT and the proxy settings")]
    Unreachable(String),
    /// No trusted authority has signed the server's certificate.
    #[error("the certificate of {host} is not trusted ({reason}); {}", ADVICE)]
    Certificate {
        /// The host name of the server.
        host: String,
        /// The fault as the TLS library reports it.
        reason: String,
    },
    /// A file of certificates that the settings name cannot be read.
    #[error(transparent)]
    Certificates(#[from] CertificatesError),
    /// The connection broke during a download. The bytes so far stay in the cache.
    #[error("the download broke off at {done} of {} bytes ({reason}); run again to resume it", total_text(*.total))]
    Interrupted {
        /// The number of bytes in the cache.
        done: u64,
        /// The number of bytes in the file; `None` if the hub does not say.
        total: Option<u64>,
        /// The cause of the broken connection.
        reason: String,
    },
    /// The length of the file differs from the hub's metadata. The bytes are deleted.
    #[error("the hub promised {promised} bytes but sends {sent}; nothing was kept, run again")]
    WrongSize {
        /// The length according to the hub's metadata.
        promised: u64,
        /// The length that was sent; for longer files the number of bytes read so far.
        sent: u64,
    },
    /// The SHA-256 of the file differs from the hub's metadata. The bytes are deleted.
    #[error("the file arrived damaged (its SHA-256 is {found}); nothing was kept, run again")]
    WrongHash {
        /// The SHA-256 of the received bytes: 64 hexadecimal digits.
        found: String,
    },
    /// The answer is not one of a Hugging Face hub; the field describes the fault.
    #[error("not a response of a Hugging Face hub ({0}): check HF_ENDPOINT")]
    BadReply(String),
    /// Files came from another commit than the listing, even after the listing was repeated.
    #[error(
        "the hub lists the commit {listed} and sends files of {found}: run again when nobody changes the repository, or name a commit"
    )]
    OtherCommit {
        /// The commit in the listing: 40 hexadecimal digits.
        listed: String,
        /// The commit in the answer for the file.
        found: String,
    },
    /// No GGUF file has the quantisation, or several have it.
    #[error("{}", quantisation_text(.quantisation, .matching, .gguf))]
    Quantisation {
        /// The requested quantisation, e.g. `Q4_K_M`.
        quantisation: String,
        /// The GGUF files with this quantisation: none, or at least two.
        matching: Vec<String>,
        /// All GGUF files of the repository.
        gguf: Vec<String>,
    },
    /// The repository has no weights in a supported format.
    #[error("the repository has no safetensors and no PyTorch weights{}", gguf_text(.gguf))]
    NoWeights {
        /// All GGUF files of the repository; each can be fetched by its name.
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

    /// Whether the cached commit may be used instead: the hub is unreachable or refuses access. If
    /// the hub answers that something does not exist, the cache is not used.
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
