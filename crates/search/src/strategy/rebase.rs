use serde::{Deserialize, Serialize};
use strum::Display;

use super::{Action, Start, Strategy, StrategySpec, open};
use crate::aggregation::Aggregation;
use crate::choose::Choose;
use crate::error::ConfigError;
use crate::tree::{ChainTree, NodeId};

/// The way in which a width is divided among chains.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, Display)]
#[serde(rename_all = "kebab-case")]
#[strum(serialize_all = "kebab-case")]
pub enum Balance {
    /// In proportion to the weights, rounded by largest remainder. Each chain gets at least one
    /// child while the width lasts, best first.
    #[default]
    Fair,
    /// The paper's way: from the best chain down, each gets its share of what is left, rounded up.
    /// The last chains often get nothing.
    Paper,
}

/// The settings of [`Rebase`], a table in a configuration.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default, expecting = "a table of keys")]
pub struct RebaseConfig {
    /// T of the softmax over chain scores; small values give nearly the whole width to the best
    /// chain.
    pub temperature: f32,
    /// The way in which shares are rounded to whole numbers of children.
    pub balance: Balance,
}

impl Default for RebaseConfig {
    fn default() -> Self {
        Self {
            temperature: 0.2,
            balance: Balance::Fair,
        }
    }
}

impl RebaseConfig {
    pub(crate) fn validate(&self) -> Result<(), ConfigError> {
        ConfigError::check_positive("rebase.temperature", self.temperature)
    }
}

/// Reward-balanced search (REBASE, Wu et al., <https://arxiv.org/abs/2408.00724>): every open chain
/// gets a share of the width by its score.
///
/// The shares are softmax(score / T). Each chain that comes to its end takes one of the N places
/// for good. A text that was sampled k times under one parent counts as k chains. The search ends
/// when no place or no open chain is left. The paper chooses the answer by a weighted vote.
#[derive(Debug, Clone)]
pub struct Rebase {
    config: RebaseConfig,
    aggregation: Aggregation,
    /// N, less the number of complete chains.
    width: usize,
}

impl Rebase {
    /// Makes the strategy for N chains; the keys must be valid.
    pub(super) fn new(n: usize, config: RebaseConfig, aggregation: Aggregation) -> Self {
        Self {
            config,
            aggregation,
            width: n,
        }
    }

    /// Takes a place of the width, for good, for each complete chain among `nodes`.
    pub(super) fn note_complete(&mut self, tree: &ChainTree, nodes: &[NodeId]) {
        let complete = nodes.iter().map(|&id| tree.node(id));
        let places: usize = complete
            .filter(|node| node.is_complete())
            .map(|node| node.copies)
            .sum();
        self.width = self.width.saturating_sub(places);
    }

    /// Returns the number of places that are left for open chains.
    pub(super) fn width(&self) -> usize {
        self.width
    }

    /// Expands the chains of `open`, which are sorted best first; a chain with a share of 0 is
    /// dropped.
    pub(super) fn divide(&self, tree: &ChainTree, open: &[NodeId]) -> Vec<Action> {
        let counts = self.allot(tree, open);
        let mut actions = Vec::with_capacity(open.len());
        for (&id, count) in open.iter().zip(counts) {
            actions.push(match count {
                0 => Action::Prune(id),
                count => Action::expand(id, count),
            });
        }
        actions
    }

    /// Returns the number of children for each chain of `open`, which are sorted best first.
    pub(super) fn allot(&self, tree: &ChainTree, open: &[NodeId]) -> Vec<usize> {
        let score = |id| f64::from(tree.chain_score(id, self.aggregation).unwrap_or(0.0));
        // Exponents relative to the best chain, whose weight is 1: the sum cannot vanish.
        let best = open.first().map_or(0.0, |&id| score(id));
        let temperature = f64::from(self.config.temperature);
        // Copies count as separate chains, so that k samples of one text get as much as k different
        // texts.
        let mut owners = Vec::new();
        let mut weights = Vec::new();
        for (i, &id) in open.iter().enumerate() {
            let weight = ((score(id) - best) / temperature).exp();
            for _ in 0..tree.node(id).copies {
                owners.push(i);
                weights.push(weight);
            }
        }
        let shares = match self.config.balance {
            Balance::Fair => fair(&weights, self.width),
            Balance::Paper => rounded_up(&weights, self.width),
        };
        let mut counts = vec![0; open.len()];
        for (owner, share) in owners.into_iter().zip(shares) {
            counts[owner] += share;
        }
        counts
    }
}

/// Divides `width` in proportion to `weights`, which are sorted from high to low. Each weight gets
/// at least 1 while the width lasts.
fn fair(weights: &[f64], width: usize) -> Vec<usize> {
    let mut shares = vec![1; weights.len().min(width)];
    shares.resize(weights.len(), 0);
    // A chain whose proportional share is below 1 keeps its minimum of 1. Then the `rich` chains
    // before it divide the rest. Their shares change, so the weakest of them is checked again.
    let mut rich = weights.len().min(width);
    let mut rest = width - rich;
    while rich > 1 && quota(&weights[..rich], rest, rich - 1) < 1.0 {
        rich -= 1;
    }
    let quotas: Vec<f64> = (0..rich)
        .map(|i| quota(&weights[..rich], rest, i))
        .collect();
    for (share, quota) in shares.iter_mut().zip(&quotas) {
        let more = (quota.floor() as usize).saturating_sub(1).min(rest);
        *share += more;
        rest -= more;
    }
    let mut by_remainder: Vec<usize> = (0..rich).collect();
    by_remainder.sort_by(|&a, &b| quotas[b].fract().total_cmp(&quotas[a].fract()));
    // In a cycle, since more places may be left than there are chains.
    for i in by_remainder.into_iter().cycle().take(rest) {
        shares[i] += 1;
    }
    shares
}

/// Returns the proportional share of `weights[i]` if `rest` and one place for each weight are
/// divided.
fn quota(weights: &[f64], rest: usize, i: usize) -> f64 {
    let all: f64 = weights.iter().sum();
    (rest + weights.len()) as f64 * weights[i] / all
}

/// Divides `width` by falling `weights`: each gets its share of what is left, rounded up.
fn rounded_up(weights: &[f64], width: usize) -> Vec<usize> {
    let mut left = width;
    let mut shares = Vec::with_capacity(weights.len());
    for (i, weight) in weights.iter().enumerate() {
        let below: f64 = weights[i..].iter().sum();
        let part = (left as f64 * weight / below).ceil();
        // The last weights may underflow to 0; then `part` is 0 / 0 and the chain gets all that is
        // left.
        let share = if part.is_nan() {
            left
        } else {
            left.min(part as usize)
        };
        left -= share;
        shares.push(share);
    }
    shares
}

impl Strategy for Rebase {
    fn begin(&mut self, start: Start) -> Vec<Action> {
        vec![Action::expand(start.node, self.width)]
    }

    fn on_steps(&mut self, tree: &ChainTree, nodes: &[NodeId]) -> Vec<Action> {
        self.note_complete(tree, nodes);
        let mut open = open(tree, nodes);
        tree.sort_by_score(&mut open, self.aggregation);
        self.divide(tree, &open)
    }
}

pub(super) const SPEC: StrategySpec = StrategySpec {
    rolls_out: true,
    paper: Some(("2408.00724", "https://arxiv.org/abs/2408.00724")),
    usual_choose: Choose::Weighted,
    ..StrategySpec::new(
        "rebase",
        "children in proportion to the softmax of the scores",
        |config, _| {
            let keys = config.rebase.clone();
            Box::new(Rebase::new(config.n, keys, config.aggregation))
        },
    )
};

#[cfg(test)]
mod tests {
    use super::super::sim::World;
    use super::*;
    use crate::finish::Finish;
    use crate::tree::State;

    fn rebase(n: usize, balance: Balance) -> Rebase {
        let config = RebaseConfig {
            balance,
            ..RebaseConfig::default()
        };
        Rebase::new(n, config, Aggregation::Min)
    }

    /// Makes children of the root with these scores.
    fn tree(scores: &[f32]) -> (ChainTree, Vec<NodeId>) {
        let mut tree = ChainTree::new();
        let mut ids = Vec::new();
        for &score in scores {
            let id = tree.add_child(ChainTree::ROOT);
            tree.node_mut(id).score = Some(score);
            tree.node_mut(id).state = State::Open;
            ids.push(id);
        }
        (tree, ids)
    }

    fn counts(actions: &[Action]) -> Vec<(u32, usize)> {
        let counts = actions.iter().map(|action| match action {
            Action::Expand { node, count, .. } => (node.0, *count),
            Action::Prune(node) => (node.0, 0),
            other => panic!("{other:?}"),
        });
        counts.collect()
    }

    #[test]
    fn shares_go_by_softmax() {
        // exp(0.2 ln 2 / 0.2) = 2: weights 4, 2 and 1.
        let step = 0.2 * std::f32::consts::LN_2;
        let (tree, ids) = tree(&[0.0, 2.0 * step, step]);
        for balance in [Balance::Fair, Balance::Paper] {
            let actions = rebase(14, balance).on_steps(&tree, &ids);
            assert_eq!(counts(&actions), [(2, 8), (3, 4), (1, 2)], "{balance}");
        }
    }

    #[test]
    fn the_paper_starves_the_tail_and_the_fair_mode_does_not() {
        let (tree, ids) = tree(&[0.9, 0.8, 0.3, 0.1]);
        let actions = rebase(6, Balance::Paper).on_steps(&tree, &ids);
        assert_eq!(counts(&actions), [(1, 4), (2, 2), (3, 0), (4, 0)]);
        let actions = rebase(6, Balance::Fair).on_steps(&tree, &ids);
        assert_eq!(counts(&actions), [(1, 2), (2, 2), (3, 1), (4, 1)]);
        let actions = rebase(3, Balance::Fair).on_steps(&tree, &ids);
        assert_eq!(counts(&actions), [(1, 1), (2, 1), (3, 1), (4, 0)]);
    }

    #[test]
    fn complete_chains_take_places_and_copies_count() {
        for balance in [Balance::Fair, Balance::Paper] {
            let (mut tree, ids) = tree(&[0.5, 0.5, 0.2]);
            tree.node_mut(ids[1]).copies = 3;
            tree.node_mut(ids[2]).copies = 2;
            tree.node_mut(ids[2]).state = State::Finished(Finish::Answer);
            let mut strategy = rebase(10, balance);
            assert_eq!(counts(&strategy.on_steps(&tree, &ids)), [(1, 2), (2, 6)]);
            let child = tree.add_child(ids[1]);
            tree.node_mut(child).copies = 8;
            tree.node_mut(child).state = State::Finished(Finish::Answer);
            let open = tree.add_child(ids[1]);
            tree.node_mut(open).state = State::Open;
            assert_eq!(
                strategy.on_steps(&tree, &[child, open]),
                [Action::Prune(open)]
            );
        }
    }

    #[test]
    fn every_width_is_given_out_whole() {
        for seed in 0..300 {
            let draw = |i: u32| crate::stream::child_stream(seed, i);
            let mut weights: Vec<f64> = (0..1 + draw(0) as u32 % 9)
                .map(|i| (-((draw(i) % 2000) as f64)).exp())
                .collect();
            weights.sort_by(|a, b| b.total_cmp(a));
            // The best weighs 1, as in a softmax.
            weights[0] = 1.0;
            for width in 0..20 {
                let fair = fair(&weights, width);
                assert_eq!(fair.iter().sum::<usize>(), width);
                assert!(fair.iter().take(width).all(|&share| share > 0));
                assert!(fair.is_sorted_by(|a, b| a >= b), "{fair:?}");
                assert_eq!(rounded_up(&weights, width).iter().sum::<usize>(), width);
            }
        }
    }

    #[test]
    fn plays_to_the_end_within_n_chains() {
        for seed in 0..200 {
            let n = [8, 16, 7, 4, 1][seed as usize % 5];
            let mut world = World::random(seed);
            for balance in [Balance::Fair, Balance::Paper] {
                assert!(world.play(&mut rebase(n, balance)).peak <= n);
            }
            world.token_limit = 13;
            assert!(world.play(&mut rebase(n, Balance::Fair)).grown <= 13);
        }
    }
}
