//! The interface of a checker, which gives verdicts on new steps of many chains in one call.

use std::collections::HashMap;

use beamgen_search::ScoreId;
use serde::Serialize;

use crate::Verdict;

/// New steps of one chain.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CheckItem<'a> {
    /// The chain to which the steps are appended; at most one item of a call has the same chain.
    pub id: ScoreId,
    /// The texts of the new steps, in order.
    pub steps: Vec<&'a str>,
}

/// Judges steps of chains. A checker keeps the text of each chain, and chains with equal first
/// steps are made with [`fork`](Self::fork), so each step is checked once.
pub trait Checker: Send {
    /// Starts a chain without steps for the problem and returns its id.
    fn open(&mut self, problem: &str) -> ScoreId;

    /// Copies a chain and returns the id of the copy. Later steps of one do not affect the other.
    ///
    /// # Panics
    /// Panics if the id is unknown.
    fn fork(&mut self, id: ScoreId) -> ScoreId;

    /// Forgets a chain.
    fn release(&mut self, id: ScoreId);

    /// Appends each item's steps to its chain and returns one verdict per step, item by item.
    ///
    /// # Panics
    /// Panics if the id of an item is unknown.
    fn check(&mut self, items: &[CheckItem<'_>]) -> Vec<Vec<Verdict>>;

    /// Returns the counts of lost verdicts; `None` for checkers that cannot lose any.
    fn lost(&self) -> Option<Lost> {
        None
    }
}

/// A checker's state for one chain. Clones do not affect each other.
pub trait StepState: Clone + Send {
    /// Makes the state of a chain without steps.
    fn new(problem: &str) -> Self;

    /// Judges the next step and appends it to the chain.
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

/// The number of verdicts that an external program failed to give, and the reasons.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Lost {
    /// The number of steps that were sent without getting a verdict.
    pub verdicts: u64,
    /// The number of times that a process could not start, or ended while steps were unanswered.
    pub crashes: u64,
    /// The number of times that a process was stopped because it did not answer in time.
    pub timeouts: u64,
    /// The number of lines written by processes that were not answers to a request.
    pub noise: u64,
    /// The reason why no more processes are started; `None` while the program is in use.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub given_up: Option<String>,
}
