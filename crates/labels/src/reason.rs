//! The reasons why records are rejected.

use std::fmt;

/// The reason why a record was rejected, split so that equal faults can be counted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reason {
    /// The fault, with the same text for all records that have this fault.
    pub what: String,
    /// The part of the message that is specific to one record.
    pub detail: Option<String>,
}

impl Reason {
    /// Makes a reason whose message is the same for all records.
    #[must_use]
    pub fn new(what: impl Into<String>) -> Self {
        Self {
            what: what.into(),
            detail: None,
        }
    }

    /// Makes a reason; its message shows `detail` in brackets after `what`.
    #[must_use]
    pub fn with(what: impl Into<String>, detail: impl Into<String>) -> Self {
        Self {
            what: what.into(),
            detail: Some(detail.into()),
        }
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.detail {
            None => f.write_str(&self.what),
            Some(detail) => write!(f, "{} ({detail})", self.what),
        }
    }
}
