//! Tables of separated values, with the names of the columns on the first line.

use std::cell::Cell;
use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::io::{self, Cursor, ErrorKind, Read};
use std::path::Path;
use std::rc::Rc;

use csv::{ByteRecord, ReaderBuilder};
use serde_json::{Map, Value};

use crate::input::Input;
use crate::{Fault, MAX_LINE_BYTES, Place, Record, RecordsError};

/// The separators with the ending of file names, in the order they are tried.
const SEPARATORS: [(&str, u8); 2] = [("tsv", b'\t'), ("csv", b',')];

/// Returns the separator that a file's name promises.
pub(crate) fn by_name(name: Option<&OsStr>) -> Option<u8> {
    let extension = Path::new(name?).extension()?;
    let mut separators = SEPARATORS.iter();
    let found = separators.find(|(end, _)| extension.eq_ignore_ascii_case(end));
    found.map(|&(_, separator)| separator)
}

/// Returns the separator if `line` is the head of a table: several column names, one of them in
/// `columns`. Prose has blanks after commas and does not match.
pub(crate) fn headed(line: &str, columns: &[&str]) -> Option<u8> {
    let mut separators = SEPARATORS.iter().map(|&(_, separator)| separator);
    separators.find(|&separator| {
        let names = line.split(char::from(separator));
        let names: Vec<&str> = names.map(|name| name.trim_matches('"')).collect();
        let is_known = |name: &&str| columns.iter().any(|key| key.eq_ignore_ascii_case(name));
        names.len() > 1 && names.iter().all(|name| is_column(name)) && names.iter().any(is_known)
    })
}

/// Whether a text may be the name of a column.
fn is_column(name: &str) -> bool {
    let mut inner = name.chars();
    name.starts_with(char::is_alphabetic)
        && inner.all(|c| c.is_alphanumeric() || "_-. ".contains(c))
}

/// Reads the rows of a table whose head `begin`, on line `first`, was taken from `input`. A row
/// becomes an object of texts; an empty value becomes null, as in pandas.
pub(crate) fn rows<E: From<RecordsError>>(
    separator: u8,
    begin: &[u8],
    first: usize,
    input: Input<'_>,
    each: &mut dyn FnMut(Place, Record) -> Result<(), E>,
) -> Result<(), E> {
    let Input { name, bytes, .. } = input;
    let since_row = Rc::new(Cell::new(0));
    let limited = Limited {
        inner: Cursor::new(begin).chain(bytes),
        since_row: Rc::clone(&since_row),
    };
    let fault = |place, fault| RecordsError::Record {
        source_name: name.to_owned(),
        place,
        fault,
    };
    // Rows of another length are refused below, with the line.
    let mut reader = ReaderBuilder::new()
        .delimiter(separator)
        .has_headers(false)
        .flexible(true)
        .from_reader(limited);
    let mut row = ByteRecord::new();
    let mut names: Option<Vec<String>> = None;
    loop {
        since_row.set(0);
        let line = reader.position().line();
        match reader.read_byte_record(&mut row) {
            Ok(true) => {}
            Ok(false) => return Ok(()),
            Err(error) => {
                let at = Place::Line(first - 1 + line as usize);
                return Err(match error.into_kind() {
                    csv::ErrorKind::Io(error) if error.kind() == ErrorKind::FileTooLarge => {
                        fault(at, Fault::LongLine)
                    }
                    csv::ErrorKind::Io(error) => RecordsError::unreadable(name, error),
                    other => RecordsError::Format {
                        source_name: name.to_owned(),
                        reason: format!("not a table of separated values ({other:?})"),
                    },
                }
                .into());
            }
        }
        let line = row.position().map_or(line, csv::Position::line);
        let place = Place::Line(first - 1 + line as usize);
        let Some(names) = &names else {
            names = Some(head(&row).map_err(|found| fault(place, found))?);
            continue;
        };
        if row.len() != names.len() {
            let (values, names) = (row.len(), names.len());
            return Err(fault(place, Fault::Columns { values, names }).into());
        }
        let mut object = Map::new();
        for (name, value) in names.iter().zip(&row) {
            let value = text(name, value).map_err(|found| fault(place, found))?;
            let value = match value {
                "" => Value::Null,
                text => Value::from(text),
            };
            object.insert(name.clone(), value);
        }
        each(place, Record::Json(Value::Object(object)))?;
    }
}

/// Returns the names of the columns. A name that is empty, as that of an index of pandas, stays.
fn head(row: &ByteRecord) -> Result<Vec<String>, Fault> {
    let mut known = BTreeSet::new();
    let names = row.iter().map(|name| {
        let name = text("", name)?.trim().to_owned();
        if known.insert(name.clone()) {
            Ok(name)
        } else {
            Err(Fault::RepeatedColumn { name })
        }
    });
    names.collect()
}

fn text<'a>(name: &str, value: &'a [u8]) -> Result<&'a str, Fault> {
    std::str::from_utf8(value).map_err(|_| Fault::Value {
        name: name.to_owned(),
    })
}

/// A reader that gives at most [`MAX_LINE_BYTES`] a row: a quote that is never closed would hold
/// the rest of the file in memory.
struct Limited<R> {
    inner: R,
    since_row: Rc<Cell<usize>>,
}

impl<R: Read> Read for Limited<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.since_row.get() > MAX_LINE_BYTES {
            return Err(ErrorKind::FileTooLarge.into());
        }
        let read = self.inner.read(buffer)?;
        self.since_row.set(self.since_row.get() + read);
        Ok(read)
    }
}
