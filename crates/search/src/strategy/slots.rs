//! Places in a beam, shared by the strategies that keep the best chains.

use crate::aggregation::Aggregation;
use crate::error::ConfigError;
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

/// The slots of a beam of N chains that are expanded M times: N/M.
///
/// # Errors
/// `n` or `m` is 0, or `n < m`.
pub(super) fn slots(n: usize, m: usize) -> Result<usize, ConfigError> {
    for (field, value) in [("n", n), ("m", m)] {
        if value == 0 {
            return Err(ConfigError::Zero { field });
        }
    }
    if n < m {
        return Err(ConfigError::FewerChainsThanFactor { n, m });
    }
    Ok(n / m)
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
    place(tree, field, slots)
}

/// Gives `slots` to the chains of `ranked`, in this order.
pub(super) fn place(tree: &ChainTree, ranked: Vec<NodeId>, slots: usize) -> Kept {
    let mut kept = Kept::default();
    let mut free = slots;
    for id in ranked {
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

/// Steps to sample in a round of a beam of N chains: N, less the share of the slots that complete
/// chains hold.
pub(super) fn budget(n: usize, slots: usize, completed: usize) -> usize {
    let growing = slots.saturating_sub(completed);
    shares(n, slots).take(growing).sum()
}

/// `steps` divided among chains by the slots that they hold, in their order.
pub(super) fn divide(
    chains: &[(NodeId, usize)],
    steps: usize,
) -> impl Iterator<Item = (NodeId, usize)> {
    let mut shares = shares(steps, chains.iter().map(|&(_, held)| held).sum());
    chains
        .iter()
        .map(move |&(node, held)| (node, shares.by_ref().take(held).sum()))
}

/// `total` split into `parts` that differ by at most one, larger ones first.
pub(super) fn shares(total: usize, parts: usize) -> impl Iterator<Item = usize> {
    (0..parts).map(move |i| total / parts + usize::from(i < total % parts))
}
