//! Why a record cannot be used.

use std::fmt;

/// Why a record was rejected.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reason {
    /// The same text for all records with the same fault, so that they can be counted.
    pub what: String,
    /// What is special about this one.
    pub detail: Option<String>,
}

impl Reason {
    /// A fault that needs no more words.
    #[must_use]
    pub fn new(what: impl Into<String>) -> Self {
        Self {
            what: what.into(),
            detail: None,
        }
    }

    /// A fault and what is special about this record.
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
