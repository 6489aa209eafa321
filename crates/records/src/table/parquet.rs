//! Writing of Parquet tables.

use std::io;
use std::sync::Arc;

use parquet::basic::{Compression, LogicalType, Repetition, Type as Physical};
use parquet::data_type::{BoolType, ByteArray, ByteArrayType, DoubleType, Int64Type};
use parquet::errors::Result;
use parquet::file::properties::WriterProperties;
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::types::Type;
use serde_json::Value;

use super::{Row, text};

/// The type of a column, chosen by its values.
#[derive(Clone, Copy, PartialEq)]
enum Column {
    Bool,
    Int,
    Float,
    Text,
}

impl Column {
    /// Returns the narrowest type that holds all values; nulls fit every type.
    fn of<'a>(values: impl Iterator<Item = &'a Value>) -> Self {
        let mut found = None;
        for value in values {
            let kind = match value {
                Value::Null => continue,
                Value::Bool(_) => Self::Bool,
                Value::Number(number) if number.is_i64() => Self::Int,
                Value::Number(_) => Self::Float,
                _ => Self::Text,
            };
            found = Some(match (found, kind) {
                (None, kind) => kind,
                (Some(one), other) if one == other => one,
                (Some(Self::Int | Self::Float), Self::Int | Self::Float) => Self::Float,
                _ => Self::Text,
            });
        }
        found.unwrap_or(Self::Text)
    }

    fn field(self, name: &str) -> Result<Type> {
        let (physical, logical) = match self {
            Self::Bool => (Physical::BOOLEAN, None),
            Self::Int => (Physical::INT64, None),
            Self::Float => (Physical::DOUBLE, None),
            Self::Text => (Physical::BYTE_ARRAY, Some(LogicalType::String)),
        };
        Type::primitive_type_builder(name, physical)
            .with_repetition(Repetition::OPTIONAL)
            .with_logical_type(logical)
            .build()
    }
}

/// The number of rows in a group, which readers hold at a time.
const GROUP: usize = 10_000;

/// Returns the bytes of a table with these columns, compressed by snappy.
pub(super) fn table(columns: &[&str], rows: &[Row]) -> io::Result<Vec<u8>> {
    write(columns, rows).map_err(io::Error::other)
}

fn write(names: &[&str], rows: &[Row]) -> Result<Vec<u8>> {
    let kinds = names
        .iter()
        .map(|name| Column::of(rows.iter().filter_map(|row| row.get(*name))));
    let columns: Vec<(&str, Column)> = names.iter().copied().zip(kinds).collect();
    let fields = columns
        .iter()
        .map(|(name, kind)| Ok(Arc::new(kind.field(name)?)));
    let schema = Type::group_type_builder("schema")
        .with_fields(fields.collect::<Result<_>>()?)
        .build()?;
    let properties = WriterProperties::builder()
        .set_compression(Compression::SNAPPY)
        .build();
    let mut writer = SerializedFileWriter::new(Vec::new(), Arc::new(schema), Arc::new(properties))?;
    for rows in rows.chunks(GROUP) {
        let mut group = writer.next_row_group()?;
        for (name, kind) in &columns {
            let values: Vec<Option<&Value>> = rows
                .iter()
                .map(|row| row.get(*name).filter(|value| !value.is_null()))
                .collect();
            let levels: Vec<i16> = values
                .iter()
                .map(|value| i16::from(value.is_some()))
                .collect();
            let given = values.into_iter().flatten();
            let Some(mut column) = group.next_column()? else {
                break;
            };
            match kind {
                Column::Bool => {
                    let values: Vec<bool> = given.filter_map(Value::as_bool).collect();
                    column
                        .typed::<BoolType>()
                        .write_batch(&values, Some(&levels), None)?;
                }
                Column::Int => {
                    let values: Vec<i64> = given.filter_map(Value::as_i64).collect();
                    column
                        .typed::<Int64Type>()
                        .write_batch(&values, Some(&levels), None)?;
                }
                Column::Float => {
                    let values: Vec<f64> = given.filter_map(Value::as_f64).collect();
                    column
                        .typed::<DoubleType>()
                        .write_batch(&values, Some(&levels), None)?;
                }
                Column::Text => {
                    let values: Vec<ByteArray> =
                        given.map(|value| text(value).into_bytes().into()).collect();
                    column
                        .typed::<ByteArrayType>()
                        .write_batch(&values, Some(&levels), None)?;
                }
            }
            column.close()?;
        }
        group.close()?;
    }
    writer.into_inner()
}
