//! JSON arrays.

use std::io::{BufRead, Cursor, Read};

use serde::Deserializer;
use serde::de::{Error as _, SeqAccess, Visitor};
use serde_json::Value;

use crate::input::Input;
use crate::{Place, Record, RecordsError};

/// The maximum length of a JSON array in bytes: 1 GiB, which is held in memory.
const MAX_ARRAY_BYTES: u64 = 1 << 30;

/// Whether a file that begins with `first` is one JSON array. If the file `may_be_text`, a
/// problem may begin with an interval such as `[5, 3)`.
pub(crate) fn begins_array(first: &[u8], may_be_text: bool) -> bool {
    match first.trim_ascii_start() {
        [b'[', rest @ ..] => {
            let next = rest.trim_ascii_start().first();
            !may_be_text || matches!(next, None | Some(b'{' | b'"' | b']'))
        }
        _ => false,
    }
}

/// Reads an array whose first line `begin` was taken from `input`.
pub(crate) fn array<E: From<RecordsError>>(
    begin: &[u8],
    input: Input<'_>,
    each: &mut dyn FnMut(Place, Record) -> Result<(), E>,
) -> Result<(), E> {
    let whole = Cursor::new(begin).chain(input.bytes);
    let bytes = read_capped(whole).map_err(|error| RecordsError::unreadable(input.name, error))?;
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
        (None, Err(error)) => Err(E::from(RecordsError::Format {
            source_name: input.name.to_owned(),
            reason: format!("not a JSON array ({error}): mend it, or write one object a line"),
        })),
    }
}

fn read_capped(whole: impl BufRead) -> std::io::Result<Vec<u8>> {
    beamgen_files::read_capped(whole, MAX_ARRAY_BYTES)
}

/// Passes each item of an array on after parsing it, so that memory never holds all parsed items.
struct Items<'a, E> {
    each: &'a mut dyn FnMut(Place, Record) -> Result<(), E>,
    stopped: &'a mut Option<E>,
}

impl<'de, E> Visitor<'de> for Items<'_, E> {
    type Value = ();

    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("a list of objects")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<(), A::Error> {
        let mut number = 0;
        while let Some(item) = items.next_element::<Value>()? {
            number += 1;
            if let Err(error) = (self.each)(Place::Item(number), Record::Json(item)) {
                *self.stopped = Some(error);
                // A serde error can hold only text, so the typed error is kept in `stopped`.
                return Err(A::Error::custom("stopped"));
            }
        }
        Ok(())
    }
}
