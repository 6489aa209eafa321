use serde::{Deserialize, Serialize};

use super::slots::{Slots, divide};
use super::{Action, Scoring, Start, Strategy, StrategySpec, open};
use crate::choose::Choose;
use crate::config::SearchConfig;
use crate::error::ConfigError;
use crate::tree::{ChainTree, NodeId};

/// The settings of [`VariableGranularity`], a table in a configuration.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default, expecting = "a table of keys")]
pub struct VariableGranularityConfig {
    /// g: the number of steps between two reads by the scorer; 1 is beam search.
    pub granularity: usize,
}

impl Default for VariableGranularityConfig {
    fn default() -> Self {
        Self { granularity: 2 }
    }
}

impl VariableGranularityConfig {
    pub(crate) fn validate(&self) -> Result<(), ConfigError> {
        ConfigError::check_count("variable_granularity.granularity", self.granularity)
    }
}

/// Beam search that scores only every g-th step (VG-Search, <https://arxiv.org/abs/2505.11730>).
///
/// The N/M chains with a slot grow by g - 1 steps without being scored or branched. Then each of
/// them is branched M times, all new steps are scored at once, and the best N/M chains keep their
/// slots. In the first cycle all slots grow from the root, so it has g steps, too.
///
/// g = 1 is [`Beam`](super::Beam); a g beyond the length of chains is best-of-N/M.
#[derive(Debug, Clone)]
pub struct VariableGranularity {
    n: usize,
    slots: Slots,
    granularity: usize,
    stage: Stage,
    complete: Vec<NodeId>,
    /// Complete chains that are not scored yet.
    unscored: Vec<NodeId>,
}

/// The kind of steps or scores that the next call of `on_steps` reports.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    /// Chains grow without being scored, for this number of further steps before they branch.
    Extending(usize),
    Branching,
    Scoring,
}

impl VariableGranularity {
    /// Makes the strategy; the configuration must be valid.
    pub(super) fn of(config: &SearchConfig) -> Self {
        Self {
            n: config.n,
            slots: Slots::of(config),
            granularity: config.variable_granularity.granularity,
            stage: Stage::Branching,
            complete: Vec::new(),
            unscored: Vec::new(),
        }
    }

    /// Starts a cycle of g steps for the chains with a slot.
    fn cycle(&mut self, chains: &[(NodeId, usize)], completed: usize) -> Vec<Action> {
        match self.granularity - 1 {
            0 => self.branch(chains, completed),
            steps => self.extend(chains, steps),
        }
    }

    /// Asks for one step for every slot. A chain with several slots gets several children here.
    fn extend(&mut self, chains: &[(NodeId, usize)], steps: usize) -> Vec<Action> {
        self.stage = Stage::Extending(steps - 1);
        chains
            .iter()
            .map(|&(id, slots)| Action::expand(id, slots))
            .collect()
    }

    fn branch(&mut self, chains: &[(NodeId, usize)], completed: usize) -> Vec<Action> {
        self.stage = Stage::Branching;
        let steps = self.slots.budget(self.n, completed);
        divide(chains, steps)
            .map(|(id, count)| match count {
                0 => Action::Prune(id),
                count => Action::expand(id, count),
            })
            .collect()
    }

    fn score_new(&mut self, open: &[NodeId]) -> Vec<Action> {
        self.stage = Stage::Scoring;
        let mut new: Vec<NodeId> = self
            .unscored
            .drain(..)
            .chain(open.iter().copied())
            .collect();
        // In order of age, so that the order does not depend on when chains ended.
        new.sort_unstable();
        new.into_iter().map(Action::Score).collect()
    }

    fn select(&mut self, tree: &ChainTree, open: Vec<NodeId>) -> Vec<Action> {
        // A chain that turned out too long for the scorer is cut short and takes no slot.
        self.complete.retain(|&id| tree.node(id).is_complete());
        let field = open.into_iter().chain(self.complete.clone()).collect();
        let kept = self.slots.keep(tree, field);
        if kept.survivors.is_empty() {
            return vec![Action::Done];
        }
        let pruned = kept.pruned.iter().map(|&id| Action::Prune(id));
        let next = self.cycle(&kept.survivors, kept.completed);
        pruned.chain(next).collect()
    }

    /// Returns the number of slots of complete chains; `growing` of the slots belong to growing
    /// chains.
    fn completed(&self, tree: &ChainTree, growing: usize) -> usize {
        let copies = self.complete.iter().map(|&id| self.slots.wanted(tree, id));
        copies
            .sum::<usize>()
            .min(self.slots.count.saturating_sub(growing))
    }
}

impl Strategy for VariableGranularity {
    fn scoring(&self) -> Scoring {
        Scoring::OnDemand
    }

    fn begin(&mut self, start: Start) -> Vec<Action> {
        self.cycle(&[(start.node, self.slots.count)], 0)
    }

    fn on_steps(&mut self, tree: &ChainTree, nodes: &[NodeId]) -> Vec<Action> {
        let open = open(tree, nodes);
        if self.stage == Stage::Scoring {
            return self.select(tree, open);
        }
        // Chains that end now are scored in the next call of the scorer, together with the
        // branches.
        let ended = nodes.iter().filter(|id| tree.node(**id).is_complete());
        self.unscored.extend(ended.clone());
        self.complete.extend(ended);
        match self.stage {
            Stage::Extending(steps) if !open.is_empty() => {
                let chains: Vec<_> = open
                    .into_iter()
                    .map(|id| (id, self.slots.wanted(tree, id)))
                    .collect();
                match steps {
                    0 => {
                        let growing = chains.iter().map(|&(_, slots)| slots).sum();
                        self.branch(&chains, self.completed(tree, growing))
                    }
                    steps => self.extend(&chains, steps),
                }
            }
            _ => self.score_new(&open),
        }
    }
}

pub(super) const SPEC: StrategySpec = StrategySpec {
    paper: Some(("2505.11730", "https://arxiv.org/abs/2505.11730")),
    uses_m: true,
    uses_copies: true,
    usual_choose: Choose::Weighted,
    ..StrategySpec::new(
        "variable-granularity",
        "a beam that scores every g-th step only",
        |config, _| Box::new(VariableGranularity::of(config)),
    )
};

#[cfg(test)]
mod tests {
    use super::super::Beam;
    use super::super::sim::World;
    use super::*;
    use crate::tree::State;

    fn config(n: usize, m: usize, granularity: usize) -> SearchConfig {
        SearchConfig {
            n,
            m,
            variable_granularity: VariableGranularityConfig { granularity },
            ..SearchConfig::default()
        }
    }

    fn strategy(n: usize, m: usize, granularity: usize) -> VariableGranularity {
        VariableGranularity::of(&config(n, m, granularity))
    }

    #[test]
    fn scoring_every_step_is_beam_search() {
        for seed in 0..200 {
            let (n, m) = [(8, 2), (16, 4), (7, 2), (4, 4), (1, 1)][seed as usize % 5];
            let world = World::random(seed);
            let beam = world.play(&mut Beam::of(&config(n, m, 1)));
            let coarse = world.play(&mut strategy(n, m, 1));
            assert!(coarse.tree == beam.tree, "seed {seed}");
        }
    }

    /// Adds open steps with these scores, in the order of their streams.
    fn open(tree: &mut ChainTree, parent: NodeId, scores: &[Option<f32>]) -> Vec<NodeId> {
        let mut ids = Vec::new();
        for &score in scores {
            let id = tree.add_child(parent);
            tree.node_mut(id).state = State::Open;
            tree.node_mut(id).score = score;
            ids.push(id);
        }
        ids
    }

    #[test]
    fn a_cycle_extends_then_branches_then_scores() {
        let mut tree = ChainTree::new();
        let mut vg = strategy(4, 2, 3);
        let start = World::random(0).start;
        assert_eq!(vg.begin(start), [Action::expand(ChainTree::ROOT, 2)]);
        let first = open(&mut tree, ChainTree::ROOT, &[None, None]);
        tree.node_mut(first[0]).copies = 2;
        let actions = vg.on_steps(&tree, &first[..1]);
        assert_eq!(actions, [Action::expand(first[0], 2)]);
        let second = open(&mut tree, first[0], &[None, None]);
        let actions = vg.on_steps(&tree, &second);
        assert_eq!(
            actions,
            second
                .iter()
                .map(|&id| Action::expand(id, 2))
                .collect::<Vec<_>>()
        );
        let mut third = open(&mut tree, second[0], &[Some(0.1), Some(0.2)]);
        third.extend(open(&mut tree, second[1], &[Some(0.3), Some(0.4)]));
        let actions = vg.on_steps(&tree, &third);
        assert_eq!(
            actions,
            third
                .iter()
                .map(|&id| Action::Score(id))
                .collect::<Vec<_>>()
        );
        let actions = vg.on_steps(&tree, &third);
        assert_eq!(
            actions,
            [
                Action::Prune(third[1]),
                Action::Prune(third[0]),
                Action::expand(third[3], 1),
                Action::expand(third[2], 1),
            ]
        );
    }

    #[test]
    fn a_chain_that_ends_while_it_is_extended_is_scored_and_keeps_its_slot() {
        use crate::finish::Finish;
        let mut tree = ChainTree::new();
        let mut vg = strategy(4, 2, 2);
        vg.begin(World::random(0).start);
        let first = open(&mut tree, ChainTree::ROOT, &[Some(0.9), None]);
        tree.node_mut(first[0]).state = State::Finished(Finish::Answer);
        assert_eq!(vg.on_steps(&tree, &first), [Action::expand(first[1], 2)]);
        let second = open(&mut tree, first[1], &[Some(0.1), Some(0.2)]);
        let all = [first[0], second[0], second[1]];
        assert_eq!(vg.on_steps(&tree, &second), all.map(Action::Score));
        let actions = vg.on_steps(&tree, &all);
        assert_eq!(
            actions,
            [Action::Prune(second[0]), Action::expand(second[1], 1)]
        );
    }

    #[test]
    fn plays_to_the_end_within_n_chains() {
        for seed in 0..200 {
            let (n, m) = [(8, 2), (16, 4), (7, 2), (4, 4), (1, 1)][seed as usize % 5];
            let mut world = World::random(seed);
            for granularity in [2, 3, 20] {
                assert!(world.play(&mut strategy(n, m, granularity)).peak <= n);
            }
            world.token_limit = 13;
            assert!(world.play(&mut strategy(n, m, 2)).grown <= 13);
        }
    }
}
