//! The labels of a chain in the form that a file needs.

use crate::{LabelRule, LabelledChain, Reason};

/// The kind of labels that a file needs. All records of a file have the same kind, since readers of
/// columns expect one type.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Kind {
    /// Every step has the label 1 or 0.
    Hard,
    /// Labels are 1 or 0, and steps before the last label may have none.
    Gaps,
    /// Some labels are between 0 and 1.
    Soft,
}

/// The labels of one chain, up to the last step that has a label.
pub(crate) struct Targets {
    /// The kind of all labels of the file.
    pub kind: Kind,
    /// One item for each step up to the last label; `None` for a step without a label.
    pub labels: Vec<Option<f64>>,
}

impl Targets {
    pub(crate) fn new(rule: &LabelRule, chain: &LabelledChain) -> Self {
        let mut labels = rule.labels(chain);
        let known = labels.iter().rposition(Option::is_some);
        // Formats need a label for each step that they write, so the unlabelled end is cut off.
        labels.truncate(known.map_or(0, |last| last + 1));
        let mut known = labels.iter().flatten();
        let kind = if known.any(|&label| label != 0.0 && label != 1.0) {
            Kind::Soft
        } else if labels.contains(&None) {
            Kind::Gaps
        } else {
            Kind::Hard
        };
        Self { kind, labels }
    }

    /// Returns the labels for formats that know only right and wrong.
    pub(crate) fn hard(&self) -> Result<impl Iterator<Item = bool> + '_, Reason> {
        for (i, label) in self.labels.iter().enumerate() {
            let what = match label {
                Some(label) if *label == 0.0 || *label == 1.0 => continue,
                Some(_) => "a label is between right and wrong, which the format cannot hold",
                None => "a step has no label, but the format needs one for every step",
            };
            return Err(Reason::with(what, format!("step {}", i + 1)));
        }
        Ok(self.labels.iter().map(|&label| label == Some(1.0)))
    }
}
