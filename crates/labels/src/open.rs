//! Reading a file of labelled chains in any known format.

use std::collections::HashMap;
use std::io::BufRead;
use std::path::Path;

use beamgen_eval::cut_response;
use serde_json::Value;

use crate::event::Event;
use crate::{Format, LabelledChain, LabelsError, Place, Reason, read};

/// The number of records in which a known format must appear.
const LOOKED_AT: usize = 16;

/// The contents of a file of labelled chains.
#[derive(Clone, Debug)]
pub struct Labelled {
    /// The name of the file in messages.
    pub source: String,
    /// The format of the file.
    pub format: &'static Format,
    /// The chains in the file's order; never empty.
    pub chains: Vec<LabelledChain>,
    /// The place of each chain in the file. A record may contain several chains.
    pub places: Vec<Place>,
    /// The number of records in the file, rejected ones included.
    pub records: usize,
    /// The records that were left out, each with the reason.
    pub rejected: Vec<Rejected>,
}

impl Labelled {
    /// Returns a message with the number of rejected records and the reason for the first; `None`
    /// if no record was rejected.
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

/// A record that was left out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rejected {
    /// The record's place in the file.
    pub place: Place,
    /// The fault of the record.
    pub reason: Reason,
}

/// Reads a regular file of JSON lines or one JSON array; `-` is the standard input. Without a named
/// format, the format is recognised from the first records. Records that cannot be used are listed
/// in [`Labelled::rejected`].
///
/// # Errors
/// The file cannot be read, is not JSON, has an unknown format, or has no usable record. The
/// message is one line.
pub fn open(path: &Path, format: Option<&'static Format>) -> Result<Labelled, LabelsError> {
    let mut reader = Reader::new(read::source(path), format, true);
    read::file(path, &mut |place, record| reader.take(place, record))?;
    reader.done()
}

/// Reads a file like [`open`], of chains that need no labels. A problem with its steps is enough,
/// or a problem with a `response`, which `cut` splits into steps.
///
/// # Errors
/// The file cannot be read, is not JSON, or has a record that cannot be used.
pub fn open_unlabelled(
    path: &Path,
    cut: &dyn Fn(&str) -> Vec<String>,
) -> Result<Labelled, LabelsError> {
    let mut reader = Reader::new(read::source(path), None, false);
    read::file(path, &mut |place, mut record| {
        cut_response(&mut record, cut);
        reader.take(place, record)
    })?;
    reader.done()
}

/// Reads a file like [`open`] or, if its chains have no labels, like [`open_unlabelled`]. Facts
/// that the file has are kept.
///
/// # Errors
/// The file cannot be read, is not JSON, or has no usable record.
pub fn open_any(path: &Path, cut: &dyn Fn(&str) -> Vec<String>) -> Result<Labelled, LabelsError> {
    match open(path, None) {
        Err(LabelsError::Unknown { .. } | LabelsError::NoneUsable { .. }) => {
            open_unlabelled(path, cut)
        }
        read => read,
    }
}

/// Reads like [`open`], from any input; `source` is its name in messages.
///
/// # Errors
/// The input cannot be read, is not JSON, has an unknown format, or has no usable record.
pub fn parse(
    input: impl BufRead,
    source: &str,
    format: Option<&'static Format>,
) -> Result<Labelled, LabelsError> {
    let mut reader = Reader::new(source.to_owned(), format, true);
    read::records(input, source, &mut |place, record| {
        reader.take(place, record)
    })?;
    reader.done()
}

/// The state of reading a file.
struct Reader {
    source: String,
    format: Option<&'static Format>,
    /// Whether labels matter. Otherwise every record must be usable.
    is_labelled: bool,
    /// Records that were read before the format was recognised.
    waiting: Vec<(Place, Value)>,
    chains: Vec<LabelledChain>,
    places: Vec<Place>,
    records: usize,
    rejected: Vec<Rejected>,
    /// The index of the first chain with each key. Filled in when an [`Event`] needs it.
    keys: HashMap<String, usize>,
    /// The number of chains that are in `keys`.
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
        // Other formats may have records with the fields of an event, which mean something else.
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

    /// Adds the chains read since the last call to `keys`; of equal chains the first counts.
    fn key_chains(&mut self) {
        for (chain, at) in self.chains[self.keyed..].iter().zip(self.keyed..) {
            self.keys.entry(chain.key()).or_insert(at);
        }
        self.keyed = self.chains.len();
    }

    /// Drops repeated chains among ratings, which two people leave who begin a file at the same
    /// time.
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
        // Only in a file with ratings a repeated chain is an accident.
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
