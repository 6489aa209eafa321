use serde::{Deserialize, Serialize};

use super::{Action, Scoring, Start, Strategy, StrategySpec, open};
use crate::aggregation::Aggregation;
use crate::config::SearchConfig;
use crate::error::ConfigError;
use crate::tree::{ChainTree, NodeId, State};

/// The settings of [`SpeculativeRejection`], a table in a configuration.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default, expecting = "a table of keys")]
pub struct SpeculativeRejectionConfig {
    /// The number of tokens that the growing chains of a problem may hold together; 0: the capacity
    /// of the generator's cache.
    pub memory_tokens: usize,
    /// alpha: the fraction of the chains that is dropped when memory is full.
    pub fraction: f32,
}

impl Default for SpeculativeRejectionConfig {
    fn default() -> Self {
        Self {
            memory_tokens: 0,
            fraction: 0.5,
        }
    }
}

impl SpeculativeRejectionConfig {
    pub(crate) fn validate(&self) -> Result<(), ConfigError> {
        let (field, words) = ("speculative_rejection.fraction", "above 0 and below 1");
        ConfigError::check_range(field, self.fraction, f32::MIN_POSITIVE..1.0, words)
    }
}

/// Speculative rejection: best-of-N that begins with as many chains as memory allows (Sun et al.,
/// <https://arxiv.org/abs/2410.20290>).
///
/// N chains grow one step at a time. The next steps are assumed to be as long as the last ones.
/// When they would no longer fit into memory, all chains are scored. The growing chains among the
/// worst fraction alpha are dropped; finished chains are ranked, too, but stay.
///
/// Each time at least one growing chain is dropped, and at least one chain stays. Shared prompts
/// are not counted.
#[derive(Debug, Clone)]
pub struct SpeculativeRejection {
    n: usize,
    fraction: f32,
    aggregation: Aggregation,
    memory_tokens: usize,
    /// Whether scores were requested that have not arrived yet.
    awaits_scores: bool,
    complete: Vec<NodeId>,
    /// Complete chains that are not scored yet.
    unscored: Vec<NodeId>,
}

impl SpeculativeRejection {
    /// Makes the strategy; the configuration must be valid.
    pub(super) fn of(config: &SearchConfig) -> Self {
        Self {
            n: config.n,
            fraction: config.speculative_rejection.fraction,
            aggregation: config.aggregation,
            memory_tokens: config.speculative_rejection.memory_tokens,
            awaits_scores: false,
            complete: Vec::new(),
            unscored: Vec::new(),
        }
    }

    /// Whether another step of each chain may not fit into memory.
    fn is_full(&self, tree: &ChainTree, open: &[NodeId]) -> bool {
        let next: usize = open.iter().map(|&id| tree.node(id).tokens.len()).sum();
        let chains = open.len() + self.complete.len();
        chains > 1 && tree.distinct_tokens(open) + next > self.memory_tokens
    }

    /// Splits the growing chains into those that stay and those to drop, both in order of age.
    fn reject(&mut self, tree: &ChainTree, open: &[NodeId]) -> (Vec<NodeId>, Vec<NodeId>) {
        self.complete.retain(|&id| tree.node(id).is_complete());
        let mut ranked: Vec<NodeId> = open.iter().chain(&self.complete).copied().collect();
        tree.sort_by_score(&mut ranked, self.aggregation);
        let is_open = |id: &NodeId| tree.node(*id).state == State::Open;
        let worst = (ranked.len() as f32 * self.fraction) as usize;
        let first_worst = ranked.len() - worst;
        let mut dropped = ranked.split_off(first_worst);
        dropped.retain(is_open);
        // All of the worst fraction have ended, and dropping ended chains frees no memory. So the
        // worst growing chain is dropped instead.
        if dropped.is_empty() && ranked.len() > 1 {
            let last = ranked.iter().rposition(is_open);
            dropped.extend(last.map(|at| ranked.remove(at)));
        }
        ranked.retain(is_open);
        // Back in order of age, so that steps start in the same order whatever their scores.
        ranked.sort_unstable();
        dropped.sort_unstable();
        (ranked, dropped)
    }
}

impl Strategy for SpeculativeRejection {
    fn scoring(&self) -> Scoring {
        Scoring::OnDemand
    }

    /// Chains are independent samples, as in best-of-N: equal chains have a vote each.
    fn merges_siblings(&self) -> bool {
        false
    }

    fn begin(&mut self, start: Start) -> Vec<Action> {
        if self.memory_tokens == 0 {
            self.memory_tokens = start.cache_tokens;
        }
        vec![Action::expand(start.node, self.n)]
    }

    fn on_steps(&mut self, tree: &ChainTree, nodes: &[NodeId]) -> Vec<Action> {
        let mut open = open(tree, nodes);
        let mut actions = Vec::new();
        if self.awaits_scores {
            self.awaits_scores = false;
            let (kept, dropped) = self.reject(tree, &open);
            open = kept;
            actions.extend(dropped.into_iter().map(Action::Prune));
        } else {
            let ended = nodes.iter().filter(|&&id| tree.node(id).is_complete());
            self.unscored.extend(ended.clone());
            self.complete.extend(ended);
            if !open.is_empty() && self.is_full(tree, &open) {
                self.awaits_scores = true;
                // Complete chains are scored in the same call, so that they can be ranked with the
                // growing ones.
                open.append(&mut self.unscored);
                open.sort_unstable();
                return open.into_iter().map(Action::Score).collect();
            }
        }
        actions.extend(open.into_iter().map(|id| Action::expand(id, 1)));
        actions
    }
}

pub(super) const SPEC: StrategySpec = StrategySpec {
    branches: false,
    paper: Some(("2410.20290", "https://arxiv.org/abs/2410.20290")),
    ..StrategySpec::new(
        "speculative-rejection",
        "N whole chains, the worst half dropped when memory is full",
        |config, _| Box::new(SpeculativeRejection::of(config)),
    )
};

#[cfg(test)]
mod tests {
    use super::super::sim::World;
    use super::*;
    use crate::finish::Finish;

    fn strategy(n: usize, memory_tokens: usize, fraction: f32) -> SpeculativeRejection {
        let speculative_rejection = SpeculativeRejectionConfig {
            memory_tokens,
            fraction,
        };
        SpeculativeRejection::of(&SearchConfig {
            n,
            speculative_rejection,
            ..SearchConfig::default()
        })
    }

    /// Makes steps of 10 tokens under the root with these scores; `true` for complete.
    fn tree(children: &[(f32, bool)]) -> (ChainTree, Vec<NodeId>) {
        let mut tree = ChainTree::new();
        let mut ids = Vec::new();
        for &(score, complete) in children {
            let id = tree.add_child(ChainTree::ROOT);
            let node = tree.node_mut(id);
            node.score = Some(score);
            node.tokens = vec![0; 10];
            node.state = if complete {
                State::Finished(Finish::Answer)
            } else {
                State::Open
            };
            ids.push(id);
        }
        (tree, ids)
    }

    #[test]
    fn nothing_is_scored_while_memory_lasts() {
        let (tree, ids) = tree(&[(0.1, false), (0.2, false), (0.3, true)]);
        let grow = [Action::expand(ids[0], 1), Action::expand(ids[1], 1)];
        // 20 tokens now, 40 after the next steps.
        assert_eq!(strategy(3, 40, 0.5).on_steps(&tree, &ids), grow);
        let all: Vec<Action> = ids.iter().map(|&id| Action::Score(id)).collect();
        assert_eq!(strategy(3, 39, 0.5).on_steps(&tree, &ids), all);
        // The whole cache, if nothing else is said.
        let mut whole = strategy(3, 0, 0.5);
        let start = Start {
            node: ChainTree::ROOT,
            strategy_seed: 0,
            cache_tokens: 39,
        };
        assert_eq!(whole.begin(start), [Action::expand(ChainTree::ROOT, 3)]);
        assert_eq!(whole.on_steps(&tree, &ids), all);
    }

    /// Returns the chains that are dropped and those that continue when memory is full.
    fn rejection(children: &[(f32, bool)], fraction: f32) -> (Vec<u32>, Vec<u32>) {
        let (tree, ids) = tree(children);
        let mut strategy = strategy(children.len(), 1, fraction);
        strategy.on_steps(&tree, &ids);
        let (mut dropped, mut grown) = (Vec::new(), Vec::new());
        for action in strategy.on_steps(&tree, &ids) {
            match action {
                Action::Prune(id) => dropped.push(id.0),
                Action::Expand { node, .. } => grown.push(node.0),
                other => panic!("{other:?}"),
            }
        }
        (dropped, grown)
    }

    #[test]
    fn the_worst_fraction_goes_finished_chains_counted_in() {
        let open = [(0.1, false), (0.9, false), (0.5, false), (0.3, false)];
        assert_eq!(rejection(&open, 0.5), (vec![1, 4], vec![2, 3]));
        assert_eq!(rejection(&open, 0.75), (vec![1, 3, 4], vec![2]));
        let mixed = [(0.1, true), (0.9, false), (0.5, true), (0.3, false)];
        assert_eq!(rejection(&mixed, 0.5), (vec![4], vec![2]));
    }

    #[test]
    fn some_growing_chain_goes_and_some_chain_stays() {
        let finished_worse = [(0.1, true), (0.2, true), (0.5, false), (0.9, false)];
        assert_eq!(rejection(&finished_worse, 0.5), (vec![3], vec![4]));
        let slight = [(0.4, false), (0.5, false), (0.9, false)];
        assert_eq!(rejection(&slight, 0.1), (vec![1], vec![2, 3]));
        assert_eq!(rejection(&slight, 0.99), (vec![1, 2], vec![3]));
        // A single chain is never rejected.
        let (tree, ids) = tree(&[(0.1, false)]);
        let actions = strategy(1, 1, 0.5).on_steps(&tree, &ids);
        assert_eq!(actions, [Action::expand(ids[0], 1)]);
    }

    #[test]
    fn plays_to_the_end_within_n_chains() {
        for seed in 0..200 {
            let n = [8, 16, 7, 4, 1][seed as usize % 5];
            let mut world = World::random(seed);
            let whole = world.play(&mut strategy(n, 0, 0.5));
            assert!(!whole.actions.iter().any(|a| matches!(a, Action::Score(_))));
            let tight = world.play(&mut strategy(n, 60, 0.5));
            assert!(tight.peak <= n && tight.grown <= whole.grown);
            world.token_limit = 13;
            assert!(world.play(&mut strategy(n, 60, 0.5)).grown <= 13);
        }
    }
}
