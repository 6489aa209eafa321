//! An input whose first bytes can be looked at.

use std::ffi::OsString;
use std::fs::File;
use std::io::{BufRead, Cursor, Read};

use crate::{Fault, Place, RecordsError};

/// The number of bytes that the beginnings of all formats need.
const PEEKED: u64 = 8;

pub(crate) struct Input<'a> {
    /// The name for messages.
    pub name: &'a str,
    /// The file's name without the endings of packings, if there is a file.
    pub file_name: Option<OsString>,
    /// The size of the file in bytes.
    pub size: Option<u64>,
    /// The file itself, as long as `bytes` are its bytes.
    #[cfg_attr(not(feature = "data"), expect(dead_code, reason = "Parquet needs it"))]
    pub file: Option<File>,
    pub bytes: Box<dyn BufRead + 'a>,
}

impl<'a> Input<'a> {
    pub(crate) fn new(bytes: Box<dyn BufRead + 'a>, name: &'a str) -> Self {
        Self {
            name,
            file_name: None,
            size: None,
            file: None,
            bytes,
        }
    }

    /// Returns the first bytes, which stay in the input.
    pub(crate) fn peek(&mut self) -> Result<Vec<u8>, RecordsError> {
        let mut head = Vec::new();
        let mut first = self.bytes.by_ref().take(PEEKED);
        // Not `fill_buf`: a pipe may give a single byte at first.
        let read = first.read_to_end(&mut head);
        read.map_err(|error| RecordsError::unreadable(self.name, error))?;
        let rest = std::mem::replace(&mut self.bytes, Box::new(std::io::empty()));
        self.bytes = Box::new(Cursor::new(head.clone()).chain(rest));
        Ok(head)
    }

    pub(crate) fn fault(&self, place: Place, fault: Fault) -> RecordsError {
        RecordsError::Record {
            source_name: self.name.to_owned(),
            place,
            fault,
        }
    }
}
