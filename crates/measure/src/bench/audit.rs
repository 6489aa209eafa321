//! Audits of a bench's chains: the chosen ones, and all right ones of a pool.

use std::cell::RefCell;

use beamgen::ProblemResult;
use beamgen::result::{Auditor, Evidence, FinishedChain, Unsound};
use serde::{Deserialize, Serialize};

/// The finding of an audit of a chain.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Audit {
    /// Nothing speaks against it.
    Sound,
    /// A checker proves a step wrong.
    Checker,
    /// A label calls a step wrong.
    Label,
    /// The scorer puts a step below the bound.
    Scorer,
}

impl Audit {
    fn of(found: Option<&Unsound>) -> Self {
        match found.map(|unsound| unsound.by) {
            None => Self::Sound,
            Some(Evidence::Checker) => Self::Checker,
            Some(Evidence::Label) => Self::Label,
            Some(Evidence::Scorer) => Self::Scorer,
        }
    }

    /// Returns the letter that stands for it in a pool of chains.
    #[must_use]
    pub fn letter(self) -> char {
        match self {
            Self::Sound => '.',
            Self::Checker => 'c',
            Self::Label => 'l',
            Self::Scorer => 's',
        }
    }
}

/// The audits of a bench's chains.
pub(super) struct Audits(RefCell<Auditor>);

impl Audits {
    /// `None` if nothing is audited.
    pub(super) fn new(auditor: Auditor) -> Option<Self> {
        (!auditor.is_off()).then(|| Self(RefCell::new(auditor)))
    }

    /// Returns the finding of the chosen chain.
    pub(super) fn chosen(&self, result: &ProblemResult) -> Audit {
        let steps = result.steps().into_iter();
        let steps = steps.map(|node| (node.text.as_str(), node.score));
        let mut auditor = self.0.borrow_mut();
        Audit::of(
            auditor
                .chain(&result.problem.with_context(), steps)
                .as_ref(),
        )
    }

    /// Returns the findings of the right ones among all finished chains, by [`Audit::letter`], and
    /// `-` for others; `right` has a `1` for each right one.
    pub(super) fn pool(&self, result: &ProblemResult, right: &str) -> String {
        let mut auditor = self.0.borrow_mut();
        let mut letter = |(chain, right): (&FinishedChain, u8)| {
            if right != b'1' {
                return '-';
            }
            let steps = result.tree.steps(chain.node);
            let steps = steps.map(|node| (node.text.as_str(), node.score));
            Audit::of(
                auditor
                    .chain(&result.problem.with_context(), steps)
                    .as_ref(),
            )
            .letter()
        };
        let all = result.finished.iter().zip(right.bytes());
        all.map(&mut letter).collect()
    }
}
