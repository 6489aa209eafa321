//! What a probe is: a change of a chain, the chains that it is made to, and what a good model does.

use serde::{Deserialize, Serialize};

/// A change of chains whose worth is known.
#[derive(Debug)]
pub struct Probe {
    /// As files name it.
    pub key: &'static str,
    /// As tables name it.
    pub name: &'static str,
    /// What is done to a chain: one sentence.
    pub about: &'static str,
    /// Which chains it is done to.
    pub takes: Takes,
    /// What the score of a good model does.
    pub wanted: Wanted,
    /// The change; `None` for a chain that it cannot be made to.
    pub(super) change: fn(&Subject<'_>) -> Option<Changed>,
}

impl Probe {
    /// The changed chain; `None` for one that the change cannot be made to. No step of it is blank
    /// unless one of the subject is.
    #[must_use]
    pub fn change(&self, subject: &Subject<'_>) -> Option<Changed> {
        (self.change)(subject)
    }
}

/// The chains that a probe is made to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Takes {
    /// Those in which all steps are known to be right.
    Right,
    /// Also those whose first wrong step is known.
    Known,
}

/// What the score of a good model does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Wanted {
    /// It falls: the change makes the chain wrong, or takes its grounds away.
    Falls,
    /// It does not rise: the change adds nothing, so whoever is paid by the score must not gain.
    NoGain,
    /// It stays: the change is one of form.
    Same,
}

/// A chain to be changed.
#[derive(Clone, Copy, Debug)]
pub struct Subject<'a> {
    /// The problem's text.
    pub problem: &'a str,
    /// Its steps; at least one.
    pub steps: &'a [String],
    /// The text of another problem of the same data.
    pub other_problem: Option<&'a str>,
}

impl Subject<'_> {
    /// The middle step; of an even number of steps the earlier one.
    pub(super) fn middle(&self) -> usize {
        (self.steps.len() - 1) / 2
    }

    /// The same problem with other steps.
    pub(super) fn with_steps(&self, steps: Vec<String>, touched: Option<Touched>) -> Changed {
        Changed {
            problem: self.problem.to_owned(),
            steps,
            touched,
        }
    }

    /// The chain with a step put in before the step `at`.
    pub(super) fn with_step(&self, at: usize, text: &str, before: Option<usize>) -> Changed {
        let mut steps = self.steps.to_vec();
        steps.insert(at, text.to_owned());
        self.with_steps(steps, Some(Touched { before, after: at }))
    }

    /// The same steps under another problem.
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
    /// The problem's text.
    pub problem: String,
    /// Its steps.
    pub steps: Vec<String>,
    /// The step that the change is about, if it is about one.
    pub touched: Option<Touched>,
}

/// Where a touched step is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Touched {
    /// The step of the chain as it was that it is compared with, from 0; `None` for a new step.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub before: Option<usize>,
    /// The step of the changed chain, from 0.
    pub after: usize,
}
