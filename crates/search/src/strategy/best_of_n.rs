use super::{Action, Scoring, Strategy};
use crate::tree::{ChainTree, NodeId, State};

/// Flat best-of-N: N independent chains, each to its end; scored afterwards in one read.
///
/// Chain `i` does not depend on N: the first `k` chains are those of best-of-k.
#[derive(Debug, Clone)]
pub struct BestOfN {
    n: usize,
    scored: bool,
}

impl BestOfN {
    /// `scored` says whether the finished chains go to the scorer (a plain majority vote needs no
    /// scores).
    pub fn new(n: usize, scored: bool) -> Self {
        Self { n, scored }
    }
}

impl Strategy for BestOfN {
    fn scoring(&self) -> Scoring {
        match self.scored {
            true => Scoring::AtEnd,
            false => Scoring::Never,
        }
    }

    /// Chains are independent samples: equal ones count as many times as they were drawn.
    fn merges_siblings(&self) -> bool {
        false
    }

    fn begin(&mut self) -> Vec<Action> {
        vec![Action::Expand {
            node: ChainTree::ROOT,
            count: self.n,
        }]
    }

    fn settled(&mut self, tree: &ChainTree, nodes: &[NodeId], _: usize) -> Vec<Action> {
        nodes
            .iter()
            .filter(|&&node| tree.node(node).state == State::Open)
            .map(|&node| Action::Expand { node, count: 1 })
            .collect()
    }
}
