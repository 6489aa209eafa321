use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use super::slots::{Slots, shares};
use super::{Action, DecodeMode, Start, Strategy, StrategySpec};
use crate::choose::Choose;
use crate::config::SearchConfig;
use crate::tree::{ChainTree, NodeId, State};

/// Diverse verifier tree search (DVTS): N/M independent subtrees, each a beam of one chain.
///
/// Each subtree samples M next steps of its chain (or one more or less if M does not divide N) and
/// keeps the best, so the chains of one subtree cannot displace those of another. A subtree ends
/// when its best chain is complete.
///
/// The root's N children are dealt to the subtrees in order. If two subtrees keep the same node, it
/// is expanded once for both, and its children are dealt to them in order. The rule for copies
/// ([`Copies`](super::Copies)) limits how many subtrees keep a node while they have another one.
///
/// With early rejection a subtree chooses among steps that pause after tau tokens.
///
/// Source: Beeching, Tunstall, Rush, *Scaling test-time compute with open models*, 2024
/// (<https://huggingface.co/spaces/HuggingFaceH4/blogpost-scaling-test-time-compute>).
#[derive(Debug, Clone)]
pub struct Dvts {
    n: usize,
    mode: DecodeMode,
    slots: Slots,
    subtrees: Vec<Subtree>,
}

#[derive(Debug, Clone)]
struct Subtree {
    /// The number of steps that the subtree samples in a round.
    width: usize,
    field: Field,
}

/// The candidates of a subtree.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Field {
    /// A range of the children of a node.
    Children(NodeId, Range<usize>),
    /// The chain that was chosen, until its next steps are requested.
    Chosen(NodeId),
    /// No candidates: the subtree has ended.
    Over,
}

impl Dvts {
    /// Makes N/M subtrees; the configuration must be valid.
    pub(super) fn of(config: &SearchConfig) -> Self {
        let widths = shares(config.n, config.n / config.m);
        let mut dealt = 0;
        let subtrees = widths.map(|width| {
            dealt += width;
            Subtree {
                width,
                field: Field::Children(ChainTree::ROOT, dealt - width..dealt),
            }
        });
        Self {
            n: config.n,
            mode: DecodeMode::paused_after(config.early_rejection),
            slots: Slots::of(config),
            subtrees: subtrees.collect(),
        }
    }
}

impl Subtree {
    fn contenders(&self, tree: &ChainTree) -> Vec<NodeId> {
        let nodes = match &self.field {
            Field::Children(parent, slice) => {
                let children = &tree.node(*parent).children;
                // If the budget is spent, there are fewer children than were dealt out.
                let end = slice.end.min(children.len());
                children.get(slice.start..end).unwrap_or(&[]).to_vec()
            }
            Field::Chosen(node) => vec![*node],
            Field::Over => Vec::new(),
        };
        let nodes = nodes.into_iter().map(|id| representative(tree, id));
        nodes.filter(|&id| contends(tree, id)).collect()
    }
}

fn contends(tree: &ChainTree, id: NodeId) -> bool {
    let node = tree.node(id);
    matches!(node.state, State::Open | State::Paused) || node.is_complete()
}

/// Returns the sibling that represents a duplicate; any other node represents itself.
fn representative(tree: &ChainTree, id: NodeId) -> NodeId {
    let node = tree.node(id);
    let Some(parent) = node.parent.filter(|_| node.state == State::Duplicate) else {
        return id;
    };
    let mut siblings = tree.node(parent).children.iter().copied();
    let twin = siblings.find(|&sibling| {
        let other = tree.node(sibling);
        other.copies > 1 && other.text == node.text && contends(tree, sibling)
    });
    twin.unwrap_or(id)
}

impl Strategy for Dvts {
    fn begin(&mut self, start: Start) -> Vec<Action> {
        for subtree in &mut self.subtrees {
            if let Field::Children(node, _) = &mut subtree.field {
                *node = start.node;
            }
        }
        vec![self.mode.expand(start.node, self.n)]
    }

    fn on_steps(&mut self, tree: &ChainTree, _: &[NodeId]) -> Vec<Action> {
        let mut rejected = BTreeSet::new();
        // The number of subtrees that chose each node.
        let mut chosen = BTreeMap::new();
        for subtree in &mut self.subtrees {
            let mut contenders = subtree.contenders(tree);
            self.slots.sort(tree, &mut contenders);
            let is_free = |id: &&NodeId| {
                let taken = chosen.get(*id).copied().unwrap_or(0);
                self.slots.wanted_by(taken + 1) > taken
            };
            // If all are taken, the subtree grows with another one.
            let best = contenders
                .iter()
                .find(is_free)
                .or(contenders.first())
                .copied();
            rejected.extend(contenders);
            if let Some(id) = best {
                *chosen.entry(id).or_insert(0) += 1;
            }
            subtree.field = match best {
                Some(node) if !tree.node(node).is_complete() => Field::Chosen(node),
                _ => Field::Over,
            };
        }
        // A complete chain stays a candidate for the answer, even if its subtree continues with a
        // better chain.
        let mut actions: Vec<Action> = rejected
            .iter()
            .filter(|id| !chosen.contains_key(id) && !tree.node(**id).is_complete())
            .map(|&id| Action::Prune(id))
            .collect();

        // Subtrees that chose a whole step wait: all choose again when the paused steps are
        // complete.
        let paused = |id: &NodeId| tree.node(*id).state == State::Paused;
        if chosen.keys().any(paused) {
            actions.extend(chosen.into_keys().filter(paused).map(Action::Resume));
            return actions;
        }

        let mut best: Vec<NodeId> = chosen.into_keys().collect();
        best.retain(|&id| tree.node(id).state == State::Open);
        self.slots.sort(tree, &mut best);
        // Best first: steps start in the order of the actions, so the best chain gets memory first.
        for node in best {
            let mut count = 0;
            for subtree in &mut self.subtrees {
                if subtree.field == Field::Chosen(node) {
                    subtree.field = Field::Children(node, count..count + subtree.width);
                    count += subtree.width;
                }
            }
            actions.push(self.mode.expand(node, count));
        }
        actions
    }
}

pub(super) const SPEC: StrategySpec = StrategySpec {
    rolls_out: true,
    paper: Some((
        "blog",
        "https://huggingface.co/spaces/HuggingFaceH4/blogpost-scaling-test-time-compute",
    )),
    uses_m: true,
    uses_copies: true,
    rejects_early: true,
    usual_choose: Choose::Weighted,
    ..StrategySpec::new(
        "dvts",
        "N/M independent subtrees, each keeps its own best chain",
        |config, _| Box::new(Dvts::of(config)),
    )
};

#[cfg(test)]
mod tests {
    use super::super::sim::World;
    use super::super::{BeamConfig, Copies};
    use super::*;
    use crate::finish::Finish;

    fn children(tree: &mut ChainTree, parent: NodeId, scores: &[f32]) -> Vec<NodeId> {
        let mut ids = Vec::new();
        for &score in scores {
            let id = tree.add_child(parent);
            let node = tree.node_mut(id);
            node.score = Some(score);
            node.state = State::Open;
            node.text = format!("{score}\n");
            ids.push(id);
        }
        ids
    }

    fn dvts(n: usize, m: usize) -> Dvts {
        rejecting(n, m, 0)
    }

    fn rejecting(n: usize, m: usize, early_rejection: usize) -> Dvts {
        Dvts::of(&SearchConfig {
            n,
            m,
            early_rejection,
            ..SearchConfig::default()
        })
    }

    #[test]
    fn each_subtree_keeps_its_own_best() {
        let mut tree = ChainTree::new();
        let ids = children(&mut tree, ChainTree::ROOT, &[0.9, 0.8, 0.7, 0.1, 0.3, 0.2]);
        let mut dvts = dvts(6, 3);
        assert_eq!(dvts.begin(START), [Action::expand(ChainTree::ROOT, 6)]);
        let actions = dvts.on_steps(&tree, &ids);
        assert_eq!(
            actions,
            [
                Action::Prune(ids[1]),
                Action::Prune(ids[2]),
                Action::Prune(ids[3]),
                Action::Prune(ids[5]),
                Action::expand(ids[0], 3),
                Action::expand(ids[4], 3),
            ]
        );
    }

    const START: Start = Start {
        node: ChainTree::ROOT,
        strategy_seed: 0,
        cache_tokens: 0,
    };

    #[test]
    fn sizes_differ_by_at_most_one() {
        let mut tree = ChainTree::new();
        let ids = children(
            &mut tree,
            ChainTree::ROOT,
            &[0.1, 0.2, 0.3, 0.6, 0.5, 0.4, 0.9, 0.8],
        );
        let actions = dvts(8, 3).on_steps(&tree, &ids);
        // 8 / 3 = 2 subtrees of 4.
        assert!(actions.ends_with(&[Action::expand(ids[6], 4), Action::expand(ids[3], 4)]));
        let mut tree = ChainTree::new();
        let ids = children(
            &mut tree,
            ChainTree::ROOT,
            &[0.1, 0.2, 0.3, 0.6, 0.5, 0.4, 0.9],
        );
        let actions = dvts(7, 2).on_steps(&tree, &ids);
        // The widths are 3, 2 and 2.
        let last = &actions[actions.len() - 3..];
        let expected = [(ids[6], 2), (ids[3], 2), (ids[2], 3)];
        assert_eq!(last, expected.map(|(id, count)| Action::expand(id, count)));
    }

    #[test]
    fn a_complete_best_ends_its_subtree_alone() {
        let mut tree = ChainTree::new();
        let ids = children(&mut tree, ChainTree::ROOT, &[0.9, 0.8, 0.4, 0.3]);
        tree.node_mut(ids[0]).state = State::Finished(Finish::Answer);
        tree.node_mut(ids[3]).state = State::Finished(Finish::Answer);
        let mut dvts = dvts(4, 2);
        let actions = dvts.on_steps(&tree, &ids);
        assert_eq!(actions, [Action::Prune(ids[1]), Action::expand(ids[2], 2)]);
        tree.node_mut(ids[2]).state = State::Expanded;
        let ids = children(&mut tree, ids[2], &[0.9]);
        tree.node_mut(ids[0]).state = State::Finished(Finish::StepCap);
        assert_eq!(dvts.on_steps(&tree, &ids), []);
    }

    #[test]
    fn subtrees_that_meet_share_a_node_and_its_children() {
        let mut tree = ChainTree::new();
        let ids = children(&mut tree, ChainTree::ROOT, &[0.9, 0.8, 0.9, 0.3]);
        tree.node_mut(ids[0]).copies = 2;
        tree.node_mut(ids[2]).state = State::Duplicate;
        let mut dvts = dvts(4, 2);
        let actions = dvts.on_steps(&tree, &[ids[0], ids[1], ids[3]]);
        assert_eq!(actions[2..], [Action::expand(ids[0], 4)]);
        tree.node_mut(ids[0]).state = State::Expanded;
        // One child is missing, as when the budget is spent.
        let ids = children(&mut tree, ids[0], &[0.5, 0.6, 0.7]);
        let actions = dvts.on_steps(&tree, &ids);
        assert_eq!(
            actions[1..],
            [Action::expand(ids[2], 2), Action::expand(ids[1], 2)]
        );
    }

    #[test]
    fn subtrees_take_different_nodes_if_copies_hold_one_slot() {
        for (copies, best) in [(Copies::Slots, vec![0]), (Copies::Distinct, vec![0, 1])] {
            let mut tree = ChainTree::new();
            let ids = children(&mut tree, ChainTree::ROOT, &[0.9, 0.8, 0.9, 0.8]);
            for (first, twin) in [(0, 2), (1, 3)] {
                tree.node_mut(ids[first]).copies = 2;
                tree.node_mut(ids[twin]).state = State::Duplicate;
            }
            let mut dvts = Dvts::of(&SearchConfig {
                n: 4,
                m: 2,
                beam: Some(BeamConfig {
                    copies,
                    margin: 0.0,
                }),
                ..SearchConfig::default()
            });
            let actions = dvts.on_steps(&tree, &ids[..2]);
            let expanded = actions.iter().filter_map(|action| match action {
                Action::Expand { node, .. } => Some(*node),
                _ => None,
            });
            let best: Vec<NodeId> = best.into_iter().map(|i: usize| ids[i]).collect();
            assert_eq!(expanded.collect::<Vec<_>>(), best, "{copies}");
        }
    }

    #[test]
    fn early_rejection_resumes_the_best_partial_steps_only() {
        let mut tree = ChainTree::new();
        let ids = children(&mut tree, ChainTree::ROOT, &[0.9, 0.8, 0.4, 0.3]);
        for &id in &ids[..2] {
            let node = tree.node_mut(id);
            node.state = State::Paused;
            node.partial_score = node.score.take();
        }
        let mut dvts = rejecting(4, 2, 5);
        let actions = dvts.on_steps(&tree, &ids);
        assert_eq!(
            actions,
            [
                Action::Prune(ids[1]),
                Action::Prune(ids[3]),
                Action::Resume(ids[0])
            ]
        );
        tree.node_mut(ids[0]).state = State::Open;
        tree.node_mut(ids[0]).score = Some(0.1);
        let mode = DecodeMode::PauseAfter(5);
        let grow = |node| Action::Expand {
            node,
            count: 2,
            mode,
        };
        assert_eq!(
            dvts.on_steps(&tree, &ids[..1]),
            [grow(ids[2]), grow(ids[0])]
        );
    }

    #[test]
    fn plays_to_the_end_within_n_chains() {
        for seed in 0..200 {
            let (n, m) = [(8, 2), (16, 4), (7, 2), (4, 4), (1, 1)][seed as usize % 5];
            let mut world = World::random(seed);
            for tau in [0, 4] {
                let played = world.play(&mut rejecting(n, m, tau));
                assert!(played.peak <= n);
            }
            world.token_limit = 11;
            assert!(world.play(&mut dvts(n, m)).grown <= 11);
        }
    }
}
