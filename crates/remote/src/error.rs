//! What can go wrong with servers.

use std::time::Duration;

use thiserror::Error;

/// Servers that cannot be used.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum Error {
    /// An address that is none.
    #[error("{address:?} is no address of a server: {reason}")]
    Address {
        /// As it was given, without name and password.
        address: String,
        /// Why not.
        reason: String,
    },
    /// A key that cannot be sent.
    #[error("the key of a server is empty, or has characters that no key has")]
    Key,
    /// A key that others could read.
    #[error(
        "{address}: the key would be sent unencrypted: use https, or set plain_http_key = true in a network that you trust"
    )]
    OpenKey {
        /// Of the server.
        address: String,
    },
    /// No address was given.
    #[error("no address of a {role} server was given")]
    NoServer {
        /// `generator` or `prm`.
        role: &'static str,
    },
    /// Threads or TLS cannot be had.
    #[error("requests to servers cannot be made: {0}")]
    Runtime(String),
    /// The certificates that are to be trusted cannot be read.
    #[error(transparent)]
    Certificates(#[from] beamgen_certificates::CertificatesError),
    /// A server did not answer as it has to.
    #[error("{address}: {failure}")]
    Server {
        /// Of the server.
        address: String,
        /// What it did.
        failure: Failure,
    },
    /// What the server is, or does, does not fit.
    #[error("{address}: {reason}")]
    Unfit {
        /// Of the server.
        address: String,
        /// What is wrong and what helps.
        reason: String,
    },
    /// The settings of the generator cannot be followed.
    #[error(transparent)]
    Generator(#[from] beamgen_generator::Error),
    /// The reward model cannot be read as its spec says.
    #[error(transparent)]
    Prm(#[from] beamgen_prm::Error),
    /// The tokenizer cannot be used.
    #[error(transparent)]
    Engine(#[from] beamgen_engine::Error),
}

impl Error {
    pub(crate) fn unfit(address: impl ToString, reason: impl Into<String>) -> Self {
        Self::Unfit {
            address: address.to_string(),
            reason: reason.into(),
        }
    }

    pub(crate) fn server(address: impl ToString, failure: Failure) -> Self {
        Self::Server {
            address: address.to_string(),
            failure,
        }
    }
}

/// What became of a request that brought no answer.
#[derive(Debug, Clone, PartialEq, Error)]
#[non_exhaustive]
pub enum Failure {
    /// No connection.
    #[error("cannot be reached: {0}")]
    Unreachable(String),
    /// The first byte of the answer did not come.
    #[error("did not answer within {} s", .0.as_secs_f64())]
    Silent(Duration),
    /// The answer began and did not come to its end.
    #[error("broke off in the middle of an answer: {0}")]
    Cut(String),
    /// An answer that refuses.
    #[error("answered {status}: {message}")]
    Status {
        /// Of HTTP.
        status: u16,
        /// What it says, in one line.
        message: String,
        /// When to come back.
        retry_after: Option<Duration>,
    },
    /// An answer that is not what the route gives.
    #[error("gave an answer that cannot be read: {0}")]
    Answer(String),
    /// An answer that is longer than any to what was asked for.
    #[error("gave an answer of more than {0} bytes, and no answer to the request is so long")]
    TooLong(usize),
}

/// Characters of what a server says that are repeated in an error.
const MOST_SAID: usize = 300;

pub(crate) fn one_line(text: &str) -> String {
    let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
    match text.char_indices().nth(MOST_SAID) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text,
    }
}
