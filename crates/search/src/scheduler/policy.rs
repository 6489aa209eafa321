//! The strategy of a problem, and the majority vote that may end it early.

use std::collections::BTreeMap;

use crate::choose::Answers;
use crate::strategy::{Scoring, Start, Strategy};
use crate::tree::{ChainTree, NodeId};

/// A problem's strategy with the state that the scheduler keeps for it.
pub(super) struct Policy {
    pub strategy: Box<dyn Strategy>,
    pub scoring: Scoring,
    pub start: Start,
    /// The number of calls of the strategy whose actions were carried out; the round, if there are
    /// rounds.
    pub answers: u32,
    pub votes: Votes,
    /// Whether chains get their outcome as soon as they are complete.
    pub asks_verifier: bool,
    /// Whether such a chain was called right.
    pub is_verified: bool,
}

/// The votes of complete chains, by class of answer.
#[derive(Debug, Default)]
pub(super) struct Votes(BTreeMap<String, usize>);

impl Votes {
    fn add(&mut self, class: String, votes: usize) {
        *self.0.entry(class).or_default() += votes;
    }

    /// Whether no way of casting `to_come` more votes can change the winner. A possible tie is
    /// undecided, since scores break ties.
    fn decided(&self, to_come: usize) -> bool {
        let mut counts: Vec<usize> = self.0.values().copied().collect();
        counts.sort_unstable_by(|a, b| b.cmp(a));
        let leader = counts.first().copied().unwrap_or(0);
        let second = counts.get(1).copied().unwrap_or(0);
        // Strictly greater, so a vote without any chain is never decided.
        leader > second + to_come
    }
}

impl Policy {
    /// Returns the round of the search, from 1; `None` if the strategy does not work in rounds.
    /// Such a strategy is called after every step, so the number of its calls depends on the other
    /// problems in flight.
    pub(super) fn round(&self) -> Option<u32> {
        self.strategy.in_rounds().then_some(self.answers)
    }

    /// Counts the answers of the reported nodes. Returns whether the vote is decided.
    pub(super) fn is_decided(
        &mut self,
        reported: &[NodeId],
        tree: &ChainTree,
        answers: &dyn Answers,
    ) -> bool {
        for &id in reported {
            let node = tree.node(id);
            if !node.is_complete() {
                continue;
            }
            if let Some(answer) = answers.extract(&tree.solution(id)) {
                self.votes.add(answers.class(&answer.text), node.copies);
            }
        }
        self.strategy
            .to_come()
            .is_some_and(|to_come| self.votes.decided(to_come))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn votes(counts: &[usize]) -> Votes {
        let mut votes = Votes::default();
        for (class, &count) in counts.iter().enumerate() {
            votes.add(class.to_string(), count);
        }
        votes
    }

    #[test]
    fn a_vote_is_over_when_the_rest_cannot_make_a_tie() {
        assert!(votes(&[5, 2]).decided(2));
        assert!(!votes(&[5, 2]).decided(3));
        assert!(votes(&[3]).decided(2));
        assert!(!votes(&[3]).decided(3));
        assert!(!votes(&[]).decided(0));
        assert!(!votes(&[2, 2]).decided(0));
    }
}
