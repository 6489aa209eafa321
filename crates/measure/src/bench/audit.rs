//! Audits of a bench's chains: of the chosen chain of each search, and of all right chains of a pool.

use std::cell::RefCell;

use beamgen::ProblemResult;
use beamgen::result::{Auditor, Evidence, Unsound};
use serde::{Deserialize, Serialize};

/// The finding of an audit of a chain.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Audit {
    /// No checker, label or scorer objects to a step of the chain.
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

    /// Returns the character of the finding in the field `audit` of a pool.
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

/// The auditor of a bench's chains, in a `RefCell` because audits need it mutably.
pub(super) struct Audits(RefCell<Auditor>);

impl Audits {
    /// Returns `None` if the settings switch audits off.
    pub(super) fn new(auditor: Auditor) -> Option<Self> {
        (!auditor.is_off()).then(|| Self(RefCell::new(auditor)))
    }

    /// Returns the finding of the chosen chain.
    pub(super) fn chosen(&self, result: &ProblemResult) -> Audit {
        // Scores are passed too, because an audit may have a lower bound on the score of each step.
        let steps = result.steps().into_iter();
        let steps = steps.map(|node| (node.spoken(), node.score));
        let mut auditor = self.0.borrow_mut();
        Audit::of(
            auditor
                .chain(&result.problem.with_context(), steps)
                .as_ref(),
        )
    }

    /// Returns a character for each finished chain: its [`Audit::letter`] if the chain is `1` in `right`, else `-`.
    pub(super) fn pool(&self, result: &ProblemResult, right: &str) -> String {
        let mut auditor = self.0.borrow_mut();
        let all = result.finished.iter().zip(right.bytes());
        all.map(|(chain, right)| {
            if right != b'1' {
                // A wrong chain counts as wrong even if its steps are sound, so it is not audited.
                return '-';
            }
            let steps = result.tree.steps(chain.node);
            let steps = steps.map(|node| (node.spoken(), node.score));
            Audit::of(
                auditor
                    .chain(&result.problem.with_context(), steps)
                    .as_ref(),
            )
            .letter()
        })
        .collect()
    }
}
