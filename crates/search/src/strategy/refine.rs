use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::{Action, Scoring, Start, Strategy, StrategySpec};
use crate::aggregation::Aggregation;
use crate::config::SearchConfig;
use crate::error::ConfigError;
use crate::tree::{ChainTree, NodeId, State};

/// The settings of [`Refine`], a table in a configuration.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default, expecting = "a table of keys")]
pub struct RefineConfig {
    /// The number of times that each chain is written again from its weakest step.
    pub rounds: usize,
}

impl Default for RefineConfig {
    fn default() -> Self {
        Self { rounds: 2 }
    }
}

impl RefineConfig {
    /// The largest number of rounds: all chains of all rounds stay in memory.
    pub const MAX_ROUNDS: usize = 1000;

    pub(crate) fn validate(&self) -> Result<(), ConfigError> {
        ConfigError::check_most("refine.rounds", self.rounds, Self::MAX_ROUNDS)
    }
}

/// Best-of-N whose chains are written again from their weakest step.
///
/// N independent chains are written and scored. In each round, every complete chain is written
/// again from its lowest-scored step (the first of several) to its end. Of the old and the new
/// chain, the one with the higher score stays; the old one if they are equal. The other gives no
/// answer.
///
/// A chain whose steps all score 1 stays as it is. A chain cut short by a limit is not written
/// again.
#[derive(Debug, Clone)]
pub struct Refine {
    n: usize,
    rounds: usize,
    /// The number of rounds begun.
    round: usize,
    aggregation: Aggregation,
    /// The node that all chains begin with: the root or the last given step.
    start: NodeId,
    /// Whether scores were requested that have not arrived yet.
    awaits_scores: bool,
    places: Vec<Place>,
}

/// One of the N chains, with the attempt to improve the chain.
#[derive(Debug, Clone, Default)]
struct Place {
    /// The last node of the best complete chain so far.
    best: Option<NodeId>,
    /// The newest step of the chain that is being written.
    tip: Option<NodeId>,
    /// The position of the chain's next step: the parent, and the index among the parent's
    /// children.
    next: Option<(NodeId, usize)>,
}

impl Refine {
    /// Makes the strategy; the configuration must be valid.
    pub(super) fn of(config: &SearchConfig) -> Self {
        Self {
            n: config.n,
            rounds: config.refine.rounds,
            round: 0,
            aggregation: config.aggregation,
            start: ChainTree::ROOT,
            awaits_scores: false,
            places: vec![Place::default(); config.n],
        }
    }

    /// Expands each of `parents` by one step, which belongs to the place of the same entry.
    fn grow(&mut self, tree: &ChainTree, parents: Vec<(usize, NodeId)>) -> Vec<Action> {
        // Several places may expand one parent, so each place notes which of the new children is
        // its own.
        let mut asked = BTreeMap::new();
        let mut actions = Vec::new();
        for (place, parent) in parents {
            let more = asked.entry(parent).or_insert(0);
            let index = tree.node(parent).children.len() + *more;
            *more += 1;
            self.places[place].next = Some((parent, index));
            actions.push(Action::expand(parent, 1));
        }
        actions
    }

    /// Asks for the next step of every chain that has not ended.
    fn write(&mut self, tree: &ChainTree) -> Vec<Action> {
        let mut open = Vec::new();
        for (i, place) in self.places.iter_mut().enumerate() {
            if let Some((parent, index)) = place.next.take() {
                // If the budget is spent, fewer steps are added than requested; a place without a
                // step keeps its old tip.
                let step = tree.node(parent).children.get(index).copied();
                place.tip = step.or(place.tip);
            }
            let tip = place.tip.filter(|&id| tree.node(id).state == State::Open);
            open.extend(tip.map(|id| (i, id)));
        }
        self.grow(tree, open)
    }

    fn ask_for_scores(&mut self, tree: &ChainTree) -> Vec<Action> {
        self.awaits_scores = true;
        let tips = self.places.iter().filter_map(|place| place.tip);
        let complete = tips.filter(|&id| tree.node(id).is_complete());
        complete.map(Action::Score).collect()
    }

    /// Keeps the better chain of each place and drops the other one.
    fn compare(&mut self, tree: &ChainTree) -> Vec<Action> {
        self.awaits_scores = false;
        let mut dropped = Vec::new();
        for place in &mut self.places {
            let Some(tip) = place.tip.take() else {
                continue;
            };
            // A chain without a score loses to any scored chain.
            let score = |id| {
                tree.chain_score(id, self.aggregation)
                    .unwrap_or(f32::NEG_INFINITY)
            };
            let complete = tree.node(tip).is_complete();
            // Strictly better: an equal chain must not replace the older one without need.
            let (winner, loser) = match place.best {
                None => (complete.then_some(tip), None),
                Some(best) if complete && score(tip) > score(best) => (Some(tip), Some(best)),
                Some(best) => (Some(best), Some(tip)),
            };
            if let (Some(winner), Some(loser)) = (winner, loser) {
                dropped.extend(not_shared(tree, loser, winner));
            } else if winner.is_none() && self.rounds > 0 {
                // The chain was cut short by a limit. Its steps will not be written again, so their
                // caches can go.
                let path = tree.path(tip);
                let sampled = path.into_iter().filter(|&id| id > self.start);
                dropped.extend(sampled.filter(|&id| id != tip));
            }
            place.best = winner;
        }
        dropped.into_iter().map(Action::Prune).collect()
    }

    /// Starts each complete chain again before its weakest step.
    fn rewrite(&mut self, tree: &ChainTree) -> Vec<Action> {
        if self.round == self.rounds {
            return Vec::new();
        }
        self.round += 1;
        let mut parents = Vec::new();
        for (i, place) in self.places.iter().enumerate() {
            let weak = place.best.and_then(|best| weakest(tree, best, self.start));
            let parent = weak.and_then(|step| tree.node(step).parent);
            parents.extend(parent.map(|parent| (i, parent)));
        }
        self.grow(tree, parents)
    }
}

/// Returns the step after `start` with the lowest score, the first of several; `None` if all score
/// 1.
fn weakest(tree: &ChainTree, end: NodeId, start: NodeId) -> Option<NodeId> {
    let scored = tree.path(end).into_iter().filter(|&id| id > start);
    let scored = scored.filter_map(|id| Some((tree.node(id).score?, id)));
    let (score, id) = scored.min_by(|a, b| a.0.total_cmp(&b.0))?;
    (score < 1.0).then_some(id)
}

/// Returns the nodes of the losing chain that the winning chain does not contain and that are not
/// pruned yet.
fn not_shared(tree: &ChainTree, loser: NodeId, winner: NodeId) -> Vec<NodeId> {
    let winning = tree.path(winner);
    let mut nodes = tree.path(loser);
    nodes.retain(|id| !winning.contains(id) && tree.node(*id).state != State::Pruned);
    nodes
}

impl Strategy for Refine {
    fn scoring(&self) -> Scoring {
        Scoring::OnDemand
    }

    /// Chains are independent samples, as in best-of-N: equal chains have a vote each.
    fn merges_siblings(&self) -> bool {
        false
    }

    /// A step may be replaced, which samples another child of its parent.
    fn keeps_expanded(&self, _: NodeId) -> bool {
        self.rounds > 0
    }

    fn begin(&mut self, start: Start) -> Vec<Action> {
        self.start = start.node;
        for (i, place) in self.places.iter_mut().enumerate() {
            place.next = Some((start.node, i));
        }
        vec![Action::expand(start.node, self.n)]
    }

    fn on_steps(&mut self, tree: &ChainTree, _: &[NodeId]) -> Vec<Action> {
        if !self.awaits_scores {
            let steps = self.write(tree);
            if !steps.is_empty() {
                return steps;
            }
            let scores = self.ask_for_scores(tree);
            if !scores.is_empty() {
                return scores;
            }
        }
        let mut actions = self.compare(tree);
        actions.extend(self.rewrite(tree));
        actions
    }
}

pub(super) const SPEC: StrategySpec = StrategySpec {
    steps: |config| most_chains(config).saturating_mul(config.max_steps),
    first_steps: most_chains,
    ..StrategySpec::new(
        "refine",
        "N whole chains, each written again from its weakest step",
        |config, _| Box::new(Refine::of(config)),
    )
};

/// Returns the number of chains of all rounds.
fn most_chains(config: &SearchConfig) -> usize {
    config
        .n
        .saturating_mul(config.refine.rounds.saturating_add(1))
}

#[cfg(test)]
mod tests {
    use super::super::sim::{Step, World};
    use super::*;
    use crate::finish::Finish;

    fn refine(n: usize, rounds: usize) -> Refine {
        Refine::of(&SearchConfig {
            n,
            refine: RefineConfig { rounds },
            ..SearchConfig::default()
        })
    }

    /// Makes chains of three steps, scored by `scores(depth, number among siblings)`.
    fn world(scores: impl Fn(u32, usize) -> f32 + 'static) -> World {
        World::scripted(move |tree, id, _| {
            let node = tree.node(id);
            let siblings = node
                .parent
                .map_or(&[][..], |parent| &tree.node(parent).children);
            let index = siblings
                .iter()
                .position(|&sibling| sibling == id)
                .unwrap_or(0);
            Step {
                text: format!("{}{index} ", node.depth),
                tokens: 1,
                score: scores(node.depth, index),
                partial_score: 0.0,
                logprob: 0.0,
                finish: (node.depth == 3).then_some(Finish::Answer),
            }
        })
    }

    /// Returns the nodes that were expanded, one entry per step.
    fn grown(actions: &[Action]) -> Vec<u32> {
        let parents = actions.iter().filter_map(|action| match action {
            Action::Expand { node, .. } => Some(node.0),
            _ => None,
        });
        parents.collect()
    }

    #[test]
    fn the_weakest_step_is_written_again_and_the_better_chain_stays() {
        let better = world(|depth, index| match (depth, index) {
            (2, 0) => 0.2,
            (2, _) => 0.6,
            (3, _) => 0.5,
            _ => 0.9,
        });
        let played = better.play(&mut refine(1, 1));
        // 1 -> 2 -> 3, then from 1 again: 4 -> 5.
        assert_eq!(grown(&played.actions), [0, 1, 2, 1, 4]);
        assert_eq!(played.complete(), ["10 21 30 "]);
        for id in [NodeId(2), NodeId(3)] {
            assert_eq!(played.tree.node(id).state, State::Pruned);
        }
        // In the next round its last step is the weakest; an equal one does not replace it.
        let played = better.play(&mut refine(1, 2));
        assert_eq!(grown(&played.actions), [0, 1, 2, 1, 4, 4]);
        assert_eq!(played.complete(), ["10 21 30 "]);
    }

    #[test]
    fn the_first_of_several_weakest_steps_may_be_the_very_first() {
        let played = world(|_, _| 0.5).play(&mut refine(2, 1));
        assert_eq!(grown(&played.actions)[5..7], [0, 0]);
        assert_eq!(played.complete(), ["10 20 30 ", "11 20 30 "]);
    }

    #[test]
    fn a_flawless_chain_stays() {
        let played = world(|_, _| 1.0).play(&mut refine(2, 3));
        assert_eq!(played.grown, 6);
    }

    #[test]
    fn a_chain_cut_short_is_not_written_again_and_replaces_none() {
        let mut world = world(|_, index| if index == 0 { 0.1 } else { 0.9 });
        world.max_steps = 2;
        assert_eq!(world.play(&mut refine(2, 2)).grown, 4);
        let script = world.script;
        let cut = World::scripted(move |tree, id, mode| {
            let mut step = script(tree, id, mode);
            let above = tree
                .node(id)
                .parent
                .map_or(0, |p| tree.node(p).children.len());
            if above > 1 {
                step.finish = Some(Finish::StepCap);
            }
            step
        });
        let played = cut.play(&mut refine(1, 1));
        assert_eq!(played.grown, 4);
        assert_eq!(played.complete(), ["10 20 30 "]);
    }

    #[test]
    fn plays_to_the_end_within_n_chains() {
        for seed in 0..200 {
            let n = [8, 16, 7, 4, 1][seed as usize % 5];
            let mut world = World::random(seed);
            let first = world.play(&mut refine(n, 0));
            let refined = world.play(&mut refine(n, 3));
            assert!(refined.peak <= n && refined.grown >= first.grown);
            assert_eq!(refined.complete().len(), first.complete().len());
            world.token_limit = 13;
            assert!(world.play(&mut refine(n, 2)).grown <= 13);
        }
    }
}
