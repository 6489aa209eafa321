//! Records of data files, one at a time: JSON lines, JSON arrays, tables of separated values (CSV,
//! TSV) and Parquet, each also compressed by gzip, zstd or xz.
//!
//! [`read_file`] detects the format by the contents first, and by the name where the contents leave
//! a choice. Memory does not grow with the number of records: only a JSON array is held whole.
//! Parquet, zstd and xz need the feature `data`; without it such files are refused with advice.

#![forbid(unsafe_code)]
#![deny(missing_docs)]

#[cfg(feature = "data")]
mod depth;
mod error;
mod input;
mod json;
mod packing;
#[cfg(feature = "data")]
mod parquet_rows;
#[cfg(not(feature = "data"))]
#[path = "no_parquet.rs"]
mod parquet_rows;
mod place;
mod separated;
mod source;
mod table;

pub use error::{Fault, RecordsError};
pub use place::Place;
pub use source::{DataSource, read_source};
pub use table::{Row, TABLES, is_table, write_table};

use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, BufRead, BufReader};
use std::path::Path;

use serde_json::Value;

use input::Input;

/// The maximum length of a line, and of a row of separated values, in bytes: 16 MiB.
pub const MAX_LINE_BYTES: usize = 16 << 20;

/// A record of a file.
#[derive(Clone, Debug, PartialEq)]
pub enum Record {
    /// A JSON value. Rows of tables are objects with a key for each column.
    Json(Value),
    /// A line of plain text, trimmed. Only files without any structure have such records.
    Text(String),
}

/// The kinds of records that a caller accepts.
#[derive(Clone, Copy, Debug)]
pub struct Accepted {
    /// Whether lines of plain text are records.
    pub text: bool,
    /// Whether devices and pipes by name are read, such as the output of another program that a
    /// shell names. Otherwise only regular files are.
    pub special_files: bool,
    /// The column names of which the head of a table has at least one, upper and lower case equal.
    /// They matter only for tables whose name does not end in `.csv` or `.tsv`.
    pub columns: &'static [&'static str],
}

impl Accepted {
    /// Only JSON records and rows of tables.
    pub const JSON: Self = Self {
        text: false,
        special_files: false,
        columns: &[],
    };
}

/// Returns the name of an input for messages: the path, or `<stdin>` for `-`.
#[must_use]
pub fn source_name(path: &Path) -> String {
    if path == Path::new("-") {
        "<stdin>".to_owned()
    } else {
        path.display().to_string()
    }
}

/// Calls `each` with every record of a file, in order; `-` is the standard input. The first
/// error of `each` ends the reading.
///
/// # Errors
/// Returns the errors of `each`, and a [`RecordsError`] if the file cannot be read, has a damaged
/// record, or unpacks to more than 100 times its size or 20 GiB.
pub fn read_file<E: From<RecordsError>>(
    path: &Path,
    accepted: Accepted,
    each: &mut dyn FnMut(Place, Record) -> Result<(), E>,
) -> Result<(), E> {
    let name = source_name(path);
    if path == Path::new("-") {
        let input = Input::new(Box::new(io::stdin().lock()), &name);
        return dispatch(input, accepted, each);
    }
    let unreadable = |error| RecordsError::unreadable(&name, error);
    let file = if accepted.special_files {
        File::open(path)
    } else {
        beamgen_files::open_regular_file(path)
    };
    let file = file.map_err(unreadable)?;
    let about = file.metadata().map_err(unreadable)?;
    let input = Input {
        name: &name,
        file_name: path.file_name().map(OsStr::to_os_string),
        size: about.is_file().then_some(about.len()),
        file: if about.is_file() {
            Some(file.try_clone().map_err(unreadable)?)
        } else {
            None
        },
        bytes: Box::new(BufReader::new(file)),
    };
    dispatch(input, accepted, each)
}

/// Reads any input like [`read_file`]; messages call it `source`.
///
/// # Errors
/// Returns the errors of [`read_file`].
pub fn read<E: From<RecordsError>>(
    input: impl BufRead,
    source: &str,
    accepted: Accepted,
    each: &mut dyn FnMut(Place, Record) -> Result<(), E>,
) -> Result<(), E> {
    dispatch(Input::new(Box::new(input), source), accepted, each)
}

/// Detects the format and hands the input to its reader.
fn dispatch<E: From<RecordsError>>(
    mut input: Input<'_>,
    accepted: Accepted,
    each: &mut dyn FnMut(Place, Record) -> Result<(), E>,
) -> Result<(), E> {
    if let Some(packing) = packing::of(&input.peek()?) {
        input = packing.unpack(input)?;
    }
    let head = input.peek()?;
    if head.starts_with(parquet_rows::MAGIC) {
        return parquet_rows::read(input, each);
    }
    if let Some(advice) = beamgen_files::packed(&head) {
        return Err(input
            .fault(Place::Line(1), Fault::Packed(advice.to_owned()))
            .into());
    }
    lines(input, accepted, each)
}

/// Reads a file of text. The first line that is not blank decides its format.
fn lines<E: From<RecordsError>>(
    mut input: Input<'_>,
    accepted: Accepted,
    each: &mut dyn FnMut(Place, Record) -> Result<(), E>,
) -> Result<(), E> {
    let separator = separated::by_name(input.file_name.as_deref());
    let mut line = Vec::new();
    let mut is_text = None;
    for number in 1.. {
        let read = beamgen_files::read_line(&mut input.bytes, &mut line, MAX_LINE_BYTES);
        if read.map_err(|error| RecordsError::unreadable(input.name, error))? == 0 {
            break;
        }
        let place = Place::Line(number);
        let mut bytes = line.as_slice();
        // A tool that adds a byte order mark may have added it to a file that had one.
        while let (1, Some(rest)) = (number, bytes.strip_prefix(b"\xef\xbb\xbf")) {
            bytes = rest;
        }
        let bom = line.len() - bytes.len();
        // An array may stand on one line of any length, of which this is the beginning.
        if is_text.is_none() && json::begins_array(bytes, accepted.text) {
            return json::array(bytes, input, each);
        }
        if line.len() > MAX_LINE_BYTES {
            return Err(input.fault(place, Fault::LongLine).into());
        }
        let text = std::str::from_utf8(bytes).map_err(|error| {
            let at = bom + error.valid_up_to();
            input.fault(place, Fault::Encoding { at })
        })?;
        let trimmed = text.trim();
        if trimmed.is_empty() {
            continue;
        }
        if is_text.is_none()
            && !trimmed.starts_with('{')
            && let Some(separator) =
                separator.or_else(|| separated::headed(trimmed, accepted.columns))
        {
            return separated::rows(separator, bytes, number, input, each);
        }
        // The first line decides for the whole file.
        let is_text = *is_text.get_or_insert(accepted.text && !trimmed.starts_with('{'));
        if is_text {
            each(place, Record::Text(trimmed.to_owned()))?;
            continue;
        }
        // Files may be joined without a line break, so a line may contain several records.
        for record in serde_json::Deserializer::from_str(trimmed).into_iter::<Value>() {
            let record = record.map_err(|error| {
                let reason = beamgen_files::json_reason(&error);
                input.fault(place, Fault::Json { reason })
            })?;
            each(place, Record::Json(record))?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests;
