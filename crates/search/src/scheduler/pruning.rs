//! Why chains are pruned: written into the tree for whoever wants to understand a search.

use crate::aggregation::Aggregation;
use crate::strategy::Action;
use crate::tree::{ChainTree, NodeId, PruneReason, Pruned, State};

/// The chains that a strategy decided about in one answer, and how it decided.
#[derive(Debug, Default)]
pub(super) struct Decision {
    round: Option<u32>,
    /// Chains that could have gone on, and complete ones; best score first.
    ranked: Vec<NodeId>,
    /// The lowest score of a chain that goes on.
    cutoff: Option<f32>,
    /// What the strategy itself dropped. Other nodes are dropped for want of budget.
    dropped: Vec<NodeId>,
}

impl Decision {
    /// The decision that `actions` are, before they are carried out.
    pub fn new(
        tree: &ChainTree,
        actions: &[Action],
        aggregation: Aggregation,
        round: Option<u32>,
    ) -> Self {
        let (mut dropped, mut going_on) = (Vec::new(), Vec::new());
        for action in actions {
            match *action {
                Action::Prune(node) => dropped.push(node),
                Action::Expand { node, .. } | Action::Resume(node) => going_on.push(node),
                Action::Score(_) | Action::Done => {}
            }
        }
        if dropped.is_empty() {
            return Self {
                round,
                ..Self::default()
            };
        }
        // An action may name a node that is not there; that is an error when it is carried out.
        let could_go_on = |&id: &NodeId| {
            tree.contains(id) && matches!(tree.node(id).state, State::Open | State::Paused)
        };
        let candidates = dropped.iter().chain(&going_on).copied();
        let mut ranked: Vec<NodeId> = candidates.filter(could_go_on).collect();
        let complete = tree.nodes().filter(|(_, node)| node.is_complete());
        ranked.extend(complete.map(|(id, _)| id));
        tree.sort_by_score(&mut ranked, aggregation);
        let scores = going_on.iter().filter(|id| could_go_on(id));
        let scores = scores.filter_map(|&id| tree.chain_score(id, aggregation));
        Self {
            round,
            ranked,
            cutoff: scores.min_by(f32::total_cmp),
            dropped,
        }
    }

    /// What the tree says of a node that is pruned on this decision.
    pub fn on(&self, node: NodeId) -> Pruned {
        let by_strategy = self.dropped.contains(&node);
        let place = self.ranked.iter().position(|&id| id == node);
        Pruned {
            reason: match by_strategy {
                true => PruneReason::NotChosen,
                false => PruneReason::Budget,
            },
            round: self.round,
            rank: place.filter(|_| by_strategy).map(|at| at as u32 + 1),
            candidates: place
                .filter(|_| by_strategy)
                .map(|_| self.ranked.len() as u32),
            cutoff: self.cutoff.filter(|_| by_strategy && place.is_some()),
        }
    }

    /// What the tree says of a node that is pruned because the search is over.
    pub fn search_over(round: Option<u32>) -> Pruned {
        Pruned {
            reason: PruneReason::SearchOver,
            round,
            rank: None,
            candidates: None,
            cutoff: None,
        }
    }
}
