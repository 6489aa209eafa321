//! What a download tells while it goes.

/// Progress of a download.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Progress<'a> {
    /// Bytes of a file are in the cache. Reported at the beginning, too: a resumed file has some.
    Bytes {
        /// The file.
        file: &'a str,
        /// Bytes so far; fewer than before if the file has to be begun anew.
        done: u64,
        /// Bytes of the file, if the hub says.
        total: Option<u64>,
    },
    /// Another process is downloading the file.
    Waiting {
        /// The file.
        file: &'a str,
    },
}
