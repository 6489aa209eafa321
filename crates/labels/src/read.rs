//! Reading of records from JSON lines or one JSON array, with bounded memory.

use std::io::{self, BufRead, BufReader, Read};
use std::path::Path;

use beamgen_files::json_reason;
use serde::Deserializer;
use serde::de::{Error as _, SeqAccess, Visitor};
use serde_json::Value;

use crate::{LabelsError, Place};

/// The maximum length of a line in bytes: 16 MiB.
pub(crate) const MAX_LINE_BYTES: usize = 16 << 20;

/// The maximum length of a JSON array in bytes: 256 MiB.
pub(crate) const MAX_ARRAY_BYTES: u64 = 256 << 20;

/// Returns the name for messages: the path, or `<stdin>` for `-`.
pub(crate) fn source(path: &Path) -> String {
    if path == Path::new("-") {
        "<stdin>".to_owned()
    } else {
        path.display().to_string()
    }
}

/// Calls `each` with every record of a file, in order. The first error of `each` ends the reading.
pub(crate) fn file(
    path: &Path,
    each: &mut dyn FnMut(Place, Value) -> Result<(), LabelsError>,
) -> Result<(), LabelsError> {
    let name = source(path);
    if path == Path::new("-") {
        return records(io::stdin().lock(), &name, each);
    }
    let file = beamgen_files::open_regular_file(path).map_err(unreadable(&name))?;
    records(BufReader::new(file), &name, each)
}

fn unreadable(source: &str) -> impl Fn(io::Error) -> LabelsError {
    move |error| LabelsError::Unreadable {
        source_name: source.to_owned(),
        error,
    }
}

/// Reads any input like [`file()`]; messages call the input `source`.
pub(crate) fn records(
    mut input: impl BufRead,
    source: &str,
    each: &mut dyn FnMut(Place, Value) -> Result<(), LabelsError>,
) -> Result<(), LabelsError> {
    let mut line = Vec::new();
    let mut number = 0;
    loop {
        let read = beamgen_files::read_line(&mut input, &mut line, MAX_LINE_BYTES);
        let read = read.map_err(unreadable(source))?;
        if read == 0 {
            return Ok(());
        }
        number += 1;
        if number == 1
            && let Some(packed) = beamgen_files::packed(&line)
        {
            let error = io::Error::new(io::ErrorKind::InvalidData, packed);
            return Err(unreadable(source)(error));
        }
        let mut bytes = line.as_slice();
        // Byte order marks are skipped. A file joined from several may begin with more than one.
        while let (1, Some(rest)) = (number, bytes.strip_prefix(b"\xef\xbb\xbf")) {
            bytes = rest;
        }
        let bytes = bytes.trim_ascii();
        if bytes.is_empty() {
            continue;
        }
        // A record is an object, so a bracket at the beginning means that the whole file is one
        // array.
        if number == 1 && bytes.starts_with(b"[") {
            // The array may continue on later lines, so the first line is put back in front of the
            // input.
            let rest = io::Cursor::new(bytes.to_vec()).chain(&mut input);
            return array(rest, source, each);
        }
        let fault = |reason: String| LabelsError::Line {
            source_name: source.to_owned(),
            line: number,
            reason,
        };
        if read > MAX_LINE_BYTES {
            let reason = format!("longer than {} MiB", MAX_LINE_BYTES >> 20);
            return Err(fault(reason));
        }
        // Files may be joined without a line break, so a line may contain several records.
        for record in serde_json::Deserializer::from_slice(bytes).into_iter() {
            let record =
                record.map_err(|error| fault(format!("not JSON ({})", json_reason(&error))))?;
            each(Place::Line(number), record)?;
        }
    }
}

fn array(
    input: impl Read,
    source: &str,
    each: &mut dyn FnMut(Place, Value) -> Result<(), LabelsError>,
) -> Result<(), LabelsError> {
    // The text is held in memory up to the limit; its items are parsed and passed on one by one.
    let bytes = beamgen_files::read_capped(input, MAX_ARRAY_BYTES).map_err(unreadable(source))?;
    let mut stopped = None;
    let items = Items {
        each,
        stopped: &mut stopped,
    };
    let mut json = serde_json::Deserializer::from_slice(&bytes);
    let read = json.deserialize_seq(items).and_then(|()| json.end());
    match (stopped, read) {
        (Some(error), _) => Err(error),
        (None, Ok(())) => Ok(()),
        (None, Err(error)) => Err(LabelsError::Array {
            source_name: source.to_owned(),
            reason: error.to_string(),
        }),
    }
}

/// Passes each item of an array on after parsing it, so that memory never holds all of them.
struct Items<'a> {
    each: &'a mut dyn FnMut(Place, Value) -> Result<(), LabelsError>,
    stopped: &'a mut Option<LabelsError>,
}

impl<'de> Visitor<'de> for Items<'_> {
    type Value = ();

    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("a list of objects")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<(), A::Error> {
        let mut number = 0;
        while let Some(item) = items.next_element::<Value>()? {
            number += 1;
            if let Err(error) = (self.each)(Place::Item(number), item) {
                *self.stopped = Some(error);
                // A serde error can hold only text, so the typed error is kept in `stopped`.
                return Err(A::Error::custom("stopped"));
            }
        }
        Ok(())
    }
}
