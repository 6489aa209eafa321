//! Stopping a majority vote that is decided.

use super::active::ActiveProblem;
use crate::choose::Answers;
use crate::tree::NodeId;

impl ActiveProblem {
    /// Counts the answers of the nodes just reported. Returns whether the vote is over.
    pub(super) fn is_decided(&mut self, settled: &[NodeId], answers: &dyn Answers) -> bool {
        for &id in settled {
            let node = self.tree.node(id);
            if !node.is_complete() {
                continue;
            }
            if let Some(answer) = answers.extract(&self.tree.solution(id)) {
                self.votes.add(answers.class(&answer.text), node.copies);
            }
        }
        self.strategy
            .to_come()
            .is_some_and(|to_come| self.votes.decided(to_come))
    }
}
