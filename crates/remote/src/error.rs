//! Errors of servers, and failures of single requests.

use std::time::Duration;

use thiserror::Error;

/// An error because of which servers cannot be used.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum Error {
    /// The text is not the URL of a server.
    #[error("invalid server address {address:?}: {reason}")]
    Address {
        /// The address as it was given, without user and password.
        address: String,
        /// The fault, with the expected form.
        reason: String,
    },
    /// The key cannot be sent in a header.
    #[error("invalid server key: it is empty, or has characters other than printable ASCII")]
    Key,
    /// The key would be sent unencrypted over a network.
    #[error(
        "{address}: the key would be sent unencrypted: use https, or set plain_http_key = true in a network that you trust"
    )]
    OpenKey {
        /// The address to which the key would be sent.
        address: String,
    },
    /// The settings contain no address of a server.
    #[error("missing address of a {role} server: give at least one")]
    NoServer {
        /// The role of the missing server: `generator` or `prm`.
        role: &'static str,
    },
    /// The system has no threads or sockets left, or TLS cannot be set up.
    #[error("cannot make requests to servers: {0}")]
    Runtime(String),
    /// A file of trusted certificates cannot be read.
    #[error(transparent)]
    Certificates(#[from] beamgen_certificates::CertificatesError),
    /// A request to a server failed before the first problem.
    #[error("{address}: {failure}")]
    Server {
        /// The address of the server.
        address: String,
        /// The failure of the request, with the server's message if there is one.
        failure: Failure,
    },
    /// The server works, but its model or its behaviour cannot be used.
    #[error("{address}: {reason}")]
    Unfit {
        /// The address of the server.
        address: String,
        /// The reason, with advice if there is any.
        reason: String,
    },
    /// A setting of the generator is invalid.
    #[error(transparent)]
    Generator(#[from] beamgen_generator::Error),
    /// The reward model's format cannot be used with its tokenizer.
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

/// The failure of a single attempt at a request.
#[derive(Debug, Clone, PartialEq, Error)]
#[non_exhaustive]
pub enum Failure {
    /// No connection to the server could be made.
    #[error("cannot be reached: {0}")]
    Unreachable(String),
    /// The first byte of the answer did not arrive in time.
    #[error("did not answer within {} s", .0.as_secs_f64())]
    Silent(Duration),
    /// The answer began, but the connection broke or the rest did not arrive in time.
    #[error("broke off in the middle of an answer: {0}")]
    Cut(String),
    /// The server answered with an HTTP error.
    #[error("answered {status}: {message}")]
    Status {
        /// The HTTP status, which is not a success.
        status: u16,
        /// The server's message, in one line and possibly cut.
        message: String,
        /// The time to wait before another attempt, if the server gives one.
        retry_after: Option<Duration>,
    },
    /// The answer cannot be read: it is not JSON, or a field is missing or invalid.
    #[error("gave an answer that cannot be read: {0}")]
    Answer(String),
    /// The answer is longer than any valid answer to the request could be.
    #[error("gave an answer of more than {0} bytes, the limit for this request")]
    TooLong(usize),
}

impl Failure {
    /// Hides the key in the server's message: a server may repeat the key that it refuses.
    #[must_use]
    pub(crate) fn without(mut self, key: Option<&str>) -> Self {
        if let (Self::Status { message, .. } | Self::Answer(message), Some(key)) = (&mut self, key)
        {
            *message = message.replace(key, "…");
            // A long message was cut, perhaps inside the key: the part of the key at its end is
            // hidden, too.
            if let Some(text) = message.strip_suffix('…')
                && let Some(part) = (4..key.len())
                    .rev()
                    .find(|&len| text.ends_with(&key[..len]))
            {
                *message = format!("{}…", &text[..text.len() - part]);
            }
        }
        self
    }
}

/// The most characters of a server's message that are shown.
const MOST_SAID: usize = 300;

pub(crate) fn one_line(text: &str) -> String {
    let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
    match text.char_indices().nth(MOST_SAID) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_that_a_server_repeats_is_hidden() {
        let message = |text: &str| {
            let failure = Failure::Answer(one_line(text)).without(Some("sk-0123456789"));
            failure.to_string()
        };
        let whole = message("the key sk-0123456789 is unknown, sk-0123456789!");
        assert!(whole.ends_with("the key … is unknown, …!"), "{whole}");
        let cut = message(&format!("{} sk-0123456789", "x".repeat(MOST_SAID - 8)));
        assert!(cut.ends_with("xx …"), "{cut}");
        assert!(message("no key…").ends_with("no key…"));
    }
}
