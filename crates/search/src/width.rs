//! The effective width of a search: how many different chains continue.

use std::collections::HashMap;
use std::ops::AddAssign;

use serde::{Deserialize, Serialize};

use crate::tree::{ChainTree, NodeId, State};

/// The different chains that continued, summed over the steps of one search or of several.
///
/// A beam of N/M slots continues at most N/M chains, but copies of a text hold slots, too: then
/// fewer different chains continue. Chains with the same text count once. The problem and its given
/// steps are not counted, since every chain continues from them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Width {
    /// The number of steps (depths of the tree) after which a chain continued.
    pub rounds: u64,
    /// The number of different chains that continued, summed over `rounds`.
    pub chains: u64,
    /// The tokens of these chains up to the step, summed over chains and rounds.
    pub tokens: u64,
    /// The number of different tokens among them: a token that chains of a round share counts once.
    pub distinct_tokens: u64,
}

impl Width {
    /// Counts the chains that continued in `tree` after its first `given` steps.
    pub fn of(tree: &ChainTree, given: u32) -> Self {
        // The first node with the same text up to here. A node's parent comes before it.
        let mut first = HashMap::new();
        let mut same: Vec<NodeId> = Vec::with_capacity(tree.len());
        let mut rounds: Vec<Vec<NodeId>> = Vec::new();
        for (id, node) in tree.nodes() {
            let above = node.parent.map(|parent| same[parent.index()]);
            let text = *first.entry((above, &node.text)).or_insert(id);
            same.push(text);
            let Some(round) = node.depth.checked_sub(given + 1) else {
                continue;
            };
            if node.state == State::Expanded && !node.is_rollout {
                let round = round as usize;
                rounds.resize(rounds.len().max(round + 1), Vec::new());
                if !rounds[round].contains(&text) {
                    rounds[round].push(text);
                }
            }
        }
        let mut width = Self::default();
        for chains in rounds.iter().filter(|chains| !chains.is_empty()) {
            let tokens = chains.iter().map(|&id| tree.token_count(id) as u64);
            width += Self {
                rounds: 1,
                chains: chains.len() as u64,
                tokens: tokens.sum(),
                distinct_tokens: tree.distinct_tokens(chains) as u64,
            };
        }
        width
    }

    /// Returns the mean number of different chains that continued after a step; `None` if no chain
    /// did.
    pub fn mean(self) -> Option<f64> {
        (self.rounds > 0).then(|| self.chains as f64 / self.rounds as f64)
    }

    /// Returns the share of the chains' tokens that other chains of the round have, too: 0 for
    /// single chains, near 1 for many chains that differ only in their last step. `None` if no
    /// chain continued.
    pub fn shared(self) -> Option<f64> {
        (self.tokens > 0).then(|| 1.0 - self.distinct_tokens as f64 / self.tokens as f64)
    }
}

impl AddAssign for Width {
    fn add_assign(&mut self, other: Self) {
        self.rounds += other.rounds;
        self.chains += other.chains;
        self.tokens += other.tokens;
        self.distinct_tokens += other.distinct_tokens;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn add(tree: &mut ChainTree, parent: NodeId, text: &str, state: State) -> NodeId {
        let id = tree.add_child(parent);
        let node = tree.node_mut(id);
        node.text = text.to_owned();
        node.tokens = vec![7; text.len()];
        node.state = state;
        id
    }

    #[test]
    fn counts_texts_once_and_each_round_for_itself() {
        let mut tree = ChainTree::new();
        let root = ChainTree::ROOT;
        let a = add(&mut tree, root, "aa", State::Expanded);
        let again = add(&mut tree, root, "aa", State::Expanded);
        let b = add(&mut tree, root, "b", State::Expanded);
        add(&mut tree, root, "c", State::Pruned);
        add(&mut tree, a, "d", State::Expanded);
        add(&mut tree, again, "d", State::Expanded);
        add(&mut tree, a, "eee", State::Expanded);
        add(&mut tree, b, "f", State::Open);
        let width = Width::of(&tree, 0);
        // "aa" and "b", then "aad" and "aaeee", which share the tokens of "aa".
        let wanted = Width {
            rounds: 2,
            chains: 4,
            tokens: (2 + 1) + (3 + 5),
            distinct_tokens: (2 + 1) + (2 + 1 + 3),
        };
        assert_eq!(width, wanted);
        assert_eq!(width.mean(), Some(2.0));
        assert_eq!(width.shared(), Some(1.0 - 9.0 / 11.0));
        // The first step is given: only the second round is the search's.
        assert_eq!(Width::of(&tree, 1).chains, 2);
        assert_eq!(Width::of(&tree, 2).mean(), None);
    }
}
