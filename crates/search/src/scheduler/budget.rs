//! The token budget of a problem. A token is sampled only if it was allotted to a step before, so
//! the budget is never exceeded. The allotment follows from the tree, not from timing.
//!
//! A strategy that works in rounds expands fewer chains under a budget: the best ones, as many as
//! the remaining tokens can bring to their end. If the tokens ran out while all chains are half
//! written, there would be no answer.

use crate::strategy::{Action, shares};
use crate::tree::{ChainTree, NodeId};

/// The assumed number of steps in a chain, until the first chain is complete.
const USUAL_STEPS: usize = 10;

/// The assumed number of tokens in a step, until the first step is written.
const USUAL_STEP_TOKENS: usize = 14;

/// The tokens that may still be sampled, and their allotment to steps.
#[derive(Debug, Clone, Copy)]
pub(super) enum TokenBudget {
    Unlimited,
    Limited {
        total: usize,
        /// For a strategy in rounds: the tokens that each step of this round gets, and the number
        /// of steps that get one token more. `None`: the children of a chain share its tokens.
        round: Option<(usize, usize)>,
        written: Written,
    },
}

/// Statistics of the steps written so far.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Written {
    steps: usize,
    tokens: usize,
    longest: usize,
}

impl Written {
    /// Estimates the tokens that the chain at `node` needs to come to its end: at least another
    /// step of the longest length so far. `usual` is the mean length of complete chains, in tokens.
    fn still_needed(&self, tree: &ChainTree, node: NodeId, usual: Option<usize>) -> usize {
        let step = match self.steps {
            0 => USUAL_STEP_TOKENS,
            steps => self.tokens / steps,
        };
        let so_far = tree.token_count(node);
        // A chain that is longer than usual is assumed to be two thirds written.
        let expected = usual.unwrap_or((USUAL_STEPS * step).max(so_far + so_far / 2));
        expected.saturating_sub(so_far).max(self.longest).max(1)
    }
}

/// Returns the mean number of tokens of complete chains; `None` before the first one.
fn mean_complete(tree: &ChainTree) -> Option<usize> {
    let complete = tree.nodes().filter(|(_, node)| node.is_complete());
    let tokens: Vec<usize> = complete.map(|(id, _)| tree.token_count(id)).collect();
    tokens.iter().sum::<usize>().checked_div(tokens.len())
}

impl TokenBudget {
    /// Makes a budget of `total` tokens; 0 means no limit.
    pub(super) fn new(total: usize) -> Self {
        match total {
            0 => Self::Unlimited,
            total => Self::Limited {
                total,
                round: None,
                written: Written::default(),
            },
        }
    }

    pub(super) fn total(&self) -> usize {
        match *self {
            Self::Unlimited => usize::MAX,
            Self::Limited { total, .. } => total,
        }
    }

    pub(super) fn note_step(&mut self, tokens: usize) {
        if let Self::Limited { written, .. } = self {
            written.steps += 1;
            written.tokens += tokens;
            written.longest = tokens.max(written.longest);
        }
    }

    /// Returns the token limits of `count` new steps of a chain that has `left` tokens: fewer than
    /// `count` limits if there is not a token for each.
    pub(super) fn token_limits(&mut self, left: usize, count: usize) -> Vec<usize> {
        match self {
            Self::Unlimited => vec![usize::MAX; count],
            Self::Limited { round: None, .. } => shares(left, count).take(left).collect(),
            Self::Limited {
                round: Some((each, extra)),
                ..
            } => {
                let shares = (0..count).map(|_| {
                    let one_more = usize::from(*extra > 0);
                    *extra -= one_more;
                    *each + one_more
                });
                shares.filter(|&share| share > 0).collect()
            }
        }
    }

    /// Reduces the actions of a strategy in rounds to what the budget allows. Chains are expanded
    /// in the strategy's order: as many as the tokens left after `spent` can bring to their end,
    /// and at least one.
    ///
    /// The remaining tokens are split evenly among the steps of the round. Few steps reach this
    /// limit.
    pub(super) fn afford(
        &mut self,
        actions: Vec<Action>,
        tree: &ChainTree,
        spent: usize,
    ) -> Vec<Action> {
        let Self::Limited {
            total,
            round,
            written,
        } = self
        else {
            return actions;
        };
        let left = total.saturating_sub(spent);
        if left == 0 {
            // Every chain is refused its step and ends with the reason `Budget`.
            *round = Some((0, 0));
            return actions;
        }
        let usual = mean_complete(tree);
        let (mut granted, mut unspent) = (0, left);
        let mut grant = |node: NodeId, asked: usize| {
            let each = written.still_needed(tree, node, usual);
            // The best chain gets its step even if the estimate exceeds what is left.
            let first = usize::from(granted == 0);
            let count = asked.min((unspent / each).max(first));
            granted += count;
            unspent = unspent.saturating_sub(count * each);
            count
        };
        let mut affordable = Vec::with_capacity(actions.len());
        for mut action in actions {
            let (node, count) = match &mut action {
                Action::Expand { node, count, .. } => {
                    *count = grant(*node, *count);
                    (*node, *count)
                }
                Action::Resume(node) => (*node, grant(*node, 1)),
                _ => {
                    affordable.push(action);
                    continue;
                }
            };
            if count > 0 {
                affordable.push(action);
            } else if tree.node(node).children.is_empty() {
                // A node with children stays: the search can continue from them. So only a leaf is
                // pruned.
                affordable.push(Action::Prune(node));
            }
        }
        *round = Some(match granted {
            0 => (0, 0),
            steps => (left / steps, left % steps),
        });
        affordable
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_chain_shares_what_it_has_left_among_its_children() {
        let mut budget = TokenBudget::new(10);
        assert_eq!(budget.token_limits(10, 4), [3, 3, 2, 2]);
        assert_eq!(budget.token_limits(2, 4), [1, 1]);
        assert!(budget.token_limits(0, 1).is_empty());
    }

    #[test]
    fn a_round_gives_out_what_is_left_and_no_more() {
        let mut budget = TokenBudget::Limited {
            total: 11,
            round: Some((3, 2)),
            written: Written::default(),
        };
        assert_eq!(budget.token_limits(0, 2), [4, 4]);
        assert_eq!(budget.token_limits(0, 1), [3]);
    }

    #[test]
    fn without_a_budget_nothing_is_limited() {
        assert_eq!(TokenBudget::new(0).token_limits(0, 2), [usize::MAX; 2]);
    }
}
