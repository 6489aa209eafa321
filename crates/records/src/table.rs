//! Writing of tables: CSV, TSV and Parquet, chosen by the ending of the file's name.

use std::collections::HashSet;
use std::io;
use std::path::Path;

use serde_json::{Map, Value};

#[cfg(feature = "data")]
mod parquet;

#[cfg(not(feature = "data"))]
mod parquet {
    use std::io::{Error, ErrorKind};

    pub(super) fn table(_columns: &[&str], _rows: &[super::Row]) -> std::io::Result<Vec<u8>> {
        let reason =
            "this build writes no Parquet: end the name in .csv, or build with `--features data`";
        Err(Error::new(ErrorKind::Unsupported, reason))
    }
}

/// A row: a value for each column that it has.
pub type Row = Map<String, Value>;

/// The endings of tables that can be written, for messages.
pub const TABLES: &str = ".csv, .tsv or .parquet";

/// Whether a file's name ends as a table's.
#[must_use]
pub fn is_table(path: &Path) -> bool {
    let extension = path.extension().unwrap_or_default();
    let mut known = ["csv", "tsv", "parquet"].iter();
    known.any(|known| extension.eq_ignore_ascii_case(known))
}

/// Writes a table, whole or not at all. The columns are the keys of all rows, in the order in which
/// they first occur. A list or an object is written as its JSON text.
///
/// # Errors
/// Returns the error of the system, or [`io::ErrorKind::Unsupported`] for an ending other than
/// [`TABLES`] and for Parquet in builds without the feature `data`.
pub fn write_table(path: &Path, rows: &[Row]) -> io::Result<()> {
    let extension = path.extension().unwrap_or_default().to_ascii_lowercase();
    let bytes = match extension.to_str() {
        Some("csv") => separated(b',', rows)?,
        Some("tsv") => separated(b'\t', rows)?,
        Some("parquet") => parquet::table(&columns(rows), rows)?,
        _ => {
            let reason = format!("end the name in {TABLES}");
            return Err(io::Error::new(io::ErrorKind::Unsupported, reason));
        }
    };
    beamgen_files::write(path, bytes)
}

fn columns(rows: &[Row]) -> Vec<&str> {
    let mut known = HashSet::new();
    let keys = rows.iter().flat_map(Map::keys).map(String::as_str);
    keys.filter(|key| known.insert(*key)).collect()
}

fn separated(separator: u8, rows: &[Row]) -> io::Result<Vec<u8>> {
    let mut writer = csv::WriterBuilder::new()
        .delimiter(separator)
        .from_writer(Vec::new());
    let columns = columns(rows);
    writer.write_record(&columns)?;
    for row in rows {
        writer.write_record(
            columns
                .iter()
                .map(|name| row.get(*name).map(text).unwrap_or_default()),
        )?;
    }
    writer.into_inner().map_err(csv::IntoInnerError::into_error)
}

/// Returns a value as the text of a cell; null is empty.
fn text(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}
