//! Files of JSON lines.

use std::io::{self, Write};
use std::path::Path;

use serde::Serialize;

use crate::failure::Failure;
use crate::output;
use crate::write::Output;

/// An output of JSON lines: a file, or stdout if the field is `None`.
pub(super) struct Lines(Option<Output>);

impl Lines {
    /// Opens the output, so that a file that cannot be written fails now; `-` is stdout.
    pub(super) fn open(path: &Path) -> Result<Self, Failure> {
        if path == Path::new("-") {
            Ok(Self(None))
        } else {
            Ok(Self(Some(Output::open(path)?)))
        }
    }

    pub(super) fn write(
        self,
        mut records: impl Iterator<Item = impl Serialize>,
    ) -> Result<(), Failure> {
        let Some(mut output) = self.0 else {
            let mut out = io::stdout().lock();
            records.try_for_each(|record| output::json_line(&mut out, &record))?;
            return Ok(out.flush()?);
        };
        output.lines(records)
    }
}
