//! Errors of reading records.

use std::io;

use crate::{MAX_LINE_BYTES, Place};

/// An error of reading a data file. Each message is a single line that says what to do.
#[derive(Debug, thiserror::Error)]
pub enum RecordsError {
    /// The file or the standard input cannot be opened or read.
    #[error("{source_name}: {}: give a readable file, or `-` for stdin", beamgen_files::reason(.error))]
    Unreadable {
        /// The path, or `<stdin>`.
        source_name: String,
        /// The cause reported by the operating system or by the library that unpacks the file.
        error: io::Error,
    },
    /// The file unpacks to more than is accepted.
    #[error(
        "{source_name}: it unpacks to more than {limit}: unpack it yourself if its contents are wanted"
    )]
    Bomb {
        /// The path, or `<stdin>`.
        source_name: String,
        /// The exceeded limit in words.
        limit: &'static str,
    },
    /// A record is damaged.
    #[error("{}: {fault}", place.within(source_name))]
    Record {
        /// The path, or `<stdin>`.
        source_name: String,
        /// The position of the record.
        place: Place,
        /// The fault, which is the end of the message.
        fault: Fault,
    },
    /// The whole file is damaged, or its format is not supported by this build.
    #[error("{source_name}: {reason}")]
    Format {
        /// The path, or `<stdin>`.
        source_name: String,
        /// The end of the message.
        reason: String,
    },
}

impl RecordsError {
    pub(crate) fn unreadable(source: &str, error: io::Error) -> Self {
        // The error of `Unpacked` comes through readers that know only `io::Error`.
        match error.downcast::<Bomb>() {
            Ok(Bomb(limit)) => Self::Bomb {
                source_name: source.to_owned(),
                limit,
            },
            Err(error) => Self::Unreadable {
                source_name: source.to_owned(),
                error,
            },
        }
    }
}

/// The exceeded limit of an unpacked file, inside an [`io::Error`].
#[derive(Debug, thiserror::Error)]
#[error("it unpacks to more than {0}")]
pub(crate) struct Bomb(pub(crate) &'static str);

/// The reason why a record cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum Fault {
    /// The line exceeds [`MAX_LINE_BYTES`], so the file is probably of another kind.
    #[error("the line is longer than {} MiB: split the file into one record a line", MAX_LINE_BYTES >> 20)]
    LongLine,
    /// The line has bytes that are not valid UTF-8.
    #[error("invalid UTF-8 at byte {at} of the line: save the file as UTF-8")]
    Encoding {
        /// The offset of the first invalid byte in the line, from 0.
        at: usize,
    },
    /// The file is JSON lines, and this line is not JSON.
    #[error("not JSON ({reason}): write one object a line")]
    Json {
        /// The message of the JSON parser.
        reason: String,
    },
    /// The file begins like a packed format that is not read. The string is the whole message.
    #[error("{0}")]
    Packed(String),
    /// A row of a table has more or fewer values than its head has names.
    #[error(
        "{} where the head has {names} names: quote values that hold a separator", counted(*values)
    )]
    Columns {
        /// The number of values in the row.
        values: usize,
        /// The number of names in the head.
        names: usize,
    },
    /// The head of a table has a name twice.
    #[error("column \"{name}\" is there twice: rename one")]
    RepeatedColumn {
        /// The repeated name.
        name: String,
    },
    /// A value of a table is not valid UTF-8.
    #[error("column \"{name}\": invalid UTF-8: save the file as UTF-8")]
    Value {
        /// The name of the column.
        name: String,
    },
}

fn counted(values: usize) -> String {
    match values {
        1 => "1 value".to_owned(),
        values => format!("{values} values"),
    }
}
