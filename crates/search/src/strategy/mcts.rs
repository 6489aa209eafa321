use serde::{Deserialize, Serialize};

use super::{Action, Start, Strategy, StrategySpec};
use crate::aggregation::Aggregation;
use crate::choose::Choose;
use crate::config::SearchConfig;
use crate::error::ConfigError;
use crate::tree::{ChainTree, NodeId, State};

/// The settings of [`Mcts`], a table in a configuration.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default, expecting = "a table of keys")]
pub struct MctsConfig {
    /// The number of times that a node is given M children; 0: 8 N/M, as many as a beam expands in
    /// eight rounds.
    pub simulations: usize,
    /// c of PUCT: the weight of the generator's preference and of novelty, relative to value.
    pub exploration: f32,
    /// The number of visits with value 0 that each node of the batch counts for. It makes the nodes
    /// of a batch differ.
    pub virtual_loss: f32,
}

/// k of progressive widening, the factor before the power.
const WIDENING: f64 = 1.0;
/// alpha of progressive widening, the exponent.
const WIDENING_EXPONENT: f64 = 0.5;

impl Default for MctsConfig {
    fn default() -> Self {
        Self {
            simulations: 0,
            exploration: 1.25,
            virtual_loss: 1.0,
        }
    }
}

impl MctsConfig {
    /// The largest number of simulations: each looks at the whole tree, so the time grows with its
    /// square.
    pub const MAX_SIMULATIONS: usize = 1_000_000;

    pub(crate) fn validate(&self) -> Result<(), ConfigError> {
        ConfigError::check_most("mcts.simulations", self.simulations, Self::MAX_SIMULATIONS)?;
        let words = "0 or a positive number";
        ConfigError::check_range("mcts.exploration", self.exploration, 0.0.., words)?;
        ConfigError::check_range("mcts.virtual_loss", self.virtual_loss, 0.0.., words)
    }
}

/// Monte Carlo tree search with scores in place of rollouts.
///
/// A simulation goes down from the root, at each node to the child with the highest Q + c P sqrt(V)
/// / (1 + v). Q is the mean of the values seen at or below the child. P is the softmax among
/// siblings of the mean log-probability of their tokens. V and v are the visits of the node and of
/// the child.
///
/// The simulation ends at an open leaf or at a node that is widened, and samples M children there.
/// The best of their chain scores is the value that all nodes above see; a node's first value is
/// its own chain score. A complete leaf is never selected, since there is nothing to sample.
///
/// Progressive widening: a node that was given children t times gets M more when k D^alpha reaches
/// t. D is the node's visits less the sum of the values that it saw, so a node whose children score
/// well gets no more. (The literature counts only visits.) k is 1, alpha is 1/2.
///
/// N/2M nodes (at least one) are selected at once, with virtual loss, so that a pass has many rows.
/// At most N chains are alive: N/2 grow, and the best of the other leaves by chain score are kept.
///
/// The search ends when the simulations are spent or nothing can grow. If no complete chain then
/// scores as well as the best leaf, only that leaf continues, and then the best leaf below it.
///
/// Papers: PUCT as in `AlphaZero` (<https://arxiv.org/abs/1712.01815>); with process rewards,
/// `OpenR` (<https://arxiv.org/abs/2410.09671>). Progressive widening: Coulom, "Computing Elo
/// ratings of move patterns in the game of Go" (2007), and Chaslot et al., "Progressive strategies
/// for Monte-Carlo tree search" (2008).
#[derive(Debug, Clone)]
pub struct Mcts {
    n: usize,
    m: usize,
    exploration: f64,
    virtual_loss: f64,
    /// k of progressive widening; tests set 0 to switch it off.
    widening: f64,
    aggregation: Aggregation,
    /// The number of nodes selected at once.
    parallel: usize,
    simulations_left: usize,
    /// The node that all chains begin with: the root or the last given step.
    start: NodeId,
    /// The statistics of each node, by index.
    seen: Vec<Seen>,
    /// The nodes that are being given children.
    batch: Vec<Growing>,
    /// The leaf that continued last, after the simulations.
    last: Option<NodeId>,
}

/// The statistics of a node.
#[derive(Debug, Clone, Copy, Default)]
struct Seen {
    visits: f64,
    /// The sum of the values seen at or below the node.
    total: f64,
    /// The number of nodes of the batch at or below the node.
    pending: f64,
}

/// A node that is being given children.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Growing {
    node: NodeId,
    /// The number of children that the node had before it was put into the batch.
    known: usize,
}

impl Mcts {
    /// Makes the strategy; the configuration must be valid.
    pub(super) fn of(config: &SearchConfig) -> Self {
        let (slots, keys) = (config.n / config.m, &config.mcts);
        Self {
            n: config.n,
            m: config.m,
            exploration: f64::from(keys.exploration),
            virtual_loss: f64::from(keys.virtual_loss),
            widening: WIDENING,
            aggregation: config.aggregation,
            parallel: (slots / 2).max(1),
            simulations_left: simulations(config),
            start: ChainTree::ROOT,
            seen: Vec::new(),
            batch: Vec::new(),
            last: None,
        }
    }

    fn value(&self, tree: &ChainTree, id: NodeId) -> f64 {
        f64::from(tree.chain_score(id, self.aggregation).unwrap_or(0.0))
    }

    fn above(&mut self, tree: &ChainTree, from: NodeId, change: impl Fn(&mut Seen)) {
        let mut at = Some(from);
        while let Some(id) = at {
            change(&mut self.seen[id.index()]);
            at = tree.node(id).parent;
        }
    }

    /// Takes in the new children of the batch. Each node above them sees the best of their values.
    fn take_in(&mut self, tree: &ChainTree) {
        self.seen.resize(tree.len(), Seen::default());
        for Growing { node, known } in std::mem::take(&mut self.batch) {
            let mut best: f64 = 0.0;
            for &child in &tree.node(node).children[known..] {
                // A child with the text of an earlier sibling counts with the value of that
                // sibling.
                let child = tree.node(child).duplicate_of.unwrap_or(child);
                let state = tree.node(child).state;
                if state != State::Expanded && !is_leaf(tree, child) {
                    continue;
                }
                let value = self.value(tree, child);
                best = best.max(value);
                let seen = &mut self.seen[child.index()];
                // A child that was sampled again keeps its statistics; a new child begins with its
                // own chain score.
                if seen.visits == 0.0 {
                    seen.visits = 1.0;
                    seen.total = value;
                }
            }
            self.above(tree, node, |seen| {
                seen.visits += 1.0;
                seen.total += best;
                seen.pending -= 1.0;
            });
        }
    }

    fn is_growing(&self, id: NodeId) -> bool {
        self.batch.iter().any(|growing| growing.node == id)
    }

    /// Whether an expanded node gets more children, by progressive widening.
    fn is_widened(&self, tree: &ChainTree, id: NodeId) -> bool {
        let (node, seen) = (tree.node(id), self.seen[id.index()]);
        let times = node.children.len().div_ceil(self.m) as f64;
        // Values are at most 1, so a visit that saw the value v counts 1 - v.
        let disappointments = (seen.visits - seen.total).max(0.0);
        let earned = self.widening * disappointments.powf(WIDENING_EXPONENT);
        node.state == State::Expanded && earned >= times && !self.is_growing(id)
    }

    /// Returns the node at which the next simulation ends; `None` if no node can grow.
    fn select(&self, tree: &ChainTree) -> Option<NodeId> {
        let mut leads = vec![false; tree.len()];
        // `leads`: whether a node at or below this one can grow. Children have higher numbers than
        // their parents, so the loop goes backwards.
        for at in (0..tree.len()).rev() {
            let id = NodeId(at as u32);
            let grows = tree.node(id).state == State::Open && !self.is_growing(id);
            leads[at] |= grows || self.is_widened(tree, id);
            if let (true, Some(parent)) = (leads[at], tree.node(id).parent) {
                leads[parent.index()] = true;
            }
        }
        if !leads[self.start.index()] {
            return None;
        }
        let mut at = self.start;
        while tree.node(at).state == State::Expanded && !self.is_widened(tree, at) {
            let children = &tree.node(at).children;
            let priors = priors(tree, children);
            let mut best = None;
            for (&child, prior) in children.iter().zip(priors) {
                let puct = self.puct(at, child, prior);
                // Strictly greater: of equal children the oldest is selected.
                let better = best.is_none_or(|(most, _)| puct > most);
                if leads[child.index()] && better {
                    best = Some((puct, child));
                }
            }
            at = best?.1;
        }
        Some(at)
    }

    /// Returns the PUCT value of a child, with virtual losses among the visits.
    fn puct(&self, parent: NodeId, child: NodeId, prior: f64) -> f64 {
        let (above, seen) = (&self.seen[parent.index()], &self.seen[child.index()]);
        let visits_above = above.visits + self.virtual_loss * above.pending;
        let visits = seen.visits + self.virtual_loss * seen.pending;
        // Virtual losses lower the mean, too: a pending visit counts with the value 0.
        let mean = seen.total / visits.max(1.0);
        mean + self.exploration * prior * visits_above.sqrt() / (1.0 + visits)
    }

    /// Puts a node into the batch, with a virtual loss for all nodes above.
    fn grow(&mut self, tree: &ChainTree, node: NodeId) {
        let known = tree.node(node).children.len();
        self.above(tree, node, |seen| seen.pending += 1.0);
        self.batch.push(Growing { node, known });
    }

    /// Fills the batch with nodes to expand or to widen while simulations are left.
    fn fill_batch(&mut self, tree: &ChainTree) {
        while self.batch.len() < self.parallel && self.simulations_left > 0 {
            let Some(node) = self.select(tree) else {
                return;
            };
            self.simulations_left -= 1;
            self.grow(tree, node);
        }
    }

    /// Returns the leaf to continue with after the simulations; `None` if no leaf can become the
    /// best chain.
    fn last_hope(&self, tree: &ChainTree, complete: &[NodeId], open: &[NodeId]) -> Option<NodeId> {
        let own = open.iter().find(|&&id| tree.node(id).parent == self.last);
        let best = own.or(open.first()).copied()?;
        let most = complete.iter().map(|&id| self.value(tree, id));
        let most = most.fold(-1.0, f64::max);
        // If there is a complete chain, only one path is followed to its end after the simulations.
        let continues = own.is_some() || self.last.is_none();
        let hopeful = continues && self.value(tree, best) > most;
        (complete.is_empty() || hopeful).then_some(best)
    }
}

/// Whether a node ends a chain that may continue or is complete.
fn is_leaf(tree: &ChainTree, id: NodeId) -> bool {
    tree.node(id).state == State::Open || tree.node(id).is_complete()
}

/// Returns the generator's preference among siblings, which sums to 1. A text sampled k times
/// weighs k times as much.
fn priors(tree: &ChainTree, siblings: &[NodeId]) -> Vec<f64> {
    let mut weights = Vec::with_capacity(siblings.len());
    for &id in siblings {
        let node = tree.node(id);
        let mean = f64::from(node.logprob) / node.sampled_tokens().max(1) as f64;
        // A duplicate is represented by its twin, which has its weight in `copies`.
        weights.push(match node.state {
            State::Duplicate => 0.0,
            _ => node.copies as f64 * mean.exp(),
        });
    }
    let all: f64 = weights.iter().sum();
    weights.into_iter().map(|weight| weight / all).collect()
}

impl Strategy for Mcts {
    /// Any node may be given more children later.
    fn keeps_expanded(&self, _: NodeId) -> bool {
        true
    }

    fn begin(&mut self, start: Start) -> Vec<Action> {
        self.simulations_left -= 1;
        self.start = start.node;
        // The root and the given steps form one path, and the first batch grows at the end of it.
        let pending = Seen {
            pending: 1.0,
            ..Seen::default()
        };
        self.seen = vec![pending; start.node.index() + 1];
        self.batch = vec![Growing {
            node: start.node,
            known: 0,
        }];
        vec![Action::expand(start.node, self.m)]
    }

    fn on_steps(&mut self, tree: &ChainTree, _: &[NodeId]) -> Vec<Action> {
        self.take_in(tree);
        self.fill_batch(tree);

        let leaves = tree.nodes().map(|(id, _)| id).skip(1);
        let (complete, mut open): (Vec<_>, Vec<_>) = leaves
            .filter(|&id| is_leaf(tree, id) && !tree.node(id).is_rollout)
            .partition(|&id| tree.node(id).is_complete());
        tree.sort_by_score(&mut open, self.aggregation);
        if self.batch.is_empty() {
            let Some(best) = self.last_hope(tree, &complete, &open) else {
                return vec![Action::Done];
            };
            self.last = Some(best);
            self.grow(tree, best);
        }
        // Each node of the batch gets M children, which count among the N live chains.
        let room = self.n - self.batch.len() * self.m;
        open.retain(|&id| !self.is_growing(id));
        // Leaves beyond N live chains are pruned, worst first, so that the memory of a problem is
        // bounded.
        let forgotten = open.into_iter().skip(room).map(Action::Prune);
        let grown = self
            .batch
            .iter()
            .map(|growing| Action::expand(growing.node, self.m));
        forgotten.chain(grown).collect()
    }
}

/// Returns the steps of all simulations, and of the best leaf that continues after them.
fn most_steps(config: &SearchConfig) -> usize {
    let rounds = simulations(config).saturating_add(config.max_steps);
    config.m.saturating_mul(rounds)
}

/// Returns the number of simulations, which follows from N and M if none is set.
fn simulations(config: &SearchConfig) -> usize {
    match config.mcts.simulations {
        0 => 8 * (config.n / config.m),
        simulations => simulations,
    }
}

pub(super) const SPEC: StrategySpec = StrategySpec {
    rolls_out: true,
    paper: Some(("2410.09671", "https://arxiv.org/abs/2410.09671")),
    uses_m: true,
    usual_choose: Choose::Weighted,
    steps: most_steps,
    // Widening may give the start children again.
    first_steps: most_steps,
    ..StrategySpec::new(
        "mcts",
        "tree search by PUCT, with scores in place of rollouts",
        |config, _| Box::new(Mcts::of(config)),
    )
};

#[cfg(test)]
mod tests {
    use super::super::sim::{Step, World};
    use super::*;
    use crate::finish::Finish;

    fn mcts(n: usize, m: usize, simulations: usize) -> Mcts {
        let mut config = SearchConfig {
            n,
            m,
            ..SearchConfig::default()
        };
        config.mcts.simulations = simulations;
        Mcts::of(&config)
    }

    /// Switches widening off, so that each node is given children once.
    fn narrow(mut mcts: Mcts) -> Mcts {
        mcts.widening = 0.0;
        mcts
    }

    /// Adds a child in the state in which the scheduler reports it.
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
        let mut mcts = narrow(begun(4, 2, 9));
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
        let [a, b] = [0.6, 0.4].map(|score| child(&mut tree, ChainTree::ROOT, score, -1.0));
        let [c, d] = [0.59, 0.58].map(|score| child(&mut tree, a, score, -1.0));
        let batch = |virtual_loss| {
            let mut mcts = begun(8, 2, 9);
            mcts.virtual_loss = virtual_loss;
            mcts.batch.push(Growing { node: a, known: 0 });
            mcts.seen.resize(2, Seen::default());
            mcts.seen[0].pending += 1.0;
            mcts.seen[1].pending += 1.0;
            mcts.on_steps(&tree, &[]);
            let nodes = mcts.batch.iter().map(|growing| growing.node);
            nodes.collect::<Vec<_>>()
        };
        assert_eq!(batch(0.0), [c, d]);
        assert_eq!(batch(1.0), [c, b]);
    }

    #[test]
    fn a_complete_leaf_is_not_selected_again() {
        let mut tree = ChainTree::new();
        let a = child(&mut tree, ChainTree::ROOT, 0.9, -0.1);
        let b = child(&mut tree, ChainTree::ROOT, 0.01, -3.0);
        tree.node_mut(a).state = State::Finished(Finish::Answer);
        let mut mcts = begun(4, 2, 5);
        assert_eq!(mcts.on_steps(&tree, &[a, b]), [Action::expand(b, 2)]);
        assert_eq!(mcts.simulations_left, 3);
        assert_eq!(mcts.seen[a.index()].visits, 1.0);
    }

    #[test]
    fn a_batch_waits_for_what_is_in_the_making() {
        let mut tree = ChainTree::new();
        let a = child(&mut tree, ChainTree::ROOT, 0.1, -1.0);
        let b = child(&mut tree, ChainTree::ROOT, 0.979, -1.0);
        tree.node_mut(a).state = State::Finished(Finish::Answer);
        // The batch has room for 32 nodes, but only one leaf can grow.
        let mut mcts = begun(256, 4, 0);
        assert_eq!(mcts.on_steps(&tree, &[a, b]), [Action::expand(b, 4)]);
        assert_eq!(mcts.simulations_left, 8 * 64 - 2);
    }

    #[test]
    fn the_worst_leaves_are_forgotten() {
        let mut tree = ChainTree::new();
        let scores = [0.5, 0.9, 0.2, 0.4];
        let ids = scores.map(|score| child(&mut tree, ChainTree::ROOT, score, -1.0));
        // Four of the five chains grow, so one other leaf has room.
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

    /// Makes a world in which one path scores well at first and badly later; a chain ends with its
    /// fifth step.
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

    fn step(text: impl Into<String>, score: f32, is_end: bool) -> Step {
        Step {
            text: text.into(),
            tokens: 1,
            score,
            partial_score: 0.0,
            logprob: 0.0,
            finish: is_end.then_some(Finish::Answer),
        }
    }

    #[test]
    fn a_bad_chain_does_not_end_the_search() {
        // The first child ends at once and is bad, the others are a step from a good end.
        let world = World::scripted(|tree, id, _| {
            let first = tree.path(id)[0];
            match (first == NodeId(1), tree.node(id).depth) {
                (true, _) => step("bad\n", 0.001, true),
                (_, 1) => step("good\n", 0.979, false),
                _ => step("end\n", 0.97, true),
            }
        });
        for n in [4, 16, 64, 256] {
            let found = world.play(&mut mcts(n, 4, 0)).complete();
            assert!(found.contains(&"good\nend\n".to_owned()), "{n}: {found:?}");
        }
        // The only simulation samples the first children. After it, the better leaf continues.
        let found = world.play(&mut mcts(4, 4, 1)).complete();
        assert!(found.contains(&"good\nend\n".to_owned()), "{found:?}");
    }

    #[test]
    fn a_node_whose_children_are_all_wrong_is_given_more() {
        // The right second step is the sixth to be sampled.
        let world = World::scripted(|tree, id, _| {
            let node = tree.node(id);
            let siblings = &tree.node(node.parent.unwrap()).children;
            let index = siblings.iter().position(|&sibling| sibling == id).unwrap();
            let wrong = tree
                .path(id)
                .into_iter()
                .any(|id| tree.node(id).text == "wrong\n");
            match (node.depth, wrong) {
                (1, _) => step("fine\n", 0.99, false),
                (2, _) if index == 5 => step("right\n", 0.98, false),
                (2, _) => step("wrong\n", 0.02, false),
                (_, false) => step("end\n", 0.98, true),
                (_, true) => step("dead\n", 0.01, true),
            }
        });
        for n in [4, 16, 64, 256] {
            let played = world.play(&mut mcts(n, 4, 0));
            let found = played.complete();
            assert!(
                found.contains(&"fine\nright\nend\n".to_owned()),
                "{n}: {found:?}"
            );
            // Equal steps are one candidate, whenever they are sampled.
            let wrong = played
                .tree
                .nodes()
                .filter(|(_, node)| node.text == "wrong\n");
            let distinct =
                wrong.filter(|(_, node)| !matches!(node.state, State::Duplicate | State::Pruned));
            assert!(distinct.count() <= 1);
        }
        let narrow = world.play(&mut narrow(mcts(64, 4, 0))).complete();
        assert!(
            narrow.iter().all(|text| text.contains("wrong")),
            "{narrow:?}"
        );
    }

    #[test]
    fn every_simulation_grows_something() {
        for seed in 0..50 {
            let played = World::random(seed).play(&mut mcts(16, 4, 20));
            let actions = played.actions.iter();
            let grown = actions.filter(|action| matches!(action, Action::Expand { .. }));
            assert!(grown.count() >= 20, "seed {seed}");
        }
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
