//! Writing chains as records of a format.

use serde_json::Value;

use crate::targets::{Kind, Targets};
use crate::{Format, LabelRule, LabelledChain, Reason};

impl Format {
    /// Whether chains can be written in this format.
    #[must_use]
    pub fn writes(&self) -> bool {
        self.export.is_some()
    }

    /// Returns the chains as records with the labels of a rule, each of them a record or the reason
    /// why the format cannot hold the chain. `None` if the format is only read.
    ///
    /// The own format keeps the raw facts, so the rule has no effect there. All others leave out
    /// alternatives ([`LabelledChain::with_alternatives`] makes chains of them) and the steps after
    /// the last one with a label.
    pub fn export<'a>(
        &'static self,
        chains: &'a [LabelledChain],
        rule: &'a LabelRule,
    ) -> Option<impl Iterator<Item = Result<Value, Reason>> + 'a> {
        let export = self.export?;
        // One kind for the whole file: readers of columns expect one type.
        let kinds = chains.iter().map(|chain| Targets::new(rule, chain).kind);
        let kind = kinds.max().unwrap_or(Kind::Hard);
        Some(chains.iter().map(move |chain| {
            let mut targets = Targets::new(rule, chain);
            // Every record gets the kind of the file, even if its own labels would allow a simpler
            // one.
            targets.kind = kind;
            if targets.labels.is_empty() && !std::ptr::eq(self, Self::own()) {
                return Err(Reason::new("no step has a label"));
            }
            export(chain, &targets)
        }))
    }
}
