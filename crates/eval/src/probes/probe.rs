//! The parts of a probe: the change, the chains that take it, and the reaction of a good model.

use serde::{Deserialize, Serialize};

/// A change of chains whose worth is known.
#[derive(Debug)]
pub struct Probe {
    /// The name in files and on the command line, such as `answer-only`.
    pub key: &'static str,
    /// The name in tables, in plain words.
    pub name: &'static str,
    /// The change in one sentence, for the reader of a report.
    pub about: &'static str,
    /// The chains that are changed.
    pub takes: Takes,
    /// The reaction of a good model's score.
    pub wanted: Wanted,
    /// Returns the changed chain; `None` if the chain lacks what is to be changed.
    pub(super) change: fn(&Subject<'_>) -> Option<Changed>,
}

impl Probe {
    /// Returns the changed chain; `None` if the subject lacks what is to be changed, such as an
    /// equation. A change adds no blank step, because blank steps are never scored.
    #[must_use]
    pub fn change(&self, subject: &Subject<'_>) -> Option<Changed> {
        (self.change)(subject)
    }
}

/// The chains that a probe changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Takes {
    /// Only chains whose steps are all known to be right.
    Right,
    /// Chains that are known to be right, and chains whose first wrong step is known.
    Known,
}

/// The reaction of a good model's score to a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Wanted {
    /// The score falls: the change makes the chain wrong, or takes its grounds away.
    Falls,
    /// The score does not rise: the change adds nothing, so a generator trained on the score must
    /// not be paid for it.
    NoGain,
    /// The score stays, because only the form changes.
    Same,
}

/// A chain to be changed.
#[derive(Clone, Copy, Debug)]
pub struct Subject<'a> {
    /// The problem's text.
    pub problem: &'a str,
    /// The steps of the chain; at least one.
    pub steps: &'a [String],
    /// The text of another problem in the same data; `None` if there is only one problem.
    pub other_problem: Option<&'a str>,
}

impl Subject<'_> {
    /// Returns the index of the middle step: the earlier of two.
    pub(super) fn middle(&self) -> usize {
        (self.steps.len() - 1) / 2
    }

    /// Returns the same problem with other steps.
    pub(super) fn with_steps(&self, steps: Vec<String>, touched: Option<Touched>) -> Changed {
        Changed {
            problem: self.problem.to_owned(),
            steps,
            touched,
        }
    }

    /// Returns the chain with a step inserted at index `at`.
    pub(super) fn with_step(&self, at: usize, text: &str, before: Option<usize>) -> Changed {
        let mut steps = self.steps.to_vec();
        steps.insert(at, text.to_owned());
        self.with_steps(steps, Some(Touched { before, after: at }))
    }

    /// Returns the same steps under another problem.
    pub(super) fn with_problem(&self, problem: &str) -> Changed {
        Changed {
            problem: problem.to_owned(),
            steps: self.steps.to_vec(),
            touched: None,
        }
    }
}

/// A changed chain.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Changed {
    /// The problem's text, which some probes replace.
    pub problem: String,
    /// The steps of the changed chain; at least one.
    pub steps: Vec<String>,
    /// The changed or added step; `None` if the change is about the whole chain.
    pub touched: Option<Touched>,
}

/// The place of a changed step, before and after the change.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Touched {
    /// The index of the step before the change; `None` for an added step.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub before: Option<usize>,
    /// The index of the step in the changed chain, from 0.
    pub after: usize,
}
