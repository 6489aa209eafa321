//! The labels of a chain for export: cut to the last label, with their kind.

use crate::{LabelRule, LabelledChain, Reason};

/// The kind of labels in an exported file, ordered from the simplest. All records of a file have
/// the same kind, since readers of columns expect one type.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Kind {
    /// Every exported step has the label 1 or 0.
    Hard,
    /// Labels are 1 or 0, and some exported steps have none.
    Gaps,
    /// At least one label is neither 0 nor 1.
    Soft,
}

/// The labels of one chain up to its last labelled step.
pub(crate) struct Targets {
    /// The kind of all labels of the file.
    pub kind: Kind,
    /// One item per step; the last item is a label, items before it may be `None`.
    pub labels: Vec<Option<f64>>,
}

impl Targets {
    pub(crate) fn new(rule: &LabelRule, chain: &LabelledChain) -> Self {
        let mut labels = rule.labels(chain);
        let known = labels.iter().rposition(Option::is_some);
        // The steps after the last label are not exported, so their missing labels are no gaps.
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

    /// Returns the labels for formats that only have right and wrong.
    ///
    /// # Errors
    /// Returns the first step whose label is missing or neither 0 nor 1.
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
