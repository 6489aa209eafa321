use super::slots::{Slots, divide};
use super::{Action, DecodeMode, Start, Strategy, StrategySpec};
use crate::choose::Choose;
use crate::config::SearchConfig;
use crate::tree::{ChainTree, NodeId, State};

/// Step-wise beam search: samples N steps, keeps the best N/M chains, samples N steps after those.
///
/// Open and complete chains compete for the N/M slots by score, so a poor chain gets no slot for
/// being complete. A text sampled k times under one parent is one candidate that holds up to k slots
/// ([`Copies`](super::Copies)). The search ends when the best N/M chains are all complete.
///
/// The slot of a complete chain is neither expanded nor refilled: its rows are free for other
/// problems. Chains cut short by a limit get no slot.
///
/// With early rejection (ER-PRM, <https://arxiv.org/abs/2508.01969>) a step pauses after tau tokens
/// and its beginning is scored. Only steps that keep a slot are written to their end or, with a
/// [margin](super::BeamConfig::margin), also those that score little below the last slot.
#[derive(Debug, Clone)]
pub struct Beam {
    n: usize,
    slots: Slots,
    mode: DecodeMode,
    /// The logits below the last slot from which a paused step is rejected.
    margin: f32,
    open: Vec<NodeId>,
    complete: Vec<NodeId>,
}

impl Beam {
    /// Makes a beam of N/M slots; the configuration must be valid.
    pub(super) fn of(config: &SearchConfig) -> Self {
        Self {
            n: config.n,
            slots: Slots::of(config),
            mode: DecodeMode::paused_after(config.early_rejection),
            margin: config.beam.as_ref().map_or(0.0, |beam| beam.margin),
            open: Vec::new(),
            complete: Vec::new(),
        }
    }
}

impl Strategy for Beam {
    fn begin(&mut self, start: Start) -> Vec<Action> {
        vec![self.mode.expand(start.node, self.n)]
    }

    fn on_steps(&mut self, tree: &ChainTree, nodes: &[NodeId]) -> Vec<Action> {
        for &id in nodes {
            match tree.node(id).state {
                State::Open | State::Paused => self.open.push(id),
                State::Finished(finish) if finish.is_complete() => self.complete.push(id),
                _ => {}
            }
        }
        // Complete chains compete in every round: a slot that they lose is expanded again.
        let field = self.open.drain(..).chain(self.complete.clone()).collect();
        let mut kept = self.slots.keep(tree, field);
        // All slots belong to complete chains, or no chain is left.
        if kept.survivors.is_empty() {
            return vec![Action::Done];
        }
        // Whole steps wait for the paused steps: all compete by their final scores in the next
        // call.
        let is_paused = |id: NodeId| tree.node(id).state == State::Paused;
        let slots = kept.survivors.iter().map(|&(id, _)| id);
        let mut waiting: Vec<NodeId> = slots.collect();
        if waiting.iter().chain(&kept.pruned).any(|&id| is_paused(id)) {
            waiting.extend(self.slots.take_near(tree, &mut kept, self.margin));
        }
        let mut actions: Vec<Action> = kept.pruned.iter().copied().map(Action::Prune).collect();
        if waiting.iter().any(|&id| is_paused(id)) {
            for id in waiting {
                if is_paused(id) {
                    actions.push(Action::Resume(id));
                } else {
                    self.open.push(id);
                }
            }
            return actions;
        }

        let steps = self.slots.budget(self.n, kept.completed);
        let expanded = divide(&kept.survivors, steps).map(|(node, count)| match count {
            0 => Action::Prune(node),
            count => self.mode.expand(node, count),
        });
        actions.extend(expanded);
        actions
    }
}

pub(super) const SPEC: StrategySpec = StrategySpec {
    rolls_out: true,
    uses_m: true,
    uses_copies: true,
    rejects_early: true,
    usual_choose: Choose::Weighted,
    needs_scorer: |_| Some("beam search"),
    ..StrategySpec::new(
        "beam",
        "the best N/M chains after every step, each expanded M times",
        |config, _| Box::new(Beam::of(config)),
    )
};

#[cfg(test)]
mod tests {
    use super::super::{BeamConfig, Copies};
    use super::*;
    use crate::finish::Finish;

    /// Makes a root with one scored child per entry; `true` for a complete child.
    fn tree(children: &[(f32, bool)]) -> (ChainTree, Vec<NodeId>) {
        let mut tree = ChainTree::new();
        let ids = children
            .iter()
            .map(|&(score, complete)| {
                let id = tree.add_child(ChainTree::ROOT);
                let node = tree.node_mut(id);
                node.score = Some(score);
                node.state = if complete {
                    State::Finished(Finish::Answer)
                } else {
                    State::Open
                };
                id
            })
            .collect();
        (tree, ids)
    }

    fn expansions(actions: &[Action]) -> Vec<(u32, usize)> {
        actions
            .iter()
            .filter_map(|action| match action {
                Action::Expand { node, count, .. } => Some((node.0, *count)),
                _ => None,
            })
            .collect()
    }

    fn sized(n: usize, m: usize) -> Beam {
        Beam::of(&SearchConfig {
            n,
            m,
            ..SearchConfig::default()
        })
    }

    fn round(n: usize, m: usize, children: &[(f32, bool)]) -> Vec<Action> {
        let (tree, ids) = tree(children);
        let mut beam = sized(n, m);
        beam.on_steps(&tree, &ids)
    }

    #[test]
    fn keeps_the_best_and_expands_them_in_score_order() {
        let actions = round(
            4,
            2,
            &[(0.1, false), (0.9, false), (0.3, false), (0.5, false)],
        );
        assert_eq!(expansions(&actions), [(2, 2), (4, 2)]);
        assert!(actions.contains(&Action::Prune(NodeId(1))));
        assert!(actions.contains(&Action::Prune(NodeId(3))));
    }

    #[test]
    fn of_equal_scores_the_earlier_nodes_are_kept() {
        let children = [(0.5, false); 4];
        assert_eq!(expansions(&round(4, 2, &children)), [(1, 2), (2, 2)]);
    }

    #[test]
    fn n_not_divisible_by_m_loses_no_budget() {
        let children: Vec<_> = (0..11).map(|i| (1.0 - i as f32 / 20.0, false)).collect();
        // 11 / 4 = 2 slots of 6 and 5; 11 / 3 = 3 slots of 4, 4 and 3.
        assert_eq!(expansions(&round(11, 4, &children)), [(1, 6), (2, 5)]);
        assert_eq!(
            expansions(&round(11, 3, &children)),
            [(1, 4), (2, 4), (3, 3)]
        );
    }

    #[test]
    fn fewer_candidates_than_slots_share_the_whole_budget() {
        assert_eq!(
            expansions(&round(16, 4, &[(0.2, false), (0.7, false), (0.1, false)])),
            [(2, 6), (1, 5), (3, 5)]
        );
    }

    #[test]
    fn a_text_sampled_often_holds_as_many_slots() {
        let (mut tree, ids) = tree(&[(0.9, false), (0.5, false), (0.3, false)]);
        tree.node_mut(ids[0]).copies = 3;
        let mut beam = sized(16, 4);
        let actions = beam.on_steps(&tree, &ids);
        assert_eq!(expansions(&actions), [(1, 12), (2, 4)]);
        assert!(actions.contains(&Action::Prune(NodeId(3))));

        tree.node_mut(ids[0]).copies = 9;
        let mut beam = sized(16, 4);
        assert_eq!(expansions(&beam.on_steps(&tree, &ids)), [(1, 16)]);
    }

    #[test]
    fn copies_hold_as_many_slots_as_their_rule_says() {
        let (mut tree, ids) = tree(&[(0.9, false), (0.5, false), (0.3, true), (0.2, false)]);
        tree.node_mut(ids[0]).copies = 3;
        tree.node_mut(ids[2]).copies = 2;
        for (copies, expanded) in [
            (Copies::Slots, vec![(1, 12), (2, 4)]),
            (Copies::Cap(2), vec![(1, 8), (2, 4)]),
            (Copies::Distinct, vec![(1, 4), (2, 4), (4, 4)]),
        ] {
            let mut beam = Beam::of(&SearchConfig {
                beam: Some(BeamConfig {
                    copies,
                    margin: 0.0,
                }),
                ..SearchConfig::default()
            });
            assert_eq!(
                expansions(&beam.on_steps(&tree, &ids)),
                expanded,
                "{copies}"
            );
        }
    }

    #[test]
    fn a_poor_finished_chain_takes_no_slot() {
        let actions = round(4, 2, &[(0.1, true), (0.9, false), (0.5, false)]);
        assert_eq!(expansions(&actions), [(2, 2), (3, 2)]);
    }

    #[test]
    fn a_good_finished_chain_frees_the_rows_of_its_slot() {
        let actions = round(4, 2, &[(0.95, true), (0.9, false), (0.5, false)]);
        assert_eq!(expansions(&actions), [(2, 2)]);
        assert!(actions.contains(&Action::Prune(NodeId(3))));
    }

    #[test]
    fn ends_when_the_best_are_all_complete() {
        let actions = round(4, 2, &[(0.95, true), (0.9, true), (0.5, false)]);
        assert_eq!(actions, [Action::Done]);
    }

    #[test]
    fn ends_when_nothing_is_left() {
        assert_eq!(round(4, 2, &[]), [Action::Done]);
        assert_eq!(round(4, 2, &[(0.9, true)]), [Action::Done]);
    }

    #[test]
    fn finished_chains_compete_in_later_rounds_too() {
        let (mut tree, ids) = tree(&[(0.6, true), (0.9, false)]);
        let mut beam = sized(1, 1);
        assert_eq!(expansions(&beam.on_steps(&tree, &ids)), [(2, 1)]);
        let child = tree.add_child(ids[1]);
        tree.node_mut(child).score = Some(0.4);
        tree.node_mut(child).state = State::Open;
        assert_eq!(beam.on_steps(&tree, &[child]), [Action::Done]);
    }
}
