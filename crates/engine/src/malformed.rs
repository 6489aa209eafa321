//! What is wrong with a file that is read.

/// Why the contents of a file are refused, in one line; the file is named by whoever opened it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub(crate) struct Malformed(pub(crate) String);

impl From<String> for Malformed {
    fn from(reason: String) -> Self {
        Self(reason)
    }
}

impl From<&str> for Malformed {
    fn from(reason: &str) -> Self {
        Self(reason.to_owned())
    }
}
