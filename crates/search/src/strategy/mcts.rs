use serde::{Deserialize, Serialize};

use super::slots::slots;
use super::{Action, KeysSpec, Scoring, Start, Strategy, StrategyKeys, StrategySpec};
use crate::aggregation::Aggregation;
use crate::config::SearchConfig;
use crate::error::ConfigError;
use crate::tree::{ChainTree, NodeId, State};

/// Keys of [`Mcts`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct MctsConfig {
    /// Leaves to select; 0: 8 N/M, as many steps as eight rounds of a beam.
    pub simulations: usize,
    /// c of PUCT: how much the generator's preference and novelty count against value.
    pub exploration: f32,
    /// Lost visits that each leaf in the making counts for, so that leaves selected at once differ.
    pub virtual_loss: f32,
}

impl Default for MctsConfig {
    fn default() -> Self {
        Self {
            simulations: 0,
            exploration: 1.25,
            virtual_loss: 1.0,
        }
    }
}

impl StrategyKeys for MctsConfig {
    const TABLE: &'static str = "mcts";

    fn validate(&self) -> Result<(), ConfigError> {
        ConfigError::check_most("mcts.simulations", self.simulations, Self::MAX_SIMULATIONS)?;
        let words = "0 or a positive number";
        ConfigError::check_range("mcts.exploration", self.exploration, 0.0.., words)?;
        ConfigError::check_range("mcts.virtual_loss", self.virtual_loss, 0.0.., words)
    }
}

impl MctsConfig {
    /// Most simulations. Each looks at the whole tree, also where it only selects a complete leaf
    /// again.
    pub const MAX_SIMULATIONS: usize = 1_000_000;
}

/// Monte Carlo tree search with the scorer in place of rollouts.
///
/// A simulation goes from the root to a leaf, at each node to the child with the highest
/// Q + c P sqrt(V) / (1 + v): Q is the mean of the values seen at or below the child, P the softmax
/// among siblings of the mean log-probability of their tokens, V and v the visits of the
/// node and the child. The leaf is expanded into M steps, and the best of their chain scores is the
/// value that all nodes above see; a node's first value is its own chain score. A complete leaf
/// may be selected again, at no cost: its own score is seen once more.
///
/// N/2M leaves (at least one) are selected at once, with virtual loss, so that the batch has rows
/// to compute. No more than N chains are alive: N/2 grow, and the best other leaves by Q are
/// remembered. If no chain is complete when the simulations are over, the best leaf alone goes on,
/// and then the best below it, until one is.
///
/// PUCT as in AlphaZero (<https://arxiv.org/abs/1712.01815>); with process rewards:
/// OpenR (<https://arxiv.org/abs/2410.09671>).
#[derive(Debug, Clone)]
pub struct Mcts {
    n: usize,
    m: usize,
    exploration: f64,
    virtual_loss: f64,
    aggregation: Aggregation,
    /// Leaves selected at once.
    parallel: usize,
    simulations_left: usize,
    /// By node.
    seen: Vec<Seen>,
    /// Leaves that are being expanded.
    batch: Vec<NodeId>,
    /// The leaf that went on alone last, after the simulations.
    alone: Option<NodeId>,
}

/// What a node has seen.
#[derive(Debug, Clone, Copy, Default)]
struct Seen {
    visits: f64,
    /// Sum of the values.
    total: f64,
    /// Leaves of the batch at or below it.
    pending: f64,
}

impl Mcts {
    /// # Errors
    /// `n` or `m` is 0, `n < m`, or a number is negative.
    pub fn new(
        n: usize,
        m: usize,
        config: &MctsConfig,
        aggregation: Aggregation,
    ) -> Result<Self, ConfigError> {
        let slots = slots(n, m)?;
        config.validate()?;
        Ok(Self {
            n,
            m,
            exploration: f64::from(config.exploration),
            virtual_loss: f64::from(config.virtual_loss),
            aggregation,
            parallel: (slots / 2).max(1),
            simulations_left: match config.simulations {
                0 => 8 * slots,
                simulations => simulations,
            },
            seen: Vec::new(),
            batch: Vec::new(),
            alone: None,
        })
    }

    fn value(&self, tree: &ChainTree, id: NodeId) -> f64 {
        f64::from(tree.chain_score(id, self.aggregation).unwrap_or(0.0))
    }

    /// Shows `value` to a node and all above it.
    fn back_up(&mut self, tree: &ChainTree, from: NodeId, value: f64) {
        self.above(tree, from, |seen| {
            seen.visits += 1.0;
            seen.total += value;
        });
    }

    fn above(&mut self, tree: &ChainTree, from: NodeId, change: impl Fn(&mut Seen)) {
        let mut at = Some(from);
        while let Some(id) = at {
            change(&mut self.seen[id.index()]);
            at = tree.node(id).parent;
        }
    }

    /// Takes in the children of the batch.
    fn take_in(&mut self, tree: &ChainTree) {
        self.seen.resize(tree.len(), Seen::default());
        for leaf in std::mem::take(&mut self.batch) {
            let mut best = 0.0;
            for &child in &tree.node(leaf).children {
                if is_leaf(tree, child) {
                    let value = self.value(tree, child);
                    best = value.max(best);
                    self.seen[child.index()] = Seen {
                        visits: 1.0,
                        total: value,
                        pending: 0.0,
                    };
                }
            }
            self.back_up(tree, leaf, best);
            self.above(tree, leaf, |seen| seen.pending -= 1.0);
        }
    }

    /// The leaf at the end of the most promising way down; `None` if there is none.
    fn select(&self, tree: &ChainTree) -> Option<NodeId> {
        let mut leads = vec![false; tree.len()];
        // Children are younger than their parents.
        for at in (0..tree.len()).rev() {
            let id = NodeId(at as u32);
            leads[at] |= is_leaf(tree, id) && !self.batch.contains(&id);
            if let (true, Some(parent)) = (leads[at], tree.node(id).parent) {
                leads[parent.index()] = true;
            }
        }
        let mut at = ChainTree::ROOT;
        while tree.node(at).state == State::Expanded {
            let children = &tree.node(at).children;
            let priors = priors(tree, children);
            let mut best = None;
            for (&child, prior) in children.iter().zip(priors) {
                let puct = self.puct(at, child, prior);
                let better = best.is_none_or(|(most, _)| puct > most);
                if leads[child.index()] && better {
                    best = Some((puct, child));
                }
            }
            at = best?.1;
        }
        Some(at)
    }

    /// Whether complete leaves are all that could still be selected.
    fn is_exhausted(&self, tree: &ChainTree) -> bool {
        let mut leaves = tree.nodes().filter(|&(id, _)| is_leaf(tree, id));
        let growable = leaves.any(|(id, node)| !node.is_complete() && !self.batch.contains(&id));
        let has_complete = tree.nodes().any(|(_, node)| node.is_complete());
        has_complete && !growable
    }

    /// PUCT, with virtual losses among the visits.
    fn puct(&self, parent: NodeId, child: NodeId, prior: f64) -> f64 {
        let visits = |seen: &Seen| seen.visits + self.virtual_loss * seen.pending;
        let (above, seen) = (&self.seen[parent.index()], &self.seen[child.index()]);
        let mean = seen.total / visits(seen).max(1.0);
        mean + self.exploration * prior * visits(above).sqrt() / (1.0 + visits(seen))
    }

    /// Selects leaves to expand while simulations are left.
    fn fill_batch(&mut self, tree: &ChainTree) {
        while self.batch.len() < self.parallel && self.simulations_left > 0 {
            if self.is_exhausted(tree) {
                // All that are left would look at complete leaves once more and change nothing.
                self.simulations_left = 0;
                return;
            }
            let Some(leaf) = self.select(tree) else {
                return;
            };
            self.simulations_left -= 1;
            if tree.node(leaf).is_complete() {
                let value = self.value(tree, leaf);
                self.back_up(tree, leaf, value);
            } else {
                self.above(tree, leaf, |seen| seen.pending += 1.0);
                self.batch.push(leaf);
            }
        }
    }
}

/// Whether a chain ends here that may go on or came to its own end.
fn is_leaf(tree: &ChainTree, id: NodeId) -> bool {
    tree.node(id).state == State::Open || tree.node(id).is_complete()
}

/// The generator's preference among siblings. A text sampled k times weighs k times as much.
fn priors(tree: &ChainTree, siblings: &[NodeId]) -> Vec<f64> {
    let weight = |&id: &NodeId| {
        let node = tree.node(id);
        let mean = f64::from(node.logprob) / node.tokens.len().max(1) as f64;
        match node.state {
            State::Duplicate => 0.0,
            _ => node.copies as f64 * mean.exp(),
        }
    };
    let weights: Vec<f64> = siblings.iter().map(weight).collect();
    let all: f64 = weights.iter().sum();
    weights.into_iter().map(|weight| weight / all).collect()
}

impl Strategy for Mcts {
    fn scoring(&self) -> Scoring {
        Scoring::EveryStep
    }

    fn merges_siblings(&self) -> bool {
        true
    }

    fn begin(&mut self, _: Start) -> Vec<Action> {
        self.simulations_left -= 1;
        self.seen = vec![Seen {
            pending: 1.0,
            ..Seen::default()
        }];
        self.batch = vec![ChainTree::ROOT];
        vec![Action::expand(ChainTree::ROOT, self.m)]
    }

    fn on_steps(&mut self, tree: &ChainTree, _: &[NodeId]) -> Vec<Action> {
        self.take_in(tree);
        self.fill_batch(tree);

        let leaves = tree.nodes().map(|(id, _)| id).skip(1);
        let (complete, mut open): (Vec<_>, Vec<_>) = leaves
            .filter(|&id| is_leaf(tree, id))
            .partition(|&id| tree.node(id).is_complete());
        tree.sort_by_score(&mut open, self.aggregation);
        if self.batch.is_empty() {
            let below = |id: &&NodeId| tree.node(**id).parent == self.alone;
            let best = open.iter().find(below).or(open.first()).copied();
            let Some(best) = best.filter(|_| complete.is_empty()) else {
                return vec![Action::Done];
            };
            self.alone = Some(best);
            self.above(tree, best, |seen| seen.pending += 1.0);
            self.batch.push(best);
        }
        let room = self.n - self.batch.len() * self.m;
        open.retain(|id| !self.batch.contains(id));
        let forgotten = open.into_iter().skip(room).map(Action::Prune);
        let grown = self.batch.iter().map(|&id| Action::expand(id, self.m));
        forgotten.chain(grown).collect()
    }
}

/// The row of the table of strategies.
pub(super) struct Row;

impl StrategySpec for Row {
    fn name(&self) -> &'static str {
        "mcts"
    }

    fn summary(&self) -> &'static str {
        "tree search by PUCT, with scores in place of rollouts"
    }

    fn paper(&self) -> Option<(&'static str, &'static str)> {
        Some(("2410.09671", "https://arxiv.org/abs/2410.09671"))
    }

    fn keys(&self) -> Option<KeysSpec> {
        Some(KeysSpec::of::<MctsConfig>().always_written())
    }

    fn uses_m(&self) -> bool {
        true
    }

    fn build(&self, config: &SearchConfig, _: bool) -> Result<Box<dyn Strategy>, ConfigError> {
        let keys = config.keys.get::<MctsConfig>();
        Ok(Box::new(Mcts::new(
            config.n,
            config.m,
            &keys,
            config.aggregation,
        )?))
    }
}

#[cfg(test)]
mod tests {
    use super::super::sim::{Step, World};
    use super::*;
    use crate::finish::Finish;

    fn mcts(n: usize, m: usize, simulations: usize) -> Mcts {
        let config = MctsConfig {
            simulations,
            ..MctsConfig::default()
        };
        Mcts::new(n, m, &config, Aggregation::Min).unwrap()
    }

    /// Adds a reported child.
    fn child(tree: &mut ChainTree, parent: NodeId, score: f32, logprob: f32) -> NodeId {
        tree.node_mut(parent).state = State::Expanded;
        let id = tree.add_child(parent);
        let node = tree.node_mut(id);
        node.state = State::Open;
        node.score = Some(score);
        node.tokens = vec![0; 2];
        node.logprob = 2.0 * logprob;
        id
    }

    fn begun(n: usize, m: usize, simulations: usize) -> Mcts {
        let mut mcts = mcts(n, m, simulations);
        let actions = mcts.begin(World::random(0).start);
        assert_eq!(actions, [Action::expand(ChainTree::ROOT, m)]);
        mcts
    }

    #[test]
    fn value_and_the_generators_preference_guide() {
        let mut tree = ChainTree::new();
        let a = child(&mut tree, ChainTree::ROOT, 0.6, -1.0);
        let b = child(&mut tree, ChainTree::ROOT, 0.5, -1.0);
        assert_eq!(
            begun(4, 2, 9).on_steps(&tree, &[a, b]),
            [Action::expand(a, 2)]
        );
        // Priors 0.27 and 0.73: 0.6 + 1.25 * 0.27 / 2 < 0.5 + 1.25 * 0.73 / 2.
        tree.node_mut(b).logprob = 0.0;
        assert_eq!(
            begun(4, 2, 9).on_steps(&tree, &[a, b]),
            [Action::expand(b, 2)]
        );
    }

    #[test]
    fn what_is_found_below_is_seen_above() {
        let mut tree = ChainTree::new();
        let a = child(&mut tree, ChainTree::ROOT, 0.6, -1.0);
        let b = child(&mut tree, ChainTree::ROOT, 0.5, -1.0);
        let mut mcts = begun(4, 2, 9);
        mcts.on_steps(&tree, &[a, b]);
        let c = child(&mut tree, a, 0.1, -1.0);
        let d = child(&mut tree, a, 0.2, -1.0);
        // The best below a is 0.2, so a is worth (0.6 + 0.2) / 2: back to b.
        assert_eq!(mcts.on_steps(&tree, &[c, d]), [Action::expand(b, 2)]);
        let seen = mcts.seen[a.index()];
        assert_eq!((seen.visits, seen.pending), (2.0, 0.0));
        assert!((seen.total - 0.8).abs() < 1e-6);
        assert_eq!(mcts.seen[0].pending, 1.0);
    }

    #[test]
    fn virtual_loss_spreads_a_batch() {
        let mut tree = ChainTree::new();
        let [a, b] = [0.6, 0.5].map(|score| child(&mut tree, ChainTree::ROOT, score, -1.0));
        let [c, d] = [0.59, 0.58].map(|score| child(&mut tree, a, score, -1.0));
        let batch = |virtual_loss| {
            let mut mcts = begun(8, 2, 9);
            mcts.virtual_loss = virtual_loss;
            mcts.batch.push(a);
            mcts.seen.resize(2, Seen::default());
            mcts.seen[0].pending += 1.0;
            mcts.seen[1].pending += 1.0;
            mcts.on_steps(&tree, &[]);
            mcts.batch
        };
        assert_eq!(batch(0.0), [c, d]);
        assert_eq!(batch(1.0), [c, b]);
    }

    #[test]
    fn complete_leaves_use_simulations_up() {
        let mut tree = ChainTree::new();
        let a = child(&mut tree, ChainTree::ROOT, 0.9, -0.1);
        child(&mut tree, ChainTree::ROOT, 0.01, -3.0);
        tree.node_mut(a).state = State::Finished(Finish::Answer);
        let mut mcts = begun(4, 2, 5);
        assert_eq!(mcts.on_steps(&tree, &[]), [Action::Done]);
        assert_eq!(mcts.seen[a.index()].visits, 5.0);
    }

    #[test]
    fn the_worst_leaves_are_forgotten() {
        let mut tree = ChainTree::new();
        let scores = [0.5, 0.9, 0.2, 0.4];
        let ids = scores.map(|score| child(&mut tree, ChainTree::ROOT, score, -1.0));
        // 4 grow; no room for others.
        let actions = begun(5, 4, 9).on_steps(&tree, &ids);
        assert_eq!(
            actions,
            [
                Action::Prune(ids[3]),
                Action::Prune(ids[2]),
                Action::expand(ids[1], 4)
            ]
        );
    }

    /// One way down scores well at first and badly later; a chain ends with its fifth step.
    fn tempting() -> World {
        World::scripted(|tree, id, _| {
            let node = tree.node(id);
            let bad = tree.path(id)[0] == NodeId(1);
            Step {
                text: format!("{bad} {id:?}\n"),
                tokens: 1,
                score: match (node.depth, bad) {
                    (1, true) => 0.9,
                    (1, false) => 0.6,
                    (_, true) => 0.1,
                    (_, false) => 0.6,
                },
                partial_score: 0.0,
                logprob: 0.0,
                finish: (node.depth == 5).then_some(Finish::Answer),
            }
        })
    }

    #[test]
    fn it_turns_back_from_a_dead_end() {
        let played = tempting().play(&mut mcts(4, 2, 12));
        let found = played.complete();
        assert!(!found.is_empty() && found.iter().all(|text| text.starts_with("false")));
    }

    #[test]
    fn without_a_complete_chain_it_goes_on_with_the_best_alone() {
        let played = tempting().play(&mut mcts(4, 2, 2));
        // Two simulations, then four steps down.
        assert_eq!(played.grown, 12);
        assert_eq!(played.complete().len(), 2);
    }

    #[test]
    fn plays_to_the_end_within_n_chains_and_its_simulations() {
        for seed in 0..200 {
            let (n, m) = [(8, 2), (16, 4), (7, 2), (4, 4), (1, 1)][seed as usize % 5];
            let mut world = World::random(seed);
            let played = world.play(&mut mcts(n, m, 0));
            assert!(played.peak <= n);
            let most = m * (8 * (n / m) + world.max_steps as usize);
            assert!(played.grown <= most, "{} {most}", played.grown);
            assert_eq!(world.play(&mut mcts(n, m, 0)).actions, played.actions);
            world.token_limit = 13;
            assert!(world.play(&mut mcts(n, m, 0)).grown <= 13);
        }
    }
}
