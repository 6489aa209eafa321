//! The slots of a beam, shared by the strategies that keep the best chains.

use crate::aggregation::Aggregation;
use crate::tree::{ChainTree, NodeId, State};

/// The chains with and without slots, after slots were given to candidates.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Kept {
    /// Open and paused chains with a slot, each with its number of slots, best first.
    pub survivors: Vec<(NodeId, usize)>,
    /// The number of slots of complete chains.
    pub completed: usize,
    /// Open and paused chains without a slot.
    pub pruned: Vec<NodeId>,
}

/// Gives `slots` to the best chains of `candidates` by score. A text that was sampled k times gets
/// up to k slots, as its k copies would separately, but it is scored and kept once.
pub(super) fn keep(
    tree: &ChainTree,
    mut candidates: Vec<NodeId>,
    slots: usize,
    aggregation: Aggregation,
) -> Kept {
    tree.sort_by_score(&mut candidates, aggregation);
    place(tree, candidates, slots)
}

/// Gives `slots` to the chains of `ranked`, in this order. A finished chain takes slots, too, but
/// no step is sampled for them.
pub(super) fn place(tree: &ChainTree, ranked: Vec<NodeId>, slots: usize) -> Kept {
    let mut kept = Kept::default();
    let mut free = slots;
    for id in ranked {
        let node = tree.node(id);
        let taken = node.copies.min(free);
        free -= taken;
        match (matches!(node.state, State::Finished(_)), taken) {
            (true, _) => kept.completed += taken,
            (false, 0) => kept.pruned.push(id),
            (false, _) => kept.survivors.push((id, taken)),
        }
    }
    kept
}

/// Returns the number of steps to sample in a round of a beam: N, less the part for the slots of
/// complete chains.
pub(super) fn budget(n: usize, slots: usize, completed: usize) -> usize {
    let growing = slots.saturating_sub(completed);
    shares(n, slots).take(growing).sum()
}

/// Divides `steps` among chains in proportion to their slots, in the order of the chains.
pub(super) fn divide(
    chains: &[(NodeId, usize)],
    steps: usize,
) -> impl Iterator<Item = (NodeId, usize)> {
    let mut shares = shares(steps, chains.iter().map(|&(_, slots)| slots).sum());
    chains
        .iter()
        .map(move |&(node, slots)| (node, shares.by_ref().take(slots).sum()))
}

/// Splits `total` into `parts` that differ by at most one, larger parts first.
pub(crate) fn shares(total: usize, parts: usize) -> impl Iterator<Item = usize> {
    (0..parts).map(move |i| total / parts + usize::from(i < total % parts))
}
