//! The margin of early rejection, learnt from searches that paused steps and rejected few of them.

use std::collections::BTreeMap;

use beamgen_search::{
    Aggregation, ChainTree, Node, NodeId, PruneReason, SearchConfig, State, logits_below,
};

use crate::metrics::wilson;

/// A step whose beginning had no slot, in a search that wrote it to its end.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Pause {
    /// The logits by which the chain score at the pause was below that of the last slot, 0 or more.
    pub below: f64,
    /// Whether the whole step got a slot.
    pub kept: bool,
}

/// The margin below which steps rarely reach a slot.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Margin {
    /// The logits, for `search.beam.margin`.
    pub logits: f64,
    /// The number of steps whose beginnings were so far below the last slot.
    pub steps: usize,
    /// The number of these steps that reached a slot.
    pub kept: usize,
}

/// Returns the pauses of a beam's tree. Beginnings that had a slot, and steps that were rejected at
/// their pause, tell nothing about what lies below the last slot.
#[must_use]
pub fn pauses(tree: &ChainTree, search: &SearchConfig) -> Vec<Pause> {
    let slots = search.n / search.m;
    let mut rounds: BTreeMap<u32, Vec<NodeId>> = BTreeMap::new();
    let mut ends: Vec<(u32, NodeId)> = Vec::new();
    for (id, node) in tree.nodes().filter(|(_, node)| !node.is_rollout) {
        let Some(round) = node.round else { continue };
        rounds.entry(round).or_default().push(id);
        if node.is_complete() {
            ends.push((round, id));
        }
    }
    let mut pauses = Vec::new();
    for (&round, steps) in &rounds {
        let earlier = ends.iter().filter(|(ended, _)| *ended < round);
        let others = earlier.filter_map(|&(_, id)| tree.chain_score(id, search.aggregation));
        let paused = steps.iter().filter_map(|&id| {
            let score = at_pause(tree, id, search.aggregation)?;
            Some((id, score))
        });
        let paused: Vec<(NodeId, f32)> = paused.collect();
        let mut ranked: Vec<f32> = others
            .chain(paused.iter().map(|&(_, score)| score))
            .collect();
        ranked.sort_by(|a, b| b.total_cmp(a));
        let Some(&cutoff) = ranked.get(slots.saturating_sub(1)) else {
            continue;
        };
        for (id, score) in paused.into_iter().filter(|&(_, score)| score < cutoff) {
            if let Some(kept) = is_kept(tree, tree.node(id)) {
                let below = logits_below(cutoff, score);
                pauses.push(Pause { below, kept });
            }
        }
    }
    pauses
}

/// Returns the chain score with which a step competed at the pause of its round: the partial score
/// of a paused step, the score of a step that had closed before.
fn at_pause(tree: &ChainTree, id: NodeId, aggregation: Aggregation) -> Option<f32> {
    let path = tree.path(id);
    let last = path.len().checked_sub(1)?;
    let scores = path.iter().enumerate().filter_map(|(at, &id)| {
        let node = tree.node(id);
        let paused = node.partial_score.filter(|_| at == last);
        let score = paused.or(node.score)?;
        Some(aggregation.weighed(score, node.logprob))
    });
    aggregation.fold(scores)
}

/// Whether a step that paused and was then written to its end got a slot; `None` for other steps.
fn is_kept(tree: &ChainTree, node: &Node) -> Option<bool> {
    node.partial_score?;
    match node.state {
        State::Expanded | State::Finished(_) => Some(true),
        // A copy is kept with the sibling that represents it.
        State::Duplicate => is_kept(tree, tree.node(node.duplicate_of?)),
        // A step without a score was rejected at its pause.
        State::Pruned => {
            let chosen = node
                .pruned
                .is_none_or(|why| why.reason == PruneReason::NotChosen);
            (node.score.is_some() && chosen).then_some(false)
        }
        State::Growing | State::Paused | State::Open => None,
    }
}

impl Margin {
    /// Returns the smallest margin beyond which a step reaches a slot with less than `chance`: the
    /// upper end of Wilson's 95 % interval of the share is below it. `None` if no margin is sure.
    #[must_use]
    pub fn of(pauses: &[Pause], chance: f64) -> Option<Self> {
        let mut far_first: Vec<Pause> = pauses.to_vec();
        far_first.sort_by(|a, b| b.below.total_cmp(&a.below));
        let (mut best, mut kept) = (None, 0);
        for (at, pause) in far_first.iter().enumerate() {
            kept += usize::from(pause.kept);
            // Pauses of one distance are in or out together.
            let next = far_first.get(at + 1);
            if next.is_some_and(|next| next.below == pause.below) {
                continue;
            }
            let steps = at + 1;
            if wilson(kept as f64 / steps as f64, steps).1 < chance {
                best = Some(Self {
                    logits: pause.below,
                    steps,
                    kept,
                });
            }
        }
        best
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pause(below: f64, kept: bool) -> Pause {
        Pause { below, kept }
    }

    #[test]
    fn the_margin_is_the_nearest_one_that_is_sure() {
        // 200 steps far below, of which none is kept; nearer, every other one is.
        let far = (0..200).map(|i| pause(5.0 + f64::from(i), false));
        let near = (0..50).map(|i| pause(1.0 + f64::from(i) / 100.0, i % 2 == 0));
        let all: Vec<Pause> = near.chain(far).collect();
        let margin = Margin::of(&all, 0.05).unwrap();
        assert!((1.4..=5.0).contains(&margin.logits), "{margin:?}");
        assert!(margin.steps >= 200 && margin.kept <= 5);
        assert_eq!(Margin::of(&all[..50], 0.05), None);
        // Ten steps of which none is kept are too few to be sure.
        assert_eq!(Margin::of(&all[50..60], 0.05), None);
        assert_eq!(Margin::of(&[], 0.05), None);
        // Steps of one distance cannot be told apart.
        let tied = [vec![pause(2.0, false); 100], vec![pause(2.0, true); 20]].concat();
        assert_eq!(Margin::of(&tied, 0.05), None);
    }

    #[test]
    fn pauses_are_read_from_a_tree() {
        let json = serde_json::json!([
            node(None, &[1, 2, 3, 4], 0, None, None, "expanded", None),
            node(Some(0), &[], 1, Some(0.5), Some(0.9), "expanded", Some(1)),
            node(Some(0), &[], 1, Some(0.4), Some(0.95), "expanded", Some(1)),
            node(Some(0), &[], 1, Some(0.2), Some(0.3), "pruned", Some(1)),
            node(Some(0), &[], 1, Some(0.1), None, "pruned", Some(1)),
        ]);
        let tree: ChainTree = serde_json::from_value(json).unwrap();
        let search = SearchConfig {
            n: 4,
            m: 4,
            ..SearchConfig::default()
        };
        // One slot: 0.5 had it. Node 2 reached it, node 3 did not, node 4 was rejected at its pause.
        let found = pauses(&tree, &search);
        let logit = |p: f64| (p / (1.0 - p)).ln();
        assert_eq!(
            found.iter().map(|p| p.kept).collect::<Vec<_>>(),
            [true, false]
        );
        for (pause, score) in found.iter().zip([0.4, 0.2]) {
            assert!((pause.below + logit(score)).abs() < 1e-6, "{pause:?}");
        }
        let two = SearchConfig { m: 2, ..search };
        assert_eq!(pauses(&tree, &two).len(), 1);
    }

    fn node(
        parent: Option<u32>,
        children: &[u32],
        depth: u32,
        partial: Option<f32>,
        score: Option<f32>,
        state: &str,
        round: Option<u32>,
    ) -> serde_json::Value {
        serde_json::json!({
            "parent": parent, "children": children, "depth": depth, "stream": 0, "tokens": [1], "text": "a\n",
            "logprob": 0.0, "score": score, "partial_score": partial, "state": state, "round": round,
        })
    }
}
