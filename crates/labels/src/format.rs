//! The table of formats of labelled chains; each format has a file of its own.

use serde_json::Value;

use crate::field::Record;
use crate::targets::Targets;
use crate::{LabelledChain, LabelsError, Reason};

mod bigbench_mistake;
mod math_aps;
mod math_aps_tree;
mod math_shepherd;
mod own;
mod plain;
mod prm800k;
mod prm_bench;
mod process_bench;
mod ratings;
mod rlhflow;
mod tree;
mod trl;

/// A format of labelled chains: its names for the fields, its reader and its writer.
#[derive(Debug)]
pub struct Format {
    /// The lower-case name with hyphens that command lines use.
    pub name: &'static str,
    /// A short description of a record's fields, for help texts.
    pub about: &'static str,
    /// Whether a record belongs to this format, judged by its fields.
    fits: fn(&Record) -> bool,
    /// Converts a record to chains, which need not be valid yet.
    import: fn(&Record) -> Result<Vec<LabelledChain>, Reason>,
    /// Makes a record of a chain and its labels; `None` if the format is read-only.
    pub(crate) export: Option<Export>,
}

type Export = fn(&LabelledChain, &Targets) -> Result<Value, Reason>;

/// All formats. A record is read by the first format that it fits.
pub static FORMATS: [&Format; 11] = [
    &own::FORMAT,
    &prm800k::FORMAT,
    &math_shepherd::FORMAT,
    &rlhflow::FORMAT,
    &prm_bench::FORMAT,
    &math_aps::FORMAT,
    &math_aps_tree::FORMAT,
    &bigbench_mistake::FORMAT,
    &ratings::FORMAT,
    &trl::FORMAT,
    &process_bench::FORMAT,
];

impl Format {
    /// Returns the format that command lines call `name`.
    ///
    /// # Errors
    /// Returns [`LabelsError::NoFormat`] if the name is unknown; the error lists all names.
    pub fn named(name: &str) -> Result<&'static Self, LabelsError> {
        FORMATS
            .into_iter()
            .find(|format| format.name == name)
            .ok_or_else(|| LabelsError::NoFormat {
                name: name.to_owned(),
                formats: Self::names(),
            })
    }

    /// Returns the project's own format, the only one that keeps every fact.
    #[must_use]
    pub fn own() -> &'static Self {
        &own::FORMAT
    }

    /// Returns the names of all formats, separated by commas, for messages.
    #[must_use]
    pub fn names() -> String {
        FORMATS.map(|format| format.name).join(", ")
    }

    /// Detects the format of a record by its fields; `None` if the record fits no format.
    #[must_use]
    pub fn of(record: &Value) -> Option<&'static Self> {
        let record = record.as_object()?;
        FORMATS.into_iter().find(|format| (format.fits)(record))
    }

    /// Returns the format for reading a record whose labels are not needed. Formats with steps and
    /// labels in separate fields are then read as plain chains, and so are unknown formats.
    pub(crate) fn unlabelled(record: &Value) -> &'static Self {
        let separate: [&Self; 4] = [
            &own::FORMAT,
            &ratings::FORMAT,
            &trl::FORMAT,
            &process_bench::FORMAT,
        ];
        let format = Self::of(record).filter(|&format| {
            let mut separate = separate.into_iter();
            !separate.any(|one| std::ptr::eq(one, format))
        });
        format.unwrap_or(&plain::FORMAT)
    }

    /// Reads the chains of one record; there is at least one, and each passes
    /// [`LabelledChain::check`].
    ///
    /// # Errors
    /// Returns the reason why the record cannot be used.
    pub fn import(&self, record: &Value) -> Result<Vec<LabelledChain>, Reason> {
        let record = record
            .as_object()
            .ok_or_else(|| Reason::new("not an object: write one JSON object a chain"))?;
        let chains = (self.import)(record)?;
        // Checked here for all formats, so that no importer can forget it.
        chains.iter().try_for_each(LabelledChain::check)?;
        Ok(chains)
    }
}
