//! A strategy that works in rounds is narrowed by its token budget: it expands as many chains as
//! what is left can still bring to their end, best first. A budget is worth nothing while all
//! chains are half written.

use super::active::ActiveProblem;
use super::budget::TokenBudget;
use crate::strategy::Action;
use crate::tree::{ChainTree, NodeId};

/// Mean tokens of the chains that came to their own end, if there are some.
fn mean_complete(tree: &ChainTree) -> Option<usize> {
    let complete = tree.nodes().filter(|(_, node)| node.is_complete());
    let (mut chains, mut tokens) = (0, 0);
    for (id, _) in complete {
        chains += 1;
        tokens += tree.token_count(id);
    }
    (chains > 0).then(|| tokens / chains)
}

impl ActiveProblem {
    /// Cuts what a strategy asks for down to what the budget allows. In rounds, only as many chains
    /// are expanded, in the strategy's order, as what is left can bring to their end, and at least
    /// one. What is left is shared evenly among their steps, as a limit that few will reach.
    pub(super) fn afford(&mut self, actions: Vec<Action>) -> Vec<Action> {
        let in_rounds = self.strategy.in_rounds();
        let TokenBudget::Limited {
            total,
            round,
            written,
        } = &mut self.budget
        else {
            return actions;
        };
        if !in_rounds {
            return actions;
        }
        let left = total.saturating_sub(self.bill.ledger.generated_tokens as usize);
        if left == 0 {
            // Every chain is refused its step and ends with that reason.
            *round = Some((0, 0));
            return actions;
        }
        let tree = &self.tree;
        let usual = mean_complete(tree);
        let (mut granted, mut unspent) = (0, left);
        let mut grant = |node: NodeId, asked: usize| {
            let each = written.still_needed(tree, node, usual);
            let first = usize::from(granted == 0);
            let count = asked.min((unspent / each).max(first));
            granted += count;
            unspent = unspent.saturating_sub(count * each);
            count
        };
        let afford = |mut action: Action| {
            let (node, count) = match &mut action {
                Action::Expand { node, count, .. } => {
                    *count = grant(*node, *count);
                    (*node, *count)
                }
                Action::Resume(node) => (*node, grant(*node, 1)),
                _ => return Some(action),
            };
            // A kept node that was expanded before stays as it is.
            let is_leaf = tree.node(node).children.is_empty();
            match count {
                0 => is_leaf.then_some(Action::Prune(node)),
                _ => Some(action),
            }
        };
        let affordable: Vec<Action> = actions.into_iter().filter_map(afford).collect();
        *round = Some(match granted {
            0 => (0, 0),
            steps => (left / steps, left % steps),
        });
        affordable
    }
}
