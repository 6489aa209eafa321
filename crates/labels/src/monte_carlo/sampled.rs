//! The samples of one problem: chains, their prefixes, and the rollouts from each prefix.

use std::collections::{HashMap, HashSet};

use beamgen_search::{ChainTree, Finish, NodeId, Problem, State};

use super::bisect::{self, Search};
use super::pool::{self, Candidate};
use super::{Labels, Mode, MonteCarlo};
use crate::{LabelledChain, LabelledStep, Policy, Rollouts};

/// The way in which a chain or rollout ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum End {
    Right,
    Wrong,
    /// A limit on the length of a step or chain cut the text off.
    Truncated,
    /// The token budget or the memory ran out, so the sample counts nowhere.
    Lost,
}

impl End {
    pub(super) fn of(finish: Finish, is_right: impl FnOnce() -> bool) -> Self {
        match finish {
            Finish::EndOfText | Finish::Answer | Finish::Stop => {
                if is_right() {
                    Self::Right
                } else {
                    Self::Wrong
                }
            }
            Finish::StepCap | Finish::ChainCap | Finish::MaxSteps => Self::Truncated,
            Finish::Budget | Finish::NoMemory => Self::Lost,
        }
    }
}

/// The steps of a chain from its start to one step. Chains that begin with the same text share it.
#[derive(Debug, Default)]
pub(super) struct Prefix {
    /// The first node with this text; other nodes with it are other chains' paths.
    pub node: NodeId,
    /// The last step, without its boundary.
    step: String,
    /// Whether the answer of the chain that ends here is right; `None` if chains continue from
    /// here.
    pub is_right: Option<bool>,
    /// The number of rollouts that were requested.
    pub drawn: u32,
    /// The number of rollouts that are still growing.
    pub alive: u32,
    /// The number of rollouts that reached their own end.
    pub n: u32,
    /// The number of rollouts among `n` whose answer is right.
    pub k: u32,
    /// The number of rollouts, not among `n`, that a length limit cut off.
    pub truncated: u32,
    /// The number of rollouts with at least one step, including dropped ones.
    begun: u64,
    /// The number of tokens of all steps of the prefix.
    tokens: u64,
    /// The number of times that a wrong rollout of this prefix was chosen for a search.
    pub chosen: u32,
}

impl Prefix {
    /// Returns the hard label: whether some completion is right. `None` if no completion reached
    /// its own end.
    fn is_good(&self) -> Option<bool> {
        self.is_right.or((self.n > 0).then_some(self.k > 0))
    }

    fn rollouts(&self, seed: u64) -> Option<Rollouts> {
        let (n, k) = match self.is_right {
            // The text ends here, so the only completion is the chain itself.
            Some(right) => (1, u32::from(right)),
            None => (self.n, self.k),
        };
        let known = n + self.truncated > 0;
        known.then_some(Rollouts {
            n,
            k,
            truncated: self.truncated,
            seed: Some(seed),
            policy: None,
        })
    }
}

#[derive(Debug, Default)]
pub(super) struct Chain {
    /// The complete steps of the chain, as indices into [`Sampled::prefixes`].
    pub prefixes: Vec<usize>,
    /// The way in which the chain ended; `None` while the chain grows or if the search stopped
    /// first.
    pub end: Option<End>,
    tokens: u64,
    /// The node of the last step.
    pub node: NodeId,
    /// Whether the reward model chose the chain as a hard example ([`Mine`](super::Mine)).
    pub mined: bool,
    /// For a rollout that is searched like a chain: the number of steps in the prefix before it.
    rollout_from: Option<usize>,
}

#[derive(Debug, Default)]
pub(super) struct Sampled {
    pub chains: Vec<Chain>,
    pub prefixes: Vec<Prefix>,
    /// The number of rollouts per prefix, known once all chains have ended.
    pub target: u32,
    /// Prefixes by text and by whether a chain ended there. The flag is part of the key because a
    /// text that ends one chain may be the middle of another.
    by_text: HashMap<(String, bool), usize>,
    by_node: HashMap<NodeId, usize>,
    /// The index of the chain whose next step comes after this node.
    chain_of: HashMap<NodeId, usize>,
    /// The index of the prefix whose rollout has its next step after this node.
    pub rollout_of: HashMap<NodeId, usize>,
    /// The wrong rollouts in which a first error may be searched.
    pub pool: Vec<Candidate>,
    /// The nodes whose caches are kept, because a later rollout forks them.
    pub kept: HashSet<NodeId>,
    /// The indices of the prefixes that get rollouts; `None` for all.
    pub mined: Option<HashSet<usize>>,
}

/// The sample to which a node belongs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Part {
    /// An index into [`Sampled::chains`].
    Chain(usize),
    /// A rollout from the prefix with this index.
    Rollout(usize),
}

impl Sampled {
    /// Returns the chain or rollout to which a newly reported node belongs. `chains_grow` is true
    /// in the first phase, in which all nodes belong to chains.
    pub(super) fn part(
        &mut self,
        tree: &ChainTree,
        node: NodeId,
        chains_grow: bool,
    ) -> Option<Part> {
        let parent = tree.node(node).parent.unwrap_or(ChainTree::ROOT);
        if !chains_grow {
            if let Some(prefix) = self.rollout_of.remove(&parent) {
                return Some(Part::Rollout(prefix));
            }
            let prefix = *self.by_node.get(&parent)?;
            // The parent is the prefix itself, so the node is the first step of a new rollout.
            self.prefixes[prefix].begun += 1;
            return Some(Part::Rollout(prefix));
        }
        let chain = self.chain_of.remove(&parent).unwrap_or_else(|| {
            self.chains.push(Chain::default());
            self.chains.len() - 1
        });
        Some(Part::Chain(chain))
    }

    /// Records the next step of a chain. Returns whether the chain continues.
    pub(super) fn grow(
        &mut self,
        chain: usize,
        tree: &ChainTree,
        node: NodeId,
        end: Option<End>,
    ) -> bool {
        let content = tree.node(node);
        self.chains[chain].end = end;
        self.chains[chain].node = node;
        self.chains[chain].tokens += content.tokens.len() as u64;
        // A step that was cut off is incomplete, so no rollout can start after it.
        let is_whole = matches!(end, None | Some(End::Right | End::Wrong));
        if is_whole && !content.is_empty_step() {
            let is_right = end.map(|end| end == End::Right);
            let prefix = self.prefix(tree, node, is_right);
            self.chains[chain].prefixes.push(prefix);
        }
        let continues = end.is_none() && content.state == State::Open;
        if continues {
            self.chain_of.insert(node, chain);
        }
        continues
    }

    fn prefix(&mut self, tree: &ChainTree, node: NodeId, is_right: Option<bool>) -> usize {
        // Keyed by text, because equal chains are separate paths in a tree of independent samples.
        let key = (tree.text(node), is_right.is_some());
        let next = self.prefixes.len();
        let prefix = *self.by_text.entry(key).or_insert(next);
        if prefix == next {
            if is_right.is_none() {
                // Rollouts will fork this cache. A node that ends a chain has no rollouts.
                self.kept.insert(node);
            }
            self.by_node.insert(node, prefix);
            let text = tree.node(node).spoken();
            self.prefixes.push(Prefix {
                node,
                step: text.trim_start_matches('\n').trim_end().to_owned(),
                is_right,
                tokens: tree.token_count(node) as u64,
                ..Prefix::default()
            });
        }
        prefix
    }

    /// Records the next step of a rollout.
    pub(super) fn roll(&mut self, prefix: usize, node: NodeId, end: Option<End>) {
        let rolled = &mut self.prefixes[prefix];
        match end {
            None => {
                rolled.alive += 1;
                self.rollout_of.insert(node, prefix);
            }
            Some(End::Right) => (rolled.n, rolled.k) = (rolled.n + 1, rolled.k + 1),
            Some(End::Wrong) => rolled.n += 1,
            Some(End::Truncated) => rolled.truncated += 1,
            Some(End::Lost) => {}
        }
    }

    /// Returns the share of right chains among those that reached their own end; `None` without
    /// any.
    pub(super) fn pass_rate(&self) -> Option<f64> {
        let (mut right, mut wrong) = (0, 0);
        // Chosen rollouts are excluded: all of them are wrong, so they would bias the rate.
        for chain in self
            .chains
            .iter()
            .filter(|chain| chain.rollout_from.is_none())
        {
            right += u32::from(chain.end == Some(End::Right));
            wrong += u32::from(chain.end == Some(End::Wrong));
        }
        (right + wrong > 0).then(|| f64::from(right) / f64::from(right + wrong))
    }

    pub(super) fn is_mixed(&self) -> bool {
        self.pass_rate()
            .is_some_and(|rate| rate > 0.0 && rate < 1.0)
    }

    /// Returns the token count of the longest chain, or 0.
    pub(super) fn longest(&self) -> u64 {
        self.chains.iter().map(|c| c.tokens).max().unwrap_or(0)
    }

    /// Runs the binary search for a chain's first error, with the rollouts known so far.
    pub(super) fn search(&self, chain: &Chain) -> Search {
        let from = chain.rollout_from.unwrap_or(0);
        bisect::search(from, chain.prefixes.len(), chain.end, |step| {
            let prefix = &self.prefixes[chain.prefixes[step]];
            let is_done = prefix.drawn >= self.target && prefix.alive == 0;
            // A text that ends here has only itself as a completion, so no rollout is needed.
            (is_done || prefix.is_right.is_some()).then(|| prefix.is_good())
        })
    }

    /// Turns the best rollout of the pool into a chain, in which the first error is then searched.
    /// Returns false if the pool has no suitable rollout.
    pub(super) fn reuse_rollout(&mut self, tree: &ChainTree) -> bool {
        let Some(candidate) = pool::select(&mut self.pool, &mut self.prefixes, tree) else {
            return false;
        };
        let mut chain = Chain {
            end: Some(End::Wrong),
            node: candidate.end,
            ..Chain::default()
        };
        for node in tree.path(candidate.end) {
            if !tree.node(node).is_empty_step() {
                let is_right = (node == candidate.end).then_some(false);
                let prefix = self.prefix(tree, node, is_right);
                chain.prefixes.push(prefix);
                if prefix == candidate.prefix {
                    chain.rollout_from = Some(chain.prefixes.len());
                }
            }
        }
        self.chains.push(chain);
        true
    }

    /// Removes the nodes of a rollout from `kept`. Returns the removed nodes, which can be pruned.
    pub(super) fn release(&mut self, tree: &ChainTree, end: NodeId, prefix: usize) -> Vec<NodeId> {
        let begin = tree.node(self.prefixes[prefix].node).depth as usize;
        let mut path = tree.path(end).split_off(begin);
        path.retain(|node| self.kept.remove(node));
        path
    }

    /// Removes rollouts from the pool whose prefix has no right rollout, and returns them. Their
    /// first error is in the prefix, so a search after it would find nothing.
    pub(super) fn take_hopeless(&mut self) -> Vec<Candidate> {
        let (prefixes, target) = (&self.prefixes, self.target);
        self.pool
            .extract_if(.., |candidate| {
                let prefix = &prefixes[candidate.prefix];
                prefix.k == 0 && prefix.alive == 0 && prefix.drawn >= target
            })
            .collect()
    }

    pub(super) fn labels(
        &self,
        options: MonteCarlo,
        problem: &Problem,
        seed: u64,
        policy: &Policy,
    ) -> Labels {
        let mut seen = HashSet::new();
        let mut labelled = Labels::default();
        let counts = &mut labelled.counts;
        let is_mixed = self.is_mixed();
        counts.mixed = u64::from(is_mixed);
        for chain in &self.chains {
            counts.chain_tokens += chain.tokens;
            counts.chains += u64::from(chain.rollout_from.is_none());
            counts.right += u64::from(chain.end == Some(End::Right));
            counts.cut += u64::from(!matches!(chain.end, Some(End::Right | End::Wrong)));
            // The end is part of the key: the same steps may end one chain and be all that is
            // complete of another that was cut off.
            let is_new = seen.insert((&chain.prefixes, chain.end));
            let is_wanted = (options.mine.is_none() || chain.mined) && (!options.mixed || is_mixed);
            if chain.prefixes.is_empty() || !is_new || !is_wanted {
                continue;
            }
            counts.distinct += 1;
            let number = labelled.chains.len() + 1;
            labelled.chains.push(LabelledChain {
                id: Some(format!("{}/{number}", problem.id)),
                problem: problem.with_context().into_owned(),
                steps: self.steps(chain, (options.rollouts > 0).then_some(seed)),
                first_error: match (options.mode, self.search(chain)) {
                    (Mode::Binary, Search::Found(step)) => Some(step as i64),
                    (Mode::Binary, Search::NoError) => Some(-1),
                    _ => None,
                },
                outcome: match chain.end {
                    Some(End::Right) => Some(true),
                    Some(End::Wrong) => Some(false),
                    _ => None,
                },
                answer: problem.answer.clone(),
                source: chain.rollout_from.map(|_| "rollout".to_owned()),
                policy: Some(policy.clone()),
                ..LabelledChain::default()
            });
        }
        for prefix in &self.prefixes {
            // Each prefix counts once, even if several chains share it.
            counts.labels += u64::from(prefix.n > 0);
            counts.rollouts += u64::from(prefix.n);
            counts.truncated += u64::from(prefix.truncated);
            counts.begun += prefix.begun;
            counts.prefix_tokens += prefix.begun * prefix.tokens;
        }
        labelled
    }

    /// Returns a chain's steps. With a seed, the steps have their rollouts.
    fn steps(&self, chain: &Chain, seed: Option<u64>) -> Vec<LabelledStep> {
        let mut steps = Vec::with_capacity(chain.prefixes.len());
        for &prefix in &chain.prefixes {
            let prefix = &self.prefixes[prefix];
            steps.push(LabelledStep {
                text: prefix.step.clone(),
                rollouts: seed.and_then(|seed| prefix.rollouts(seed)),
                ..LabelledStep::default()
            });
        }
        steps
    }

    /// Makes one chain of one step for each end, for tests that need no tree.
    #[cfg(test)]
    pub(super) fn of_ends(ends: &[End]) -> Self {
        let chains = ends.iter().enumerate().map(|(at, &end)| Chain {
            prefixes: vec![at],
            end: Some(end),
            tokens: 1,
            ..Chain::default()
        });
        Self {
            chains: chains.collect(),
            ..Self::default()
        }
    }
}
