//! The interface of a checker: verdicts on steps of many chains together, each step once.

use std::collections::HashMap;

use beamgen_search::ScoreId;
use serde::Serialize;

use crate::Verdict;

/// New steps of one chain.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CheckItem<'a> {
    /// The chain that the steps are appended to. No other item of the call has the same chain.
    pub id: ScoreId,
    /// The new steps, in order.
    pub steps: Vec<&'a str>,
}

/// Gives verdicts on steps from a problem's text and the steps before. Chains share their first
/// steps by [`fork`](Self::fork), so no step is checked twice.
pub trait Checker: Send {
    /// Opens a chain without steps for a problem with this text.
    fn open(&mut self, problem: &str) -> ScoreId;

    /// Copies a chain; the copy and the original continue independently.
    ///
    /// # Panics
    /// If no chain has this id.
    fn fork(&mut self, id: ScoreId) -> ScoreId;

    /// Forgets a chain.
    fn release(&mut self, id: ScoreId);

    /// Appends each item's steps to its chain. Returns a verdict for each step of each item.
    ///
    /// # Panics
    /// If no chain has an item's id.
    fn check(&mut self, items: &[CheckItem<'_>]) -> Vec<Vec<Verdict>>;

    /// Returns the verdicts lost so far; `None` for a checker that cannot lose verdicts.
    fn lost(&self) -> Option<Lost> {
        None
    }
}

/// The state of a checker after the steps of one chain. A clone continues independently.
pub trait StepState: Clone + Send {
    /// Creates the state before the first step.
    fn new(problem: &str) -> Self;

    /// Returns the verdict on the next step and adds the step to the chain.
    fn next(&mut self, step: &str) -> Verdict;
}

/// The [`Checker`] that keeps a [`StepState`] for each chain.
#[derive(Debug, Default)]
pub struct PerStep<S> {
    chains: HashMap<ScoreId, S>,
    next: u64,
}

impl<S> PerStep<S> {
    fn add(&mut self, state: S) -> ScoreId {
        self.next += 1;
        let id = ScoreId(self.next);
        self.chains.insert(id, state);
        id
    }
}

impl<S: StepState> Checker for PerStep<S> {
    fn open(&mut self, problem: &str) -> ScoreId {
        self.add(S::new(problem))
    }

    fn fork(&mut self, id: ScoreId) -> ScoreId {
        let copy = self.chains[&id].clone();
        self.add(copy)
    }

    fn release(&mut self, id: ScoreId) {
        self.chains.remove(&id);
    }

    fn check(&mut self, items: &[CheckItem<'_>]) -> Vec<Vec<Verdict>> {
        let each = items.iter().map(|item| {
            let state = self.chains.get_mut(&item.id).expect("an open chain");
            item.steps.iter().map(|step| state.next(step)).collect()
        });
        each.collect()
    }
}

/// The counts of verdicts that an external program did not give.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Lost {
    /// The number of steps that were sent and got no verdict.
    pub verdicts: u64,
    /// The number of times that a process ended with unanswered steps, or could not be started.
    pub crashes: u64,
    /// The number of times that a process did not answer in time.
    pub timeouts: u64,
    /// The number of lines that were not answers.
    pub noise: u64,
    /// The reason why no process is started any more; `None` while the program is used.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub given_up: Option<String>,
}
