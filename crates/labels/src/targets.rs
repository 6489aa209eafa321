//! The labels of a chain, as a file has them.

use crate::{LabelRule, LabelledChain, Reason};

/// What kinds of labels a file needs. All records of a file have the same, because readers of
/// columns want one type each.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Kind {
    /// 1 or 0 for every step.
    Hard,
    /// 1 or 0, and steps without a label before the last one that has one.
    Gaps,
    /// Some are between.
    Soft,
}

/// The labels of one chain, up to the last step that has one.
pub(crate) struct Targets {
    /// The kind of all labels of the file.
    pub kind: Kind,
    /// One a step; steps behind them have none.
    pub labels: Vec<Option<f64>>,
}

impl Targets {
    pub(crate) fn new(rule: &LabelRule, chain: &LabelledChain) -> Self {
        let mut labels = rule.labels(chain);
        let known = labels.iter().rposition(Option::is_some);
        labels.truncate(known.map_or(0, |last| last + 1));
        let soft = |&label: &f64| label != 0.0 && label != 1.0;
        let kind = match labels.iter().flatten().any(soft) {
            true => Kind::Soft,
            false if labels.contains(&None) => Kind::Gaps,
            false => Kind::Hard,
        };
        Self { kind, labels }
    }

    /// For formats that know nothing but right and wrong.
    pub(crate) fn hard(&self) -> Result<impl Iterator<Item = bool> + '_, Reason> {
        for (i, label) in self.labels.iter().enumerate() {
            let what = match label {
                Some(label) if *label == 0.0 || *label == 1.0 => continue,
                Some(_) => "a label is neither right nor wrong, and the format has nothing between",
                None => "a step has no label, and the format needs one for each",
            };
            return Err(Reason::with(what, format!("step {}", i + 1)));
        }
        Ok(self.labels.iter().map(|&label| label == Some(1.0)))
    }
}
