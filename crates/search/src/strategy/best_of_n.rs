use super::{Action, Scoring, Start, Strategy};
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
            true => Scoring::OnDemand,
            false => Scoring::Never,
        }
    }

    /// Chains are independent samples: equal ones count as many times as they were drawn.
    fn merges_siblings(&self) -> bool {
        false
    }

    fn in_rounds(&self) -> bool {
        false
    }

    fn begin(&mut self, _: Start) -> Vec<Action> {
        vec![Action::expand(ChainTree::ROOT, self.n)]
    }

    fn settled(&mut self, tree: &ChainTree, nodes: &[NodeId]) -> Vec<Action> {
        nodes
            .iter()
            .filter(|&&node| tree.node(node).state == State::Open)
            .map(|&node| Action::expand(node, 1))
            .collect()
    }
}
