//! A data file by its name for messages: one file, or the parts of a data set.

use std::path::{Path, PathBuf};

use crate::{Accepted, Place, Record, RecordsError, read_file, source_name};

/// A file, or several files that are read one after the other as one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DataSource {
    /// The name for messages: the path, `<stdin>`, or a data set's name.
    pub name: String,
    /// The files, in order; at least one. `-` is the standard input.
    pub parts: Vec<PathBuf>,
}

impl<P: AsRef<Path>> From<P> for DataSource {
    fn from(path: P) -> Self {
        Self {
            name: source_name(path.as_ref()),
            parts: vec![path.as_ref().to_owned()],
        }
    }
}

impl From<&DataSource> for DataSource {
    fn from(source: &DataSource) -> Self {
        source.clone()
    }
}

/// Reads all parts of a source like [`read_file`]. With several parts, a record's place is its
/// [row](Place::Row) among all records.
///
/// # Errors
/// Returns the errors of [`read_file`].
pub fn read_source<E: From<RecordsError>>(
    source: &DataSource,
    accepted: Accepted,
    each: &mut dyn FnMut(Place, Record) -> Result<(), E>,
) -> Result<(), E> {
    let mut row = 0;
    for part in &source.parts {
        read_file(part, accepted, &mut |place, record| {
            row += 1;
            let is_only = source.parts.len() == 1;
            each(if is_only { place } else { Place::Row(row) }, record)
        })?;
    }
    Ok(())
}
