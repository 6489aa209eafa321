//! A file of labelled chains, of any known format.

use std::collections::HashMap;
use std::io::BufRead;
use std::path::Path;

use beamgen_eval::cut_response;
use serde_json::Value;

use crate::event::Event;
use crate::{Format, LabelledChain, LabelsError, Place, Reason, read};

/// How many records are looked at to recognise a format.
const LOOKED_AT: usize = 16;

/// A file of labelled chains that was read.
#[derive(Clone, Debug)]
pub struct Labelled {
    /// What messages call the file.
    pub source: String,
    /// What it is written in.
    pub format: &'static Format,
    /// In the file's order; never empty.
    pub chains: Vec<LabelledChain>,
    /// Where in the file each chain is; a record may have several.
    pub places: Vec<Place>,
    /// How many records the file has, rejected ones among them.
    pub records: usize,
    /// The records that could not be used.
    pub rejected: Vec<Rejected>,
}

impl Labelled {
    /// Says how many records could not be used, and why the first; `None` if all could.
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
    /// Where it is.
    pub place: Place,
    /// Why.
    pub reason: Reason,
}

/// Reads a regular file; `-` is the standard input. The format is recognised from the first records
/// if it is not named. JSON lines, or one JSON array. A record that cannot be used is among
/// [`Labelled::rejected`].
///
/// # Errors
/// A file that cannot be read, is not JSON, is of no known format, or has no record of use. The
/// message is one line.
pub fn open(path: &Path, format: Option<&'static Format>) -> Result<Labelled, LabelsError> {
    let mut reader = Reader::new(read::source(path), format, true);
    read::file(path, &mut |place, record| reader.take(place, record))?;
    reader.done()
}

/// Reads a file like [`open`], of chains whose labels do not matter and may be missing: a problem with
/// its steps is enough, or with a `response`, of which `cut` makes steps.
///
/// # Errors
/// A file that cannot be read, is not JSON, or has a record of no use.
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

/// Reads a file like [`open`], or if its chains have no labels, like [`open_unlabelled`]: so what is
/// known of chains is there.
///
/// # Errors
/// The errors of [`open_unlabelled`].
pub fn open_any(path: &Path, cut: &dyn Fn(&str) -> Vec<String>) -> Result<Labelled, LabelsError> {
    match open(path, None) {
        Err(LabelsError::Unknown { .. } | LabelsError::NoneUsable { .. }) => {
            open_unlabelled(path, cut)
        }
        read => read,
    }
}

/// As [`open`], of anything; `source` names it in messages.
///
/// # Errors
/// As [`open`].
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

/// What was read so far.
struct Reader {
    source: String,
    format: Option<&'static Format>,
    /// Whether labels matter. Where they do not, every record is needed.
    is_labelled: bool,
    /// Records that wait for the format to be known.
    waiting: Vec<(Place, Value)>,
    chains: Vec<LabelledChain>,
    places: Vec<Place>,
    records: usize,
    rejected: Vec<Rejected>,
    /// Chains by their keys, as far as ratings by [`Event`] needed them.
    keys: HashMap<String, usize>,
    /// How many chains were looked at for that.
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

    /// Brings the chains by their keys up to date. Of equal ones the first counts.
    fn key_chains(&mut self) {
        for (chain, at) in self.chains[self.keyed..].iter().zip(self.keyed..) {
            self.keys.entry(chain.key()).or_insert(at);
        }
        self.keyed = self.chains.len();
    }

    /// Drops chains that stand twice among ratings, as two people who began at once leave them.
    fn drop_repeats(&mut self) {
        self.key_chains();
        let is_first = |at: usize| self.keys[&self.chains[at].key()] == at;
        let first: Vec<bool> = (0..self.chains.len()).map(is_first).collect();
        let mut is_kept = first.iter();
        self.chains.retain(|_| is_kept.next() == Some(&true));
        let mut is_kept = first.iter();
        self.places.retain(|_| is_kept.next() == Some(&true));
    }

    fn done(mut self) -> Result<Labelled, LabelsError> {
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
