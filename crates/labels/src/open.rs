//! Reading of labelled chains from a file in any known format.

use std::collections::HashMap;
use std::io::BufRead;

use beamgen_eval::cut_response;
use beamgen_records::{Accepted, DataSource, Record, read_source};
use serde_json::Value;

use crate::event::Event;
use crate::{Format, LabelledChain, LabelsError, Place, Reason};

/// The number of records after which the search for a known format gives up.
const LOOKED_AT: usize = 16;

/// The contents of a file of labelled chains.
#[derive(Clone, Debug)]
pub struct Labelled {
    /// The path or `<stdin>`, for messages.
    pub source: String,
    /// The format that was named or detected.
    pub format: &'static Format,
    /// The chains in the order of the file; at least one.
    pub chains: Vec<LabelledChain>,
    /// The position of each chain, parallel to `chains`. Chains of the same record have equal
    /// positions.
    pub places: Vec<Place>,
    /// The number of all records, including rejected ones and ratings.
    pub records: usize,
    /// The records that could not be used, each with the reason.
    pub rejected: Vec<Rejected>,
}

impl Labelled {
    /// Returns a message that counts the rejected records and gives the reason for the first one;
    /// `None` if no record was rejected.
    #[must_use]
    pub fn left_out(&self) -> Option<String> {
        let first = self.rejected.first()?;
        Some(format!(
            "{}: {} of {} records are left out, the first of them {}: {}",
            self.source,
            self.rejected.len(),
            self.records,
            first.place,
            first.reason
        ))
    }
}

/// A record that could not be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rejected {
    /// The position of the record.
    pub place: Place,
    /// The reason why the record could not be used.
    pub reason: Reason,
}

/// Reads a regular file: JSON lines, one JSON array or a table. `-` is the standard input. Without `format`,
/// the first records decide. Records that cannot be used go to [`Labelled::rejected`].
///
/// # Errors
/// Returns a message of one line if the file cannot be read, is not JSON, has an unknown format, or
/// has no usable record.
pub fn open(
    source: impl Into<DataSource>,
    format: Option<&'static Format>,
) -> Result<Labelled, LabelsError> {
    let source = source.into();
    let mut reader = Reader::new(source.name.clone(), format, true);
    each(&source, &mut |place, record| reader.take(place, record))?;
    reader.done()
}

/// Reads a file like [`open`], for uses that need no labels. Records with a problem and steps are
/// accepted, and also records with a problem and a `response`, which `cut` splits into steps.
///
/// # Errors
/// Returns an error if the file cannot be read, is not JSON, or has a record that cannot be used.
pub fn open_unlabelled(
    source: impl Into<DataSource>,
    cut: &dyn Fn(&str) -> Vec<String>,
) -> Result<Labelled, LabelsError> {
    let source = source.into();
    let mut reader = Reader::new(source.name.clone(), None, false);
    each(&source, &mut |place, mut record| {
        cut_response(&mut record, cut);
        reader.take(place, record)
    })?;
    reader.done()
}

/// Reads a file like [`open`], and like [`open_unlabelled`] if that finds no labelled chains.
/// Recorded facts are kept.
///
/// # Errors
/// Returns an error if neither [`open`] nor [`open_unlabelled`] can read the file.
pub fn open_any(
    source: impl Into<DataSource>,
    cut: &dyn Fn(&str) -> Vec<String>,
) -> Result<Labelled, LabelsError> {
    let source = source.into();
    match open(&source, None) {
        Err(LabelsError::Unknown { .. } | LabelsError::NoneUsable { .. }) => {
            open_unlabelled(source, cut)
        }
        read => read,
    }
}

/// Reads any input like [`open`]; messages call the input `source`.
///
/// # Errors
/// Returns an error if the input cannot be read, is not JSON, has an unknown format, or has no
/// usable record.
pub fn parse(
    input: impl BufRead,
    source: &str,
    format: Option<&'static Format>,
) -> Result<Labelled, LabelsError> {
    let mut reader = Reader::new(source.to_owned(), format, true);
    let accepted = Accepted::JSON;
    beamgen_records::read(input, source, accepted, &mut |place, record| {
        reader.take(place, json(record))
    })?;
    reader.done()
}

/// Calls `each` with every record of a file, in order.
pub(crate) fn each(
    source: &DataSource,
    each: &mut dyn FnMut(Place, Value) -> Result<(), LabelsError>,
) -> Result<(), LabelsError> {
    read_source(source, Accepted::JSON, &mut |place, record| {
        each(place, json(record))
    })
}

/// Returns the JSON of a record: plain text is not [accepted](Accepted::JSON).
pub(crate) fn json(record: Record) -> Value {
    match record {
        Record::Json(value) => value,
        Record::Text(text) => Value::String(text),
    }
}

/// The state while a file is read.
struct Reader {
    source: String,
    format: Option<&'static Format>,
    /// Whether labels are needed. If not, a single unusable record is an error.
    is_labelled: bool,
    /// The records read before the format was known.
    waiting: Vec<(Place, Value)>,
    chains: Vec<LabelledChain>,
    places: Vec<Place>,
    records: usize,
    rejected: Vec<Rejected>,
    /// The index of the first chain with each key. The map is extended only before an [`Event`] is
    /// applied.
    keys: HashMap<String, usize>,
    /// The number of chains, from the first, that `keys` covers.
    keyed: usize,
}

impl Reader {
    fn new(source: String, format: Option<&'static Format>, is_labelled: bool) -> Self {
        Self {
            source,
            format,
            is_labelled,
            waiting: Vec::new(),
            chains: Vec::new(),
            places: Vec::new(),
            records: 0,
            rejected: Vec::new(),
            keys: HashMap::new(),
            keyed: 0,
        }
    }

    fn take(&mut self, place: Place, record: Value) -> Result<(), LabelsError> {
        if self.format.is_none() {
            self.format = if self.is_labelled {
                Format::of(&record)
            } else {
                Some(Format::unlabelled(&record))
            };
        }
        self.waiting.push((place, record));
        let Some(format) = self.format else {
            return if self.waiting.len() < LOOKED_AT {
                Ok(())
            } else {
                Err(self.unknown())
            };
        };
        // In other formats the fields of an event may mean something else.
        let may_be_rated = std::ptr::eq(format, Format::own()) || !self.is_labelled;
        for (place, record) in std::mem::take(&mut self.waiting) {
            self.records += 1;
            let event = Event::of(&record).filter(|_| may_be_rated);
            let taken = match event {
                Some(event) => event.and_then(|event| {
                    self.key_chains();
                    event.apply(&mut self.chains, &self.keys)
                }),
                None => format.import(&record).map(|chains| {
                    self.places.extend(chains.iter().map(|_| place));
                    self.chains.extend(chains);
                }),
            };
            if let Err(reason) = taken {
                self.rejected.push(Rejected { place, reason });
            }
        }
        Ok(())
    }

    /// Extends `keys` to all chains read so far. Of equal chains the first is kept.
    fn key_chains(&mut self) {
        for (chain, at) in self.chains[self.keyed..].iter().zip(self.keyed..) {
            self.keys.entry(chain.key()).or_insert(at);
        }
        self.keyed = self.chains.len();
    }

    /// Drops repeated chains in a file with ratings. Repeats arise if two people start the file at
    /// the same time.
    fn drop_repeats(&mut self) {
        self.key_chains();
        let mut first = Vec::with_capacity(self.chains.len());
        for (at, chain) in self.chains.iter().enumerate() {
            first.push(self.keys[&chain.key()] == at);
        }
        let mut is_kept = first.iter();
        self.chains.retain(|_| is_kept.next() == Some(&true));
        let mut is_kept = first.iter();
        self.places.retain(|_| is_kept.next() == Some(&true));
    }

    fn done(mut self) -> Result<Labelled, LabelsError> {
        // `keyed` is above 0 only if the file has ratings; in other files repeated chains may be
        // intended.
        if self.keyed > 0 {
            self.drop_repeats();
        }
        if !self.waiting.is_empty() {
            return Err(self.unknown());
        }
        let Some(format) = self.format.filter(|_| self.records > 0) else {
            return Err(LabelsError::Empty {
                source_name: self.source,
            });
        };
        match self.rejected.first() {
            Some(first) if self.chains.is_empty() || !self.is_labelled => {
                Err(LabelsError::NoneUsable {
                    place: first.place,
                    reason: first.reason.clone(),
                    others: if self.chains.is_empty() {
                        self.rejected.len() - 1
                    } else {
                        0
                    },
                    source_name: self.source,
                })
            }
            _ => Ok(Labelled {
                source: self.source,
                format,
                chains: self.chains,
                places: self.places,
                records: self.records,
                rejected: self.rejected,
            }),
        }
    }

    fn unknown(&self) -> LabelsError {
        let (place, record) = &self.waiting[0];
        let fields = record.as_object().map(|record| {
            let names: Vec<&str> = record.keys().map(String::as_str).take(12).collect();
            names.join(", ")
        });
        LabelsError::Unknown {
            source_name: self.source.clone(),
            place: *place,
            fields: fields.unwrap_or_else(|| "not an object".to_owned()),
            formats: Format::names(),
        }
    }
}
