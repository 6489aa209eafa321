//! The formats of labelled chains: one row and one file each.

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

/// How labelled chains are written.
#[derive(Debug)]
pub struct Format {
    /// As it is named on command lines and in messages.
    pub name: &'static str,
    /// What it is, in a few words.
    pub about: &'static str,
    /// Whether a record looks like one of this format.
    fits: fn(&Record) -> bool,
    /// The chains of a record.
    import: fn(&Record) -> Result<Vec<LabelledChain>, Reason>,
    /// A chain with its labels as a record, for formats that are also written.
    pub(crate) export: Option<Export>,
}

type Export = fn(&LabelledChain, &Targets) -> Result<Value, Reason>;

/// All formats. A record that fits several is of the first.
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
    /// The format of this name.
    ///
    /// # Errors
    /// [`LabelsError::NoFormat`] lists all.
    pub fn named(name: &str) -> Result<&'static Self, LabelsError> {
        FORMATS
            .into_iter()
            .find(|format| format.name == name)
            .ok_or_else(|| LabelsError::NoFormat {
                name: name.to_owned(),
                formats: Self::names(),
            })
    }

    /// The project's own.
    #[must_use]
    pub fn own() -> &'static Self {
        &own::FORMAT
    }

    /// All names, in one line.
    #[must_use]
    pub fn names() -> String {
        FORMATS.map(|format| format.name).join(", ")
    }

    /// The format that a record is of.
    #[must_use]
    pub fn of(record: &Value) -> Option<&'static Self> {
        let record = record.as_object()?;
        FORMATS.into_iter().find(|format| (format.fits)(record))
    }

    /// The format that a record is of where labels do not matter: those in which labels are beside
    /// the steps, and what is no format, are plain chains.
    pub(crate) fn unlabelled(record: &Value) -> &'static Self {
        let beside: [&Self; 4] = [
            &own::FORMAT,
            &ratings::FORMAT,
            &trl::FORMAT,
            &process_bench::FORMAT,
        ];
        let is_apart = |&format: &&Self| !beside.iter().any(|&one| std::ptr::eq(one, format));
        Self::of(record).filter(is_apart).unwrap_or(&plain::FORMAT)
    }

    /// The chains of one record, at least one; each holds what [`LabelledChain::check`] asks for.
    ///
    /// # Errors
    /// Why the record is of no use.
    pub fn import(&self, record: &Value) -> Result<Vec<LabelledChain>, Reason> {
        let record = record
            .as_object()
            .ok_or_else(|| Reason::new("not an object: write one JSON object a chain"))?;
        let chains = (self.import)(record)?;
        chains.iter().try_for_each(LabelledChain::check)?;
        Ok(chains)
    }
}
