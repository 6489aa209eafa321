//! A probe: a change, the chains it is applied to, and the wanted reaction of the score.

use serde::{Deserialize, Serialize};

/// A change of chains whose worth is known.
#[derive(Debug)]
pub struct Probe {
    /// The name in files and on the command line, for example `answer-only`.
    pub key: &'static str,
    /// The name in tables of reports, a few plain words.
    pub name: &'static str,
    /// A description of the change for readers of a report, one sentence.
    pub about: &'static str,
    /// The chains that the change suits, by their labels.
    pub takes: Takes,
    /// The reaction of the score that a good model shows.
    pub wanted: Wanted,
    pub(super) change: fn(&Subject<'_>) -> Option<Changed>,
}

impl Probe {
    /// Returns the changed chain, or `None` if the chain has nothing to change, for example no equation. The change
    /// adds no blank steps, because blank steps are never scored.
    #[must_use]
    pub fn change(&self, subject: &Subject<'_>) -> Option<Changed> {
        (self.change)(subject)
    }
}

/// The chains that a probe is applied to, by their labels.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Takes {
    /// Chains whose steps are all labelled right; a wrong step would lower the score already.
    Right,
    /// Chains whose steps are all labelled right, and chains whose first wrong step is labelled.
    Known,
}

/// The reaction of the score that a good model shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Wanted {
    /// The score falls, because the changed chain is wrong or has lost its grounds.
    Falls,
    /// The score does not rise, because the change adds nothing. A rise would reward a generator for the trick.
    NoGain,
    /// The score stays about the same, because only the form changes.
    Same,
}

/// A chain to be changed.
#[derive(Clone, Copy, Debug)]
pub struct Subject<'a> {
    /// The problem's text.
    pub problem: &'a str,
    /// The steps, of which there is at least one, as `middle` requires.
    pub steps: &'a [String],
    /// The problem of other chains in the data; `None` if the data have only one problem.
    pub other_problem: Option<&'a str>,
}

impl Subject<'_> {
    /// Returns the index of the middle step, the earlier one of two.
    pub(super) fn middle(&self) -> usize {
        (self.steps.len() - 1) / 2
    }

    pub(super) fn with_steps(&self, steps: Vec<String>, touched: Option<Touched>) -> Changed {
        Changed {
            problem: self.problem.to_owned(),
            steps,
            touched,
        }
    }

    /// Returns the chain with the step `text` inserted at index `at`. `before` is [`Touched::before`].
    pub(super) fn with_step(&self, at: usize, text: &str, before: Option<usize>) -> Changed {
        let mut steps = self.steps.to_vec();
        steps.insert(at, text.to_owned());
        self.with_steps(steps, Some(Touched { before, after: at }))
    }

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
    /// The problem, which most probes leave unchanged.
    pub problem: String,
    /// The steps, of which there is at least one.
    pub steps: Vec<String>,
    /// The touched step; `None` if the change is not about a single step.
    pub touched: Option<Touched>,
}

/// The position of the step that a change touches.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Touched {
    /// The index in the original chain, from 0; `None` for an added step.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub before: Option<usize>,
    /// The index in the changed chain, from 0.
    pub after: usize,
}
