use serde::{Deserialize, Serialize};

use super::{Action, DecodeMode, Scoring, Start, Strategy, StrategySpec};
use crate::choose::Choose;
use crate::config::SearchConfig;
use crate::error::ConfigError;
use crate::tree::{ChainTree, NodeId, State};

/// The group of steps whose confidence a chain votes with.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ConfidenceKind {
    /// The confidence of the least confident group of the chain.
    #[default]
    Lowest,
    /// The confidence of the last group of the chain.
    Tail,
}

/// The settings of [`DeepConf`], a table in a configuration.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default, expecting = "a table of keys")]
pub struct DeepConfConfig {
    /// The number of chains that are completed before the others and set the threshold; 0: a
    /// quarter of N. With N or more, all chains are completed and only the vote is filtered (the
    /// paper's offline form).
    pub warmup: usize,
    /// eta: the fraction of the warm-up chains that passes the threshold, the most confident ones.
    pub keep: f32,
    /// The number of steps in a group.
    pub group_steps: usize,
    /// The confidence that is a chain's weight in the vote.
    pub weight: ConfidenceKind,
}

impl Default for DeepConfConfig {
    fn default() -> Self {
        Self {
            warmup: 0,
            keep: 0.9,
            group_steps: 2,
            weight: ConfidenceKind::Lowest,
        }
    }
}

impl DeepConfConfig {
    pub(crate) fn validate(&self) -> Result<(), ConfigError> {
        ConfigError::check_count("deepconf.group_steps", self.group_steps)?;
        let words = "above 0 and at most 1";
        ConfigError::check_range("deepconf.keep", self.keep, f32::MIN_POSITIVE..=1.0, words)
    }
}

/// Deep think with confidence (`DeepConf`, <https://arxiv.org/abs/2508.15260>): samples that stop
/// where the generator itself is unsure, and a vote weighted by confidence. No scorer is needed.
///
/// The confidence of a group, the last few steps of a chain, is the geometric mean of the
/// probabilities of its sampled tokens. (The paper takes the mean log-probability of the top-k
/// tokens at each position, over a window of tokens.)
///
/// Warm-up chains are completed first. The threshold is the lowest group confidence that the
/// fraction `keep` of them reaches. The other chains stop as soon as a group falls below the
/// threshold. Chains with a group below the threshold have no vote, warm-up chains included. The
/// score of a finished chain is its confidence, so `choose = "weighted"` is the paper's vote.
#[derive(Debug, Clone)]
pub struct DeepConf {
    n: usize,
    warmup: usize,
    config: DeepConfConfig,
    begun: bool,
    /// The node that all chains begin with: the root or the last given step.
    start: NodeId,
    threshold: Option<f64>,
    /// The complete chains of the warm-up.
    complete: Vec<NodeId>,
    /// Chains that are paused after their first token and wait for the threshold.
    waiting: Vec<NodeId>,
}

impl DeepConf {
    /// Makes the strategy; the configuration must be valid.
    pub(super) fn of(config: &SearchConfig) -> Self {
        let keys = config.deepconf.clone().unwrap_or_default();
        Self {
            n: config.n,
            warmup: match keys.warmup {
                0 => config.n.div_ceil(4),
                warmup => warmup.min(config.n),
            },
            config: keys,
            begun: false,
            start: ChainTree::ROOT,
            threshold: None,
            complete: Vec::new(),
            waiting: Vec::new(),
        }
    }

    /// Returns the confidence, from 0 to 1, of the group that ends with the last of `steps`.
    fn group(&self, tree: &ChainTree, steps: &[NodeId]) -> f64 {
        let first = steps.len().saturating_sub(self.config.group_steps);
        let (mut sum, mut tokens) = (0.0, 0);
        for &id in &steps[first..] {
            sum += f64::from(tree.node(id).logprob);
            tokens += tree.node(id).sampled_tokens();
        }
        (sum / tokens.max(1) as f64).exp()
    }

    /// Returns the sampled steps of a chain; a given step has no confidence.
    fn sampled(&self, tree: &ChainTree, end: NodeId) -> Vec<NodeId> {
        let path = tree.path(end).into_iter();
        path.filter(|&id| id > self.start).collect()
    }

    fn lowest(&self, tree: &ChainTree, end: NodeId) -> f64 {
        let path = self.sampled(tree, end);
        let ends = 1..=path.len();
        ends.map(|end| self.group(tree, &path[..end]))
            .fold(1.0, f64::min)
    }

    /// Returns the lowest group confidence that the fraction `keep` of the warm-up reaches.
    fn percentile(&self, tree: &ChainTree) -> f64 {
        let chains = self.complete.iter();
        let mut lowest: Vec<f64> = chains.map(|&id| self.lowest(tree, id)).collect();
        lowest.sort_by(|a, b| b.total_cmp(a));
        let kept = (lowest.len() as f64 * f64::from(self.config.keep)).ceil() as usize;
        // At least one chain sets the threshold, however small `keep` is.
        lowest.get(kept.max(1) - 1).copied().unwrap_or(0.0)
    }

    /// Continues each chain that is confident so far, and drops the others.
    fn advance(&self, tree: &ChainTree, chains: &[NodeId]) -> Vec<Action> {
        let threshold = self.threshold.unwrap_or(0.0);
        let mut actions = Vec::new();
        for &id in chains {
            let node = tree.node(id);
            match node.state {
                State::Paused => actions.push(Action::Resume(id)),
                // Earlier groups were compared when they ended, so only the newest group is
                // compared.
                State::Open if self.group(tree, &self.sampled(tree, id)) < threshold => {
                    actions.push(Action::Prune(id));
                }
                State::Open => actions.push(Action::expand(id, 1)),
                _ if node.is_complete() && self.lowest(tree, id) < threshold => {
                    actions.push(Action::Prune(id));
                }
                _ => {}
            }
        }
        actions
    }

    /// Whether a chain belongs to the warm-up, by its place among the problem's chains.
    fn is_warmup(&self, tree: &ChainTree, id: NodeId) -> bool {
        let first = self.sampled(tree, id).first().copied();
        let mut chains = tree.node(self.start).children.iter();
        chains
            .position(|&chain| Some(chain) == first)
            .is_some_and(|place| place < self.warmup)
    }
}

impl Strategy for DeepConf {
    fn scoring(&self) -> Scoring {
        Scoring::Never
    }

    /// Chains are independent samples, as in best-of-N: equal chains have a vote each.
    fn merges_siblings(&self) -> bool {
        false
    }

    fn begin(&mut self, start: Start) -> Vec<Action> {
        self.start = start.node;
        // A node is expanded once, so all chains have to begin now. The chains after the warm-up
        // pause after their first token, which costs little, until the threshold is known.
        let mode = if self.warmup < self.n {
            DecodeMode::PauseAtOnce
        } else {
            DecodeMode::Sample
        };
        vec![mode.expand(start.node, self.n)]
    }

    fn on_steps(&mut self, tree: &ChainTree, nodes: &[NodeId]) -> Vec<Action> {
        let mut chains = nodes.to_vec();
        if !self.begun {
            self.begun = true;
            (chains, self.waiting) = chains.into_iter().partition(|&id| self.is_warmup(tree, id));
        }
        if self.threshold.is_some() {
            return self.advance(tree, &chains);
        }
        self.complete
            .extend(chains.iter().filter(|&&id| tree.node(id).is_complete()));
        let actions = self.advance(tree, &chains);
        if !actions.is_empty() {
            return actions;
        }
        self.threshold = Some(self.percentile(tree));
        // The warm-up chains are filtered by the same threshold as the others.
        let mut rest = std::mem::take(&mut self.complete);
        rest.append(&mut self.waiting);
        self.advance(tree, &rest)
    }

    fn chain_score(&self, tree: &ChainTree, end: NodeId) -> Option<f32> {
        let sampled = self.sampled(tree, end);
        let confidence = match self.config.weight {
            ConfidenceKind::Lowest => self.lowest(tree, end),
            ConfidenceKind::Tail => self.group(tree, &sampled),
        };
        (!sampled.is_empty()).then_some(confidence as f32)
    }
}

pub(super) const SPEC: StrategySpec = StrategySpec {
    branches: false,
    paper: Some(("2508.15260", "https://arxiv.org/abs/2508.15260")),
    usual_choose: Choose::Weighted,
    needs_scorer: |_| None,
    uses_scores: |_| false,
    ..StrategySpec::new(
        "deepconf",
        "N samples, unsure ones stopped, a vote by the generator's own confidence; no scorer",
        |config, _| Box::new(DeepConf::of(config)),
    )
};

#[cfg(test)]
mod tests {
    use super::super::sim::{Step, World};
    use super::*;
    use crate::finish::Finish;

    fn deepconf(n: usize, warmup: usize, keep: f32) -> DeepConf {
        let keys = DeepConfConfig {
            warmup,
            keep,
            group_steps: 1,
            ..DeepConfConfig::default()
        };
        with_keys(n, keys)
    }

    fn with_keys(n: usize, keys: DeepConfConfig) -> DeepConf {
        DeepConf::of(&SearchConfig {
            n,
            deepconf: Some(keys),
            ..SearchConfig::default()
        })
    }

    /// Makes chains of four steps of two tokens; `logprob(chain, depth)` is the log-probability of
    /// each token.
    fn world(logprob: impl Fn(usize, u32) -> f32 + 'static) -> World {
        World::scripted(move |tree, id, _| {
            let first = tree.path(id)[0];
            let chains = &tree.node(ChainTree::ROOT).children;
            let chain = chains.iter().position(|&c| c == first).unwrap();
            let depth = tree.node(id).depth;
            Step {
                text: format!("{chain}{depth} "),
                tokens: 2,
                score: 0.5,
                partial_score: 0.5,
                logprob: 2.0 * logprob(chain, depth),
                finish: (depth == 4).then_some(Finish::Answer),
            }
        })
    }

    #[test]
    fn chains_less_sure_than_the_warm_up_stop_early() {
        // Chains 0 and 1 set the threshold; 2 falls below it at its second step, 3 never does.
        let world = world(|chain, depth| match (chain, depth) {
            (0, 2) => -0.5,
            (1, 3) => -0.4,
            (2, 2) => -0.6,
            _ => -0.1,
        });
        let played = world.play(&mut deepconf(4, 2, 1.0));
        assert_eq!(played.complete().len(), 3);
        assert!(played.complete().iter().all(|text| !text.starts_with('2')));
        // Two steps of the third chain, four of the others.
        assert_eq!(played.grown, 14);
        let score = |strategy: &DeepConf| {
            let complete = played.tree.nodes().filter(|(_, node)| node.is_complete());
            let scores = complete.map(|(id, _)| strategy.chain_score(&played.tree, id).unwrap());
            scores.collect::<Vec<f32>>()
        };
        let expected = [-0.5f32, -0.4, -0.1].map(f32::exp);
        for (score, expected) in score(&deepconf(4, 2, 1.0)).iter().zip(expected) {
            assert!((score - expected).abs() < 1e-6, "{score} {expected}");
        }
        let mut tail = deepconf(4, 2, 1.0);
        tail.config.weight = ConfidenceKind::Tail;
        let sure = (-0.1f32).exp();
        assert!(score(&tail).iter().all(|score| (score - sure).abs() < 1e-6));
    }

    #[test]
    fn the_least_sure_of_the_warm_up_lose_their_vote() {
        let world = world(|chain, _| -0.1 * (chain + 1) as f32);
        let first = |keep| {
            let played = world.play(&mut deepconf(4, 4, keep));
            assert_eq!(played.grown, 16);
            let texts = played.complete().into_iter();
            texts.map(|text| text[..1].to_owned()).collect::<String>()
        };
        assert_eq!(first(1.0), "0123");
        assert_eq!(first(0.5), "01");
        assert_eq!(first(0.01), "0");
    }

    #[test]
    fn a_group_is_a_window_over_steps() {
        let (mut tree, mut at) = (ChainTree::new(), ChainTree::ROOT);
        for (tokens, logprob) in [(1, -1.0), (3, -0.6), (2, -0.2)] {
            at = tree.add_child(at);
            tree.node_mut(at).tokens = vec![0; tokens];
            tree.node_mut(at).logprob = logprob;
        }
        for (group_steps, tail, lowest) in [(1, -0.1, -1.0), (2, -0.16, -1.0), (3, -0.3, -1.0)] {
            let keys = DeepConfConfig {
                group_steps,
                ..DeepConfConfig::default()
            };
            let strategy = with_keys(1, keys);
            let found = strategy.group(&tree, &tree.path(at)).ln();
            assert!((found - tail).abs() < 1e-6, "{found}");
            let found = strategy.lowest(&tree, at).ln();
            assert!((found - lowest).abs() < 1e-6, "{found}");
        }
    }

    #[test]
    fn plays_to_the_end_within_n_chains() {
        for seed in 0..200 {
            let n = [8, 16, 7, 4, 1][seed as usize % 5];
            let mut world = World::random(seed);
            for warmup in [0, 1, n] {
                assert!(world.play(&mut deepconf(n, warmup, 0.5)).peak <= n);
            }
            world.token_limit = 13;
            assert!(world.play(&mut deepconf(n, 0, 0.5)).grown <= 13);
        }
    }
}
