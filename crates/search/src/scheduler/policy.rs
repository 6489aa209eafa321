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
    /// The number of times that the strategy has been woken and its actions followed.
    pub answers: u32,
    pub votes: Votes,
}

/// The votes of complete chains, by class of answer.
#[derive(Debug, Default)]
pub(super) struct Votes(BTreeMap<String, usize>);

impl Votes {
    fn add(&mut self, class: String, votes: usize) {
        *self.0.entry(class).or_default() += votes;
    }

    /// Whether `to_come` more votes cannot change the winner, however they fall. Ties count as
    /// undecided, since they are broken by scores.
    fn decided(&self, to_come: usize) -> bool {
        let mut counts: Vec<usize> = self.0.values().copied().collect();
        counts.sort_unstable_by(|a, b| b.cmp(a));
        let leader = counts.first().copied().unwrap_or(0);
        let second = counts.get(1).copied().unwrap_or(0);
        // Strictly greater, so an empty vote is never decided.
        leader > second + to_come
    }
}

impl Policy {
    /// Returns the round of the search, from 1, if the strategy works in rounds. Other strategies
    /// are woken by every step, so a count of their turns would depend on the problems in flight.
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
