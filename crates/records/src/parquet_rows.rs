//! Rows of Parquet tables.
//!
//! Columns of raw bytes, such as images, are left out: they are no texts.

use std::fs::File;
use std::io::{BufReader, Cursor, Read};
use std::sync::Arc;

use beamgen_files::caught;
use bytes::Bytes;
use parquet::basic::{Compression, ConvertedType, LogicalType, Type as Physical};
use parquet::errors::{ParquetError, Result};
use parquet::file::metadata::{ColumnChunkMetaData, ParquetMetaData, RowGroupMetaData};
use parquet::file::reader::{ChunkReader, FileReader, Length, SerializedFileReader};
use parquet::record::reader::RowIter;
use parquet::schema::types::Type;
use serde_json::Value;

use crate::input::Input;
use crate::{Place, Record, RecordsError, depth, packing};

/// The first bytes of a Parquet file.
pub(crate) const MAGIC: &[u8] = b"PAR1";

/// The bytes after the metadata: their length, and the magic again.
const FOOTER: u64 = 8;

/// The maximum size of a table that is not a file of its own, in bytes: 1 GiB. Such a table is held
/// in memory, because its directory is at its end.
const MAX_HELD_BYTES: u64 = 1 << 30;

/// The number of records that are decoded at a time.
const BATCH: usize = 256;

pub(crate) fn read<E: From<RecordsError>>(
    input: Input<'_>,
    each: &mut dyn FnMut(Place, Record) -> std::result::Result<(), E>,
) -> std::result::Result<(), E> {
    let Input {
        name, file, bytes, ..
    } = input;
    let unreadable = |error| RecordsError::unreadable(name, error);
    let (source, size) = if let Some(file) = file {
        let size = file.metadata().map_err(unreadable)?.len();
        (Source::File(file, size), size)
    } else {
        let held = beamgen_files::read_capped(bytes, MAX_HELD_BYTES).map_err(unreadable)?;
        let size = held.len() as u64;
        (Source::Held(held.into()), size)
    };
    let mut rows = guarded(|| rows(source)).map_err(|reason| damaged(name, &reason))?;
    let mut unpacked = 0;
    for number in 1.. {
        let row = guarded(|| rows.next().transpose());
        let Some(row) = row.map_err(|reason| damaged(name, &format!("row {number}: {reason}")))?
        else {
            break;
        };
        let record = row.to_json_value();
        unpacked += weight(&record);
        packing::check(unpacked, size).map_err(unreadable)?;
        each(Place::Row(number), Record::Json(record))?;
    }
    Ok(())
}

fn damaged(name: &str, reason: &str) -> RecordsError {
    RecordsError::Format {
        source_name: name.to_owned(),
        reason: format!("not a readable Parquet table ({reason}): write it again"),
    }
}

/// Calls `f`; an error or a panic of the library becomes a message of one line.
fn guarded<T>(f: impl FnOnce() -> Result<T>) -> std::result::Result<T, String> {
    let done = caught(f).and_then(|done| done.map_err(|error| error.to_string()));
    done.map_err(|message| message.lines().next().unwrap_or_default().to_owned())
}

/// Opens a table and selects its columns.
fn rows(source: Source) -> Result<RowIter<'static>> {
    check_depth(&source)?;
    let reader = SerializedFileReader::new(source)?;
    check_packing(reader.metadata())?;
    let schema = wanted(reader.metadata())?;
    let rows = RowIter::from_file_into(Box::new(reader));
    Ok(rows.project(Some(schema))?.with_batch_size(BATCH))
}

/// Refuses a schema that would overflow the stack. A file without metadata at its end is left to
/// the library, which names the fault.
fn check_depth(source: &Source) -> Result<()> {
    let Some(end) = source.len().checked_sub(FOOTER) else {
        return Ok(());
    };
    let footer = source.get_bytes(end, FOOTER as usize)?;
    let Some((length, MAGIC)) = footer.split_first_chunk() else {
        return Ok(());
    };
    let length = u32::from_le_bytes(*length);
    let Some(start) = end.checked_sub(u64::from(length)) else {
        return Ok(());
    };
    let metadata = source.get_bytes(start, length as usize)?;
    depth::check(&metadata).map_err(ParquetError::General)
}

/// Refuses pages in a compression that this build does not have.
fn check_packing(metadata: &ParquetMetaData) -> Result<()> {
    let groups = metadata.row_groups().iter();
    let mut packings = groups
        .flat_map(RowGroupMetaData::columns)
        .map(ColumnChunkMetaData::compression);
    let unknown = packings.find(|packing| {
        matches!(
            packing,
            Compression::GZIP(_) | Compression::BROTLI(_) | Compression::LZO
        )
    });
    let Some(unknown) = unknown else {
        return Ok(());
    };
    let name = unknown.to_string();
    let name = name
        .split('(')
        .next()
        .unwrap_or_default()
        .to_ascii_lowercase();
    let reason = format!("its pages are compressed by {name}, use snappy, zstd, lz4 or none");
    Err(ParquetError::General(reason))
}

/// Returns the schema without columns of raw bytes.
fn wanted(metadata: &ParquetMetaData) -> Result<Type> {
    let schema = metadata.file_metadata().schema();
    let fields = schema.get_fields().iter();
    let fields = fields.filter(|field| !has_raw_bytes(field)).map(Arc::clone);
    let fields: Vec<_> = fields.collect();
    if fields.is_empty() {
        let reason = "it has no column of texts or numbers";
        return Err(ParquetError::General(reason.to_owned()));
    }
    Type::group_type_builder(schema.name())
        .with_fields(fields)
        .build()
}

fn has_raw_bytes(field: &Type) -> bool {
    if !field.is_primitive() {
        return field.get_fields().iter().any(|field| has_raw_bytes(field));
    }
    let info = field.get_basic_info();
    let is_text = matches!(
        info.logical_type_ref(),
        Some(LogicalType::String | LogicalType::Enum | LogicalType::Json)
    ) || matches!(
        info.converted_type(),
        ConvertedType::UTF8 | ConvertedType::ENUM | ConvertedType::JSON | ConvertedType::DECIMAL
    );
    let is_bytes = matches!(
        field.get_physical_type(),
        Physical::BYTE_ARRAY | Physical::FIXED_LEN_BYTE_ARRAY
    );
    is_bytes && !is_text
}

/// Returns the number of bytes that a record holds, roughly.
fn weight(value: &Value) -> u64 {
    match value {
        Value::String(text) => text.len() as u64,
        Value::Array(items) => items.iter().map(weight).sum(),
        Value::Object(object) => object.values().map(weight).sum(),
        _ => 8,
    }
}

/// The bytes of a table. Requests beyond its end are refused before any memory is taken: the
/// offsets come from the table itself.
enum Source {
    File(File, u64),
    Held(Bytes),
}

impl Source {
    fn check(&self, start: u64, length: usize) -> Result<()> {
        let end = start.checked_add(length as u64);
        if end.is_some_and(|end| end <= self.len()) {
            Ok(())
        } else {
            let reason = format!("bytes {start} to +{length} are outside the file");
            Err(ParquetError::General(reason))
        }
    }
}

impl Length for Source {
    fn len(&self) -> u64 {
        match self {
            Self::File(_, size) => *size,
            Self::Held(bytes) => bytes.len() as u64,
        }
    }
}

impl ChunkReader for Source {
    type T = Box<dyn Read>;

    fn get_read(&self, start: u64) -> Result<Self::T> {
        self.check(start, 0)?;
        Ok(match self {
            Self::File(file, _) => Box::new(BufReader::new(file.get_read(start)?)),
            Self::Held(bytes) => Box::new(Cursor::new(bytes.slice(start as usize..))),
        })
    }

    fn get_bytes(&self, start: u64, length: usize) -> Result<Bytes> {
        self.check(start, length)?;
        match self {
            Self::File(file, _) => file.get_bytes(start, length),
            Self::Held(bytes) => bytes.get_bytes(start, length),
        }
    }
}
