//! Export of chains to the formats of other projects.

use serde_json::Value;

use crate::targets::{Kind, Targets};
use crate::{Format, LabelRule, LabelledChain, Reason};

impl Format {
    /// Whether this format can be written; all formats can be read.
    #[must_use]
    pub fn writes(&self) -> bool {
        self.export.is_some()
    }

    /// Returns one result per chain: a record with labels derived by `rule`, or the reason why this
    /// format cannot represent the chain. `None` if the format is read-only.
    ///
    /// The own format keeps the raw facts, so `rule` has no effect there. All other formats drop
    /// alternatives ([`LabelledChain::with_alternatives`] turns them into chains) and the steps
    /// after the last labelled one.
    pub fn export<'a>(
        &'static self,
        chains: &'a [LabelledChain],
        rule: &'a LabelRule,
    ) -> Option<impl Iterator<Item = Result<Value, Reason>> + 'a> {
        let export = self.export?;
        // All records of a file get the same kind of label: readers of columns expect one type.
        let kinds = chains.iter().map(|chain| Targets::new(rule, chain).kind);
        let kind = kinds.max().unwrap_or(Kind::Hard);
        Some(chains.iter().map(move |chain| {
            let mut targets = Targets::new(rule, chain);
            // The kind of the file replaces the chain's own kind, which may be simpler.
            targets.kind = kind;
            if targets.labels.is_empty() && !std::ptr::eq(self, Self::own()) {
                return Err(Reason::new("no step has a label"));
            }
            export(chain, &targets)
        }))
    }
}
