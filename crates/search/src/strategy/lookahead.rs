use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use super::slots::{Slots, divide};
use super::{Action, DecodeMode, Start, Strategy, StrategySpec};
use crate::aggregation::Aggregation;
use crate::choose::Choose;
use crate::config::SearchConfig;
use crate::tree::{ChainTree, NodeId, State, best_first};

/// The settings of [`Lookahead`], a table in a configuration.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default, expecting = "a table of keys")]
pub struct LookaheadConfig {
    /// k: the number of greedy steps after a step before it is ranked; 0 is beam search.
    pub steps: usize,
}

impl Default for LookaheadConfig {
    fn default() -> Self {
        Self { steps: 1 }
    }
}

/// Lookahead search: a [`Beam`](super::Beam) that ranks a step by the score of its chain k greedy
/// steps later (Snell et al., <https://arxiv.org/abs/2408.03314>).
///
/// Each new step is rolled out by up to k steps of the likeliest tokens, which are scored. The
/// aggregated score of the chain at the end of the rollout competes for the N/M slots. Rollouts are
/// then discarded, finished ones included, and give no answer.
///
/// A step that completes its chain competes with its own score. A round costs about k + 1 times as
/// much as a round of a beam.
#[derive(Debug, Clone)]
pub struct Lookahead {
    n: usize,
    slots: Slots,
    steps: usize,
    aggregation: Aggregation,
    /// The open steps of this round, each followed by the nodes of its rollout.
    candidates: Vec<Vec<NodeId>>,
    /// The number of greedy steps requested in this round.
    ahead: usize,
    complete: Vec<NodeId>,
    /// Steps chosen in earlier rounds that have growing or complete chains below them.
    expanded: Vec<NodeId>,
}

impl Lookahead {
    /// Makes the strategy; the configuration must be valid.
    pub(super) fn of(config: &SearchConfig) -> Self {
        Self {
            n: config.n,
            slots: Slots::of(config),
            steps: config.lookahead.steps,
            aggregation: config.aggregation,
            candidates: Vec::new(),
            ahead: 0,
            complete: Vec::new(),
            expanded: Vec::new(),
        }
    }

    /// Takes in new steps, or the next steps of the rollouts.
    fn take_in(&mut self, tree: &ChainTree, nodes: &[NodeId]) {
        for &id in nodes {
            let node = tree.node(id);
            // During the rollouts every reported node continues a rollout; before, all nodes are
            // new steps.
            let rollout = (self.ahead > 0).then(|| {
                self.candidates
                    .iter_mut()
                    .find(|r| r.last() == node.parent.as_ref())
            });
            match (rollout.flatten(), node.state) {
                (Some(rollout), _) => rollout.push(id),
                (None, State::Open) => self.candidates.push(vec![id]),
                (None, _) if node.is_complete() => self.complete.push(id),
                _ => {}
            }
        }
    }

    /// Asks for another greedy step of each rollout that can continue; for none if the rollouts
    /// have k steps.
    fn look_further(&mut self, tree: &ChainTree) -> Vec<Action> {
        if self.ahead == self.steps {
            return Vec::new();
        }
        self.ahead += 1;
        let ends = self.candidates.iter().filter_map(|rollout| rollout.last());
        let open = ends.filter(|&&id| tree.node(id).state == State::Open);
        open.map(|&node| DecodeMode::Greedy.expand(node, 1))
            .collect()
    }

    /// Returns candidates and complete chains, best first.
    fn ranked(&self, tree: &ChainTree) -> Vec<NodeId> {
        let value = |end| tree.chain_score(end, self.aggregation);
        // A step competes as itself, but with the chain score at the end of its rollout.
        let judged = self.candidates.iter().filter_map(|rollout| {
            let (&id, &end) = (rollout.first()?, rollout.last()?);
            // If a token budget ended the chain at the step itself, the step has no slot.
            let grows = matches!(tree.node(id).state, State::Open | State::Expanded);
            grows.then(|| (value(end), id))
        });
        let complete = self.complete.iter().map(|&id| (value(id), id));
        best_first(judged.chain(complete).collect())
    }

    /// Takes the earlier steps below which no chain is left.
    fn withered(&mut self, tree: &ChainTree, growing: &[NodeId]) -> Vec<NodeId> {
        let alive: BTreeSet<NodeId> = growing
            .iter()
            .chain(&self.complete)
            .flat_map(|&id| tree.path(id))
            .collect();
        let earlier = std::mem::take(&mut self.expanded);
        let (kept, withered) = earlier.into_iter().partition(|id| alive.contains(id));
        self.expanded = kept;
        withered
    }
}

impl Strategy for Lookahead {
    /// A step is expanded twice: into its rollout and, if it is chosen, into samples.
    fn keeps_expanded(&self, _: NodeId) -> bool {
        self.steps > 0
    }

    fn begin(&mut self, start: Start) -> Vec<Action> {
        vec![Action::expand(start.node, self.n)]
    }

    fn on_steps(&mut self, tree: &ChainTree, nodes: &[NodeId]) -> Vec<Action> {
        self.take_in(tree, nodes);
        let further = self.look_further(tree);
        if !further.is_empty() {
            return further;
        }

        let kept = self.slots.place(tree, self.ranked(tree));
        self.ahead = 0;
        let steps = self.slots.budget(self.n, kept.completed);
        let shares: Vec<(NodeId, usize)> = divide(&kept.survivors, steps).collect();
        let (growing, starved): (Vec<_>, Vec<_>) =
            shares.into_iter().partition(|&(_, count)| count > 0);

        let rollouts = std::mem::take(&mut self.candidates);
        let rollouts = rollouts.iter().flat_map(|rollout| &rollout[1..]);
        let thrown_away = rollouts.filter(|&&id| tree.node(id).state != State::Pruned);
        // Rollouts come first: a step can be pruned only when no node below it is left.
        let mut pruned: Vec<NodeId> = thrown_away.chain(&kept.pruned).copied().collect();
        pruned.extend(starved.into_iter().map(|(id, _)| id));
        if self.steps > 0 {
            let chosen: Vec<NodeId> = growing.iter().map(|&(id, _)| id).collect();
            pruned.extend(self.withered(tree, &chosen));
            self.expanded.extend(chosen);
        }
        let mut actions: Vec<Action> = pruned.into_iter().map(Action::Prune).collect();
        if growing.is_empty() {
            actions.push(Action::Done);
        }
        actions.extend(
            growing
                .into_iter()
                .map(|(id, count)| Action::expand(id, count)),
        );
        actions
    }
}

pub(super) const SPEC: StrategySpec = StrategySpec {
    paper: Some(("2408.03314", "https://arxiv.org/abs/2408.03314")),
    uses_m: true,
    uses_copies: true,
    usual_choose: Choose::Weighted,
    steps: |config| {
        let rounds = config
            .max_steps
            .saturating_mul(config.lookahead.steps.saturating_add(1));
        config.n.saturating_mul(rounds)
    },
    ..StrategySpec::new(
        "lookahead",
        "a beam that judges a step by where k greedy steps lead",
        |config, _| Box::new(Lookahead::of(config)),
    )
};

#[cfg(test)]
mod tests {
    use super::super::Beam;
    use super::super::sim::{Step, World};
    use super::*;
    use crate::finish::Finish;

    fn config(n: usize, m: usize, steps: usize) -> SearchConfig {
        SearchConfig {
            n,
            m,
            lookahead: LookaheadConfig { steps },
            ..SearchConfig::default()
        }
    }

    fn lookahead(n: usize, m: usize, steps: usize) -> Lookahead {
        Lookahead::of(&config(n, m, steps))
    }

    #[test]
    fn looking_no_step_ahead_is_beam_search() {
        for seed in 0..200 {
            let (n, m) = [(8, 2), (16, 4), (7, 2), (4, 4), (1, 1)][seed as usize % 5];
            let world = World::random(seed);
            let beam = world.play(&mut Beam::of(&config(n, m, 0)));
            let ahead = world.play(&mut lookahead(n, m, 0));
            assert!(ahead.tree == beam.tree, "seed {seed}");
        }
    }

    /// Makes two first steps, of which the better one leads to worse steps; a chain ends with its
    /// third step.
    fn tempting() -> World {
        World::scripted(|tree, id, _| {
            let node = tree.node(id);
            let path = tree.path(id);
            let bad = tree.node(ChainTree::ROOT).children.first() == path.first();
            let score = match (node.depth, bad) {
                (1, true) => 0.9,
                (1, false) => 0.8,
                (_, true) => 0.1,
                (_, false) => 0.7,
            };
            Step {
                text: format!("{bad} {}\n", node.depth),
                tokens: 1,
                score,
                partial_score: 0.0,
                logprob: 0.0,
                finish: (node.depth == 3).then_some(Finish::Answer),
            }
        })
    }

    #[test]
    fn a_step_is_worth_what_it_leads_to() {
        let chosen = |steps| tempting().play(&mut lookahead(2, 2, steps)).complete();
        assert_eq!(chosen(0), ["true 1\ntrue 2\ntrue 3\n"]);
        assert_eq!(chosen(1), ["false 1\nfalse 2\nfalse 3\n"]);
        // With two steps ahead the rollouts are complete chains, but their answers do not count.
        assert_eq!(chosen(2), ["false 1\nfalse 2\nfalse 3\n"]);
    }

    #[test]
    fn a_rollout_is_greedy_and_pruned_with_what_it_found() {
        fn add(tree: &mut ChainTree, parent: NodeId, score: f32, state: State) -> NodeId {
            let id = tree.add_child(parent);
            tree.node_mut(id).score = Some(score);
            tree.node_mut(id).state = state;
            id
        }
        let mut tree = ChainTree::new();
        let mut strategy = lookahead(2, 2, 1);
        let a = add(&mut tree, ChainTree::ROOT, 0.9, State::Open);
        let b = add(&mut tree, ChainTree::ROOT, 0.8, State::Open);
        let greedy = [a, b].map(|node| DecodeMode::Greedy.expand(node, 1));
        assert_eq!(strategy.on_steps(&tree, &[a, b]), greedy);
        let ra = add(&mut tree, a, 0.2, State::Finished(Finish::Answer));
        let rb = add(&mut tree, b, 0.3, State::Open);
        tree.node_mut(a).state = State::Expanded;
        tree.node_mut(b).state = State::Expanded;
        assert_eq!(
            strategy.on_steps(&tree, &[ra, rb]),
            [
                Action::Prune(ra),
                Action::Prune(rb),
                Action::Prune(a),
                Action::expand(b, 2),
            ]
        );
    }

    #[test]
    fn plays_to_the_end_within_n_chains() {
        for seed in 0..200 {
            let (n, m) = [(8, 2), (16, 4), (7, 2), (4, 4), (1, 1)][seed as usize % 5];
            let mut world = World::random(seed);
            for steps in [1, 3] {
                assert!(world.play(&mut lookahead(n, m, steps)).peak <= n);
            }
            world.token_limit = 23;
            assert!(world.play(&mut lookahead(n, m, 2)).grown <= 23);
        }
    }
}
