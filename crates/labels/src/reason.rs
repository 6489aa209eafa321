//! The reason why a record cannot be used.

use std::fmt;

/// The reason why a record was rejected.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reason {
    /// The fault. Equal faults have equal texts, so that they can be counted.
    pub what: String,
    /// The part of the message that differs between records with the same fault.
    pub detail: Option<String>,
}

impl Reason {
    /// Makes a reason without detail.
    #[must_use]
    pub fn new(what: impl Into<String>) -> Self {
        Self {
            what: what.into(),
            detail: None,
        }
    }

    /// Makes a reason with a detail about this record.
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
