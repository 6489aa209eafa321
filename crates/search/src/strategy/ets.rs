use std::collections::BTreeMap;

use microlp::{ComparisonOp, LinearExpr, OptimizationDirection, Problem};
use serde::{Deserialize, Serialize};

use super::{Action, Rebase, RebaseConfig, Start, Strategy, StrategySpec, open};
use crate::aggregation::Aggregation;
use crate::choose::Choose;
use crate::config::SearchConfig;
use crate::error::ConfigError;
use crate::tree::{ChainTree, NodeId};

/// The most open chains for which the best set is found exactly. With more chains, a greedy pass
/// finds a good set.
const MOST_EXACT: usize = 48;

/// The settings of [`Ets`], a table in a configuration.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default, expecting = "a table of keys")]
pub struct EtsConfig {
    /// The weight of the cache memory of the retained chains; higher values retain fewer chains.
    pub lambda_b: f32,
    /// The weight of diversity: the number of kinds of steps among the retained chains.
    pub lambda_d: f32,
    /// The cosine distance up to which steps are of the same kind.
    pub distance: f32,
    /// T of the softmax over chain scores, as in REBASE.
    pub temperature: f32,
}

impl Default for EtsConfig {
    fn default() -> Self {
        Self {
            lambda_b: 1.0,
            lambda_d: 1.5,
            distance: 0.05,
            temperature: 0.2,
        }
    }
}

impl EtsConfig {
    pub(crate) fn validate(&self) -> Result<(), ConfigError> {
        let words = "0 or a positive number";
        ConfigError::check_range("ets.lambda_b", self.lambda_b, 0.0.., words)?;
        ConfigError::check_range("ets.lambda_d", self.lambda_d, 0.0.., words)?;
        ConfigError::check_range("ets.distance", self.distance, 0.0..=1.0, "from 0 to 1")?;
        ConfigError::check_positive("ets.temperature", self.temperature)
    }
}

/// Efficient tree search (ETS, Hooper et al., <https://arxiv.org/abs/2502.13575>): [`Rebase`] among
/// the chains whose value exceeds the cost of their cache.
///
/// After each step, the open chains are reduced to the set S that maximises
///
/// > sum of the REBASE shares of S - lambda_b * cache(S) / cache(all) + lambda_d * kinds(S) / kinds(all)
///
/// where cache(S) is the number of tokens in the union of the chains of S, so that shared tokens
/// are paid for once, and kinds(S) is the number of kinds of newest steps. At least one chain is
/// retained. The width is then divided among the retained chains as in REBASE.
///
/// The set is the solution of an integer program. Above 48 open chains a greedy pass decides:
/// chains are taken in the order of share per token, each retained if that raises the value.
///
/// Kinds are clusters of average linkage by cosine distance. The paper compares sentence
/// embeddings; here steps are compared by their token counts, and above 48 chains by their text.
#[derive(Debug, Clone)]
pub struct Ets {
    rebase: Rebase,
    config: EtsConfig,
    aggregation: Aggregation,
}

impl Ets {
    /// Makes the strategy; the configuration must be valid.
    pub(super) fn of(config: &SearchConfig) -> Self {
        let keys = config.ets.clone().unwrap_or_default();
        let rebase = RebaseConfig {
            temperature: keys.temperature,
            ..RebaseConfig::default()
        };
        Self {
            rebase: Rebase::new(config.n, rebase, config.aggregation),
            config: keys,
            aggregation: config.aggregation,
        }
    }

    /// Returns for each chain of `open`, which are sorted best first, whether it is retained.
    fn retained(&self, tree: &ChainTree, open: &[NodeId]) -> Vec<bool> {
        let shares = self.rebase.allot(tree, open);
        let all: usize = shares.iter().sum();
        let shares: Vec<f64> = shares
            .iter()
            .map(|&share| share as f64 / all.max(1) as f64)
            .collect();
        let is_small = open.len() <= MOST_EXACT;
        let kinds = if is_small {
            clusters(&tokens_of(tree, open), f64::from(self.config.distance))
        } else {
            equal_texts(tree, open)
        };
        let worth = Worth::new(tree, open, shares, kinds, &self.config);
        let exact = is_small.then(|| worth.best()).flatten();
        let mut retained = exact.unwrap_or_else(|| worth.greedy());
        if !retained.contains(&true) {
            // The solver may round all chains out of the set, but a search with open chains must
            // continue.
            retained[0] = true;
        }
        retained
    }
}

/// A preference for better chains: far below any difference between shares or costs, but above the
/// solver's tolerance.
const TIE: f64 = 1e-6;

/// The terms of the objective, by chain and by node.
struct Worth {
    /// The REBASE share of each chain.
    shares: Vec<f64>,
    /// The nodes of each chain's path as indices into `costs`, the newest last.
    paths: Vec<Vec<usize>>,
    /// The cost of retaining each node; the nodes are those of all open chains.
    costs: Vec<f64>,
    /// The kind of each chain.
    kinds: Vec<usize>,
    /// The value of retaining at least one chain of a kind.
    kind_value: f64,
}

impl Worth {
    fn new(
        tree: &ChainTree,
        open: &[NodeId],
        shares: Vec<f64>,
        kinds: Vec<usize>,
        config: &EtsConfig,
    ) -> Self {
        let mut index = BTreeMap::new();
        let mut tokens = Vec::new();
        let paths: Vec<Vec<usize>> = open
            .iter()
            .map(|&end| {
                let path = tree.path(end).into_iter();
                path.map(|id| {
                    *index.entry(id).or_insert_with(|| {
                        tokens.push(tree.node(id).tokens.len());
                        tokens.len() - 1
                    })
                })
                .collect()
            })
            .collect();
        let all = tokens.iter().sum::<usize>().max(1) as f64;
        // Prices are relative to the union of all chains, so lambda_b does not depend on lengths.
        let price = f64::from(config.lambda_b) / all;
        let count = kinds.iter().max().map_or(1, |&most| most + 1);
        Self {
            shares,
            paths,
            costs: tokens.iter().map(|&tokens| price * tokens as f64).collect(),
            kinds,
            kind_value: f64::from(config.lambda_d) / count as f64,
        }
    }

    /// Returns the best set, by an integer program; `None` if the solver gives up.
    fn best(&self) -> Option<Vec<bool>> {
        let mut program = Problem::new(OptimizationDirection::Maximize);
        let chains: Vec<_> = self
            .shares
            .iter()
            .enumerate()
            // Among sets of equal value the one with the better chains is preferred, so the result
            // is unique.
            .map(|(i, &share)| program.add_binary_var(share - TIE * i as f64))
            .collect();
        // Variables of nodes and kinds need not be integers: if chains are 0 or 1, they are, too,
        // in any optimum.
        let nodes: Vec<_> = self
            .costs
            .iter()
            .map(|&cost| program.add_var(-cost, (0.0, 1.0)))
            .collect();
        for (path, &chain) in self.paths.iter().zip(&chains) {
            // A retained chain needs its newest node, and each node needs its parent.
            let mut below = chain;
            for &node in path.iter().rev() {
                let terms = [(nodes[node], 1.0), (below, -1.0)];
                program.add_constraint(terms, ComparisonOp::Ge, 0.0);
                below = nodes[node];
            }
        }
        let count = self.kinds.iter().max().map_or(0, |&most| most + 1);
        for kind in 0..count {
            let covered = program.add_var(self.kind_value, (0.0, 1.0));
            let mut terms = LinearExpr::empty();
            for (&chain, _) in chains.iter().zip(&self.kinds).filter(|(_, k)| **k == kind) {
                terms.add(chain, 1.0);
            }
            terms.add(covered, -1.0);
            program.add_constraint(terms, ComparisonOp::Ge, 0.0);
        }
        let mut any = LinearExpr::empty();
        for &chain in &chains {
            any.add(chain, 1.0);
        }
        // If costs are high, the empty set has the highest value; it would end the search.
        program.add_constraint(any, ComparisonOp::Ge, 1.0);
        let solution = program.solve().ok()?.into_solution().ok()?;
        Some(
            chains
                .iter()
                .map(|&chain| solution.var_value(chain) > 0.5)
                .collect(),
        )
    }

    /// Returns a good set in one pass: chains in the order of share by cost, each retained if it
    /// adds value.
    fn greedy(&self) -> Vec<bool> {
        let mut ratios: Vec<f64> = Vec::with_capacity(self.shares.len());
        for (path, share) in self.paths.iter().zip(&self.shares) {
            let cost: f64 = path.iter().map(|&node| self.costs[node]).sum();
            ratios.push(share / cost.max(f64::MIN_POSITIVE));
        }
        let mut order: Vec<usize> = (0..ratios.len()).collect();
        order.sort_by(|&a, &b| ratios[b].total_cmp(&ratios[a]));
        let mut retained = vec![false; ratios.len()];
        let mut paid = vec![false; self.costs.len()];
        let mut covered = vec![false; ratios.len()];
        for (rank, i) in order.into_iter().enumerate() {
            let new = self.paths[i].iter().filter(|&&node| !paid[node]);
            let cost: f64 = new.map(|&node| self.costs[node]).sum();
            let kind = if covered[self.kinds[i]] {
                0.0
            } else {
                self.kind_value
            };
            // The first chain is always retained, since a search with open chains must continue.
            if rank > 0 && self.shares[i] + kind <= cost {
                continue;
            }
            retained[i] = true;
            covered[self.kinds[i]] = true;
            for &node in &self.paths[i] {
                paid[node] = true;
            }
        }
        retained
    }
}

/// Returns how often each token occurs in the newest step of each chain.
fn tokens_of(tree: &ChainTree, open: &[NodeId]) -> Vec<BTreeMap<u32, f64>> {
    let mut all = Vec::with_capacity(open.len());
    for &id in open {
        let mut counts = BTreeMap::new();
        for &token in &tree.node(id).tokens {
            *counts.entry(token).or_insert(0.0) += 1.0;
        }
        all.push(counts);
    }
    all
}

fn cosine_distance(a: &BTreeMap<u32, f64>, b: &BTreeMap<u32, f64>) -> f64 {
    fn norm(v: &BTreeMap<u32, f64>) -> f64 {
        v.values().map(|x| x * x).sum::<f64>().sqrt()
    }
    let dot: f64 = a.iter().filter_map(|(t, x)| Some(x * b.get(t)?)).sum();
    let norms = norm(a) * norm(b);
    if norms > 0.0 { 1.0 - dot / norms } else { 0.0 }
}

/// Returns the cluster of each item. The two clusters with the least mean distance are joined as
/// long as the distance is at most `threshold`. Clusters are numbered in the order of their first
/// items.
fn clusters(items: &[BTreeMap<u32, f64>], threshold: f64) -> Vec<usize> {
    let distances: Vec<Vec<f64>> = items
        .iter()
        .map(|a| items.iter().map(|b| cosine_distance(a, b)).collect())
        .collect();
    let mut clusters: Vec<Vec<usize>> = (0..items.len()).map(|i| vec![i]).collect();
    loop {
        let mut closest: Option<(f64, usize, usize)> = None;
        for a in 0..clusters.len() {
            for b in a + 1..clusters.len() {
                let pairs = clusters[a].iter().flat_map(|&i| {
                    let distances = &distances;
                    clusters[b].iter().map(move |&j| distances[i][j])
                });
                let mean = pairs.sum::<f64>() / (clusters[a].len() * clusters[b].len()) as f64;
                // Strictly less: of equal distances the first pair is joined, so results are
                // reproducible.
                if mean <= threshold && closest.is_none_or(|(least, ..)| mean < least) {
                    closest = Some((mean, a, b));
                }
            }
        }
        let Some((_, a, b)) = closest else {
            break;
        };
        // `b` comes after `a`, so its removal leaves the index of `a` as it is.
        let joined = clusters.remove(b);
        clusters[a].extend(joined);
    }
    let mut cluster_of = vec![0; items.len()];
    for (cluster, members) in clusters.iter().enumerate() {
        for &member in members {
            cluster_of[member] = cluster;
        }
    }
    cluster_of
}

/// Numbers the texts of the newest steps: equal texts, apart from case and white space, have equal
/// numbers.
fn equal_texts(tree: &ChainTree, open: &[NodeId]) -> Vec<usize> {
    let mut known = BTreeMap::new();
    let mut numbers = Vec::with_capacity(open.len());
    for &id in open {
        let words: Vec<&str> = tree.node(id).text.split_whitespace().collect();
        let next = known.len();
        let number = known.entry(words.join(" ").to_lowercase()).or_insert(next);
        numbers.push(*number);
    }
    numbers
}

impl Strategy for Ets {
    fn begin(&mut self, start: Start) -> Vec<Action> {
        self.rebase.begin(start)
    }

    fn on_steps(&mut self, tree: &ChainTree, nodes: &[NodeId]) -> Vec<Action> {
        let mut open = open(tree, nodes);
        if open.is_empty() {
            return self.rebase.on_steps(tree, nodes);
        }
        tree.sort_by_score(&mut open, self.aggregation);
        // Complete chains take their places of the width first, as in REBASE.
        self.rebase.note_complete(tree, nodes);
        if self.rebase.width() == 0 {
            return open.into_iter().map(Action::Prune).collect();
        }
        let retained = self.retained(tree, &open);
        let (mut survivors, mut actions) = (Vec::new(), Vec::new());
        for (&id, retained) in open.iter().zip(retained) {
            if retained {
                survivors.push(id);
            } else {
                actions.push(Action::Prune(id));
            }
        }
        actions.extend(self.rebase.divide(tree, &survivors));
        actions
    }
}

pub(super) const SPEC: StrategySpec = StrategySpec {
    rolls_out: true,
    paper: Some(("2502.13575", "https://arxiv.org/abs/2502.13575")),
    usual_choose: Choose::Weighted,
    ..StrategySpec::new(
        "ets",
        "rebase among the chains that are worth their cache, different ones first",
        |config, _| Box::new(Ets::of(config)),
    )
};

#[cfg(test)]
mod tests {
    use super::super::sim::World;
    use super::*;
    use crate::tree::State;

    fn ets(n: usize, lambda_b: f32, lambda_d: f32) -> Ets {
        let keys = EtsConfig {
            lambda_b,
            lambda_d,
            ..EtsConfig::default()
        };
        Ets::of(&SearchConfig {
            n,
            ets: Some(keys),
            ..SearchConfig::default()
        })
    }

    /// Makes two parents of four tokens, each with two children of one token. `steps` gives the
    /// token, which is the kind, and the score of each child.
    fn tree(steps: [(u32, f32); 4]) -> (ChainTree, Vec<NodeId>) {
        let mut tree = ChainTree::new();
        let mut open = Vec::new();
        for pair in steps.chunks(2) {
            let parent = tree.add_child(ChainTree::ROOT);
            tree.node_mut(parent).tokens = vec![0; 4];
            tree.node_mut(parent).score = Some(1.0);
            tree.node_mut(parent).state = State::Expanded;
            for &(token, score) in pair {
                let id = tree.add_child(parent);
                tree.node_mut(id).tokens = vec![token];
                tree.node_mut(id).score = Some(score);
                tree.node_mut(id).state = State::Open;
                open.push(id);
            }
        }
        (tree, open)
    }

    fn expanded(actions: &[Action]) -> Vec<u32> {
        let mut nodes = Vec::new();
        for action in actions {
            if let Action::Expand { node, .. } = action {
                nodes.push(node.0);
            }
        }
        nodes.sort_unstable();
        nodes
    }

    #[test]
    fn without_prices_it_is_rebase() {
        let (tree, open) = tree([(1, 0.9), (2, 0.8), (3, 0.7), (4, 0.6)]);
        let mut rebase = Rebase::new(8, RebaseConfig::default(), Aggregation::Min);
        assert_eq!(
            ets(8, 0.0, 0.0).on_steps(&tree, &open),
            rebase.on_steps(&tree, &open)
        );
    }

    #[test]
    fn chains_that_share_a_cache_are_cheaper() {
        // All steps are of one kind and score alike. The second pair would add five tokens to five.
        let (tree, open) = tree([(1, 0.9), (1, 0.89), (1, 0.88), (1, 0.87)]);
        let actions = ets(8, 1.5, 0.0).on_steps(&tree, &open);
        assert_eq!(expanded(&actions), [open[0].0, open[1].0]);
    }

    #[test]
    fn kinds_that_only_one_chain_has_are_kept() {
        let (tree, open) = tree([(1, 0.9), (1, 0.89), (2, 0.5), (2, 0.4)]);
        assert_eq!(
            expanded(&ets(8, 1.5, 0.0).on_steps(&tree, &open)),
            [open[0].0, open[1].0]
        );
        let actions = ets(8, 1.5, 3.0).on_steps(&tree, &open);
        assert!(expanded(&actions).contains(&open[2].0), "{actions:?}");
    }

    #[test]
    fn the_program_finds_the_best_set() {
        for seed in 0..60u64 {
            let draw = |i: u32| crate::stream::child_stream(seed, i) as u32;
            let steps = [0, 1, 2, 3].map(|i| (draw(i) % 3, (draw(10 + i) % 100) as f32 / 100.0));
            let (tree, mut open) = tree(steps);
            tree.sort_by_score(&mut open, Aggregation::Min);
            let ets = ets(
                8,
                (draw(20) % 30) as f32 / 10.0,
                (draw(21) % 30) as f32 / 10.0,
            );
            let shares = ets.rebase.allot(&tree, &open);
            let shares = shares.iter().map(|&s| s as f64 / 8.0).collect();
            let kinds = clusters(&tokens_of(&tree, &open), 0.05);
            let worth = Worth::new(&tree, &open, shares, kinds, &ets.config);
            let value = |set: &[bool]| {
                let mut paid = vec![false; worth.costs.len()];
                let mut covered = [false; 4];
                let mut value = 0.0;
                for i in (0..4).filter(|&i| set[i]) {
                    value += worth.shares[i];
                    covered[worth.kinds[i]] = true;
                    worth.paths[i].iter().for_each(|&node| paid[node] = true);
                }
                let nodes = worth.costs.iter().zip(&paid).filter(|(_, paid)| **paid);
                value - nodes.map(|(cost, _)| cost).sum::<f64>()
                    + worth.kind_value * covered.iter().filter(|&&c| c).count() as f64
            };
            let sets = (1..16).map(|bits: u32| [0, 1, 2, 3].map(|i| bits >> i & 1 == 1));
            let best = sets.map(|set| value(&set)).fold(f64::MIN, f64::max);
            let found = worth.best().unwrap();
            assert!(
                (value(&found) - best).abs() < 1e-9,
                "seed {seed}: {found:?}"
            );
            assert!(worth.greedy().contains(&true));
        }
    }

    #[test]
    fn steps_of_the_same_tokens_are_of_a_kind() {
        let lists = [&[1, 2, 3][..], &[3, 2, 1], &[4, 5], &[1, 2, 4]];
        let items: [BTreeMap<u32, f64>; 4] =
            lists.map(|list| list.iter().map(|&token| (token, 1.0)).collect());
        assert_eq!(clusters(&items, 0.05), [0, 0, 1, 2]);
        assert_eq!(clusters(&items, 0.4), [0, 0, 1, 0]);
        assert_eq!(clusters(&items, 1.0), [0, 0, 0, 0]);
    }

    #[test]
    fn plays_to_the_end_within_n_chains() {
        for seed in 0..100 {
            let n = [8, 16, 7, 4, 1, 64][seed as usize % 6];
            let mut world = World::random(seed);
            assert!(world.play(&mut ets(n, 1.0, 1.5)).peak <= n);
            world.token_limit = 13;
            assert!(world.play(&mut ets(n, 1.0, 1.5)).grown <= 13);
        }
    }
}
