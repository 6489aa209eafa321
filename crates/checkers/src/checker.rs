//! What is asked of a checker: verdicts on steps of many chains together, each step once.

use std::collections::HashMap;

use beamgen_search::ScoreId;
use serde::Serialize;

use crate::Verdict;

/// New steps of one chain.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CheckItem<'a> {
    /// The chain that they are appended to; no other item of the call has it.
    pub id: ScoreId,
    /// In order.
    pub steps: Vec<&'a str>,
}

/// Looks at a problem's text and the steps so far, and says what it can prove of the last one.
pub trait Checker: Send {
    /// A chain without steps, of a problem with this text.
    fn open(&mut self, problem: &str) -> ScoreId;

    /// A second chain with the same contents.
    ///
    /// # Panics
    /// There is no such chain.
    fn fork(&mut self, id: ScoreId) -> ScoreId;

    /// Forgets a chain.
    fn release(&mut self, id: ScoreId);

    /// Appends each item's steps to its chain: a verdict for each step of each item.
    ///
    /// # Panics
    /// There is no such chain.
    fn check(&mut self, items: &[CheckItem<'_>]) -> Vec<Vec<Verdict>>;

    /// What went wrong so far, of a checker that something can go wrong with.
    fn lost(&self) -> Option<Lost> {
        None
    }
}

/// What a checker knows of a chain so far. A copy goes on by itself.
pub trait StepState: Clone + Send {
    /// Before any step.
    fn new(problem: &str) -> Self;

    /// The verdict on the next step, which belongs to the chain from then on.
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

/// The verdicts that a checker, which is another program, lost.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Lost {
    /// Steps without a verdict that was owed.
    pub verdicts: u64,
    /// Times that a process ended by itself with steps to answer, or could not be started.
    pub crashes: u64,
    /// Times that a process did not answer in time.
    pub timeouts: u64,
    /// Lines that were no answers.
    pub noise: u64,
    /// Why the program is not asked any more, if so.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub given_up: Option<String>,
}
