//! The formats of labelled chains, with a row and a file for each.

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

/// A format of files of labelled chains.
#[derive(Debug)]
pub struct Format {
    /// The name on command lines and in messages, lower case with hyphens.
    pub name: &'static str,
    /// The fields of a record, in a few words.
    pub about: &'static str,
    /// Whether a record has the fields of this format.
    fits: fn(&Record) -> bool,
    /// Reads the chains of a record.
    import: fn(&Record) -> Result<Vec<LabelledChain>, Reason>,
    /// Makes a record of a chain and its labels; `None` for formats that are only read.
    pub(crate) export: Option<Export>,
}

type Export = fn(&LabelledChain, &Targets) -> Result<Value, Reason>;

/// All formats. If a record fits several formats, the first one counts.
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
    /// Returns the format with this name.
    ///
    /// # Errors
    /// The name is unknown; [`LabelsError::NoFormat`] lists all formats.
    pub fn named(name: &str) -> Result<&'static Self, LabelsError> {
        FORMATS
            .into_iter()
            .find(|format| format.name == name)
            .ok_or_else(|| LabelsError::NoFormat {
                name: name.to_owned(),
                formats: Self::names(),
            })
    }

    /// Returns the project's own format, the only one that keeps all facts.
    #[must_use]
    pub fn own() -> &'static Self {
        &own::FORMAT
    }

    /// Returns all names, separated by commas.
    #[must_use]
    pub fn names() -> String {
        FORMATS.map(|format| format.name).join(", ")
    }

    /// Returns the format that a record fits.
    #[must_use]
    pub fn of(record: &Value) -> Option<&'static Self> {
        let record = record.as_object()?;
        FORMATS.into_iter().find(|format| (format.fits)(record))
    }

    /// Returns the format to read a record with if labels do not matter. Records in which labels
    /// are separate from the steps, and records of unknown format, are read as plain chains.
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

    /// Reads the chains of one record, at least one. Each of them passes [`LabelledChain::check`].
    ///
    /// # Errors
    /// The reason why the record cannot be used.
    pub fn import(&self, record: &Value) -> Result<Vec<LabelledChain>, Reason> {
        let record = record
            .as_object()
            .ok_or_else(|| Reason::new("not an object: write one JSON object a chain"))?;
        let chains = (self.import)(record)?;
        // Checked here for all formats, so that their importers need not repeat it.
        chains.iter().try_for_each(LabelledChain::check)?;
        Ok(chains)
    }
}
