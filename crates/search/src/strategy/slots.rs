//! Places in a beam, shared by the strategies that keep the best chains.

use crate::aggregation::Aggregation;
use crate::tree::{ChainTree, NodeId, State};

/// A field of chains, cut to the best.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Kept {
    /// Open and paused chains that hold slots, with how many they hold, best first.
    pub survivors: Vec<(NodeId, usize)>,
    /// Slots held by complete chains.
    pub completed: usize,
    /// Open and paused chains without a slot.
    pub pruned: Vec<NodeId>,
}

impl Kept {
    /// Slots held by chains that can still grow.
    pub fn growing(&self) -> usize {
        self.survivors.iter().map(|&(_, held)| held).sum()
    }
}

/// Gives `slots` to the best chains of `field` by score. A text that was sampled k times holds up
/// to k of them, as it would if its k chains were kept apart, but it is scored and kept once.
pub(super) fn keep(
    tree: &ChainTree,
    mut field: Vec<NodeId>,
    slots: usize,
    aggregation: Aggregation,
) -> Kept {
    tree.sort_by_score(&mut field, aggregation);
    let mut kept = Kept::default();
    let mut free = slots;
    for id in field {
        let node = tree.node(id);
        let held = node.copies.min(free);
        free -= held;
        match (matches!(node.state, State::Finished(_)), held) {
            (true, _) => kept.completed += held,
            (false, 0) => kept.pruned.push(id),
            (false, _) => kept.survivors.push((id, held)),
        }
    }
    kept
}

/// `total` split into `parts` that differ by at most one, larger ones first.
pub(super) fn shares(total: usize, parts: usize) -> impl Iterator<Item = usize> {
    (0..parts).map(move |i| total / parts + usize::from(i < total % parts))
}
