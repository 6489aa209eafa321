//! Errors of servers and of single requests.

use std::time::Duration;

use thiserror::Error;

/// An error that makes servers unusable.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum Error {
    /// An address is not a URL of a server.
    #[error("invalid server address {address:?}: {reason}")]
    Address {
        /// The address as given, without user and password.
        address: String,
        /// The reason.
        reason: String,
    },
    /// A key cannot be sent in a header.
    #[error("invalid server key: it is empty, or has characters other than printable ASCII")]
    Key,
    /// A key would be sent unencrypted over a network.
    #[error(
        "{address}: the key would be sent unencrypted: use https, or set plain_http_key = true in a network that you trust"
    )]
    OpenKey {
        /// The address of the server.
        address: String,
    },
    /// The settings have no address for a role.
    #[error("missing address of a {role} server: give at least one")]
    NoServer {
        /// The role of the server, `generator` or `prm`.
        role: &'static str,
    },
    /// Threads or TLS are not available.
    #[error("cannot make requests to servers: {0}")]
    Runtime(String),
    /// The trusted certificates cannot be read.
    #[error(transparent)]
    Certificates(#[from] beamgen_certificates::CertificatesError),
    /// A request to a server failed.
    #[error("{address}: {failure}")]
    Server {
        /// The address of the server.
        address: String,
        /// The failure of the request.
        failure: Failure,
    },
    /// The server's model or behaviour does not suit the request.
    #[error("{address}: {reason}")]
    Unfit {
        /// The address of the server.
        address: String,
        /// The reason, with a remedy.
        reason: String,
    },
    /// The settings of the generator are invalid.
    #[error(transparent)]
    Generator(#[from] beamgen_generator::Error),
    /// The reward model does not match its format.
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

/// The failure of a single request.
#[derive(Debug, Clone, PartialEq, Error)]
#[non_exhaustive]
pub enum Failure {
    /// No connection could be made.
    #[error("cannot be reached: {0}")]
    Unreachable(String),
    /// The first byte of the answer did not come in time.
    #[error("did not answer within {} s", .0.as_secs_f64())]
    Silent(Duration),
    /// The answer began but did not end.
    #[error("broke off in the middle of an answer: {0}")]
    Cut(String),
    /// The server refused the request.
    #[error("answered {status}: {message}")]
    Status {
        /// The HTTP status, not a success.
        status: u16,
        /// The server's message, in one line.
        message: String,
        /// The wait before another attempt, if the server names one.
        retry_after: Option<Duration>,
    },
    /// The answer does not have the form that the route promises.
    #[error("gave an answer that cannot be read: {0}")]
    Answer(String),
    /// The answer is longer than any valid answer to the request.
    #[error("gave an answer of more than {0} bytes, the limit for this request")]
    TooLong(usize),
}

impl Failure {
    /// Hides a key in what the server said: a server may repeat the key that it refuses.
    #[must_use]
    pub(crate) fn without(mut self, key: Option<&str>) -> Self {
        if let (Self::Status { message, .. } | Self::Answer(message), Some(key)) = (&mut self, key)
        {
            *message = message.replace(key, "…");
            // A long message was cut, perhaps within the key.
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

/// The largest number of characters of a server's message in an error.
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
