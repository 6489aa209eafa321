use super::{Action, Scoring, Start, Strategy};
use crate::tree::{ChainTree, NodeId, State};

/// Flat best-of-N: N independent chains, each to its end; scored afterwards in one read.
///
/// Chain `i` does not depend on N: the first `k` chains are those of best-of-k.
#[derive(Debug, Clone)]
pub struct BestOfN {
    n: usize,
    scored: bool,
    in_rounds: bool,
    ended: usize,
}

impl BestOfN {
    /// `scored` says whether the finished chains go to the scorer (a plain majority vote needs no
    /// scores).
    pub fn new(n: usize, scored: bool) -> Self {
        Self {
            n,
            scored,
            in_rounds: false,
            ended: 0,
        }
    }

    /// One step of every chain at a time, so that what is known of the vote when it is decided does
    /// not depend on which chains happened to be written first.
    #[must_use]
    pub fn in_lockstep(mut self) -> Self {
        self.in_rounds = true;
        self
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
        self.in_rounds
    }

    fn begin(&mut self, _: Start) -> Vec<Action> {
        vec![Action::expand(ChainTree::ROOT, self.n)]
    }

    fn on_steps(&mut self, tree: &ChainTree, nodes: &[NodeId]) -> Vec<Action> {
        let open = nodes
            .iter()
            .filter(|&&node| tree.node(node).state == State::Open);
        let actions: Vec<Action> = open.map(|&node| Action::expand(node, 1)).collect();
        self.ended += nodes.len() - actions.len();
        actions
    }

    fn to_come(&self) -> Option<usize> {
        Some(self.n.saturating_sub(self.ended))
    }
}
