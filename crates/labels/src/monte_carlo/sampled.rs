//! What was sampled for a problem: its chains, their prefixes, and the rollouts of each prefix.

use std::collections::{HashMap, HashSet};

use beamgen_search::{ChainTree, Finish, NodeId, Problem, State};

use super::bisect::{self, Search};
use super::pool::{self, Candidate};
use super::{Labels, Mode, MonteCarlo};
use crate::{LabelledChain, LabelledStep, Policy, Rollouts};

/// How a chain or a rollout ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum End {
    Right,
    Wrong,
    /// A limit on its length cut it.
    Truncated,
    /// The token budget or the memory was used up: it is as if it had not been drawn.
    Lost,
}

impl End {
    pub(super) fn of(finish: Finish, is_right: impl FnOnce() -> bool) -> Self {
        match finish {
            Finish::EndOfText | Finish::Answer => {
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

/// The steps of a chain up to one of them. Chains that begin with the same text share it.
#[derive(Debug, Default)]
pub(super) struct Prefix {
    /// The first node that has this text.
    pub node: NodeId,
    /// The last step, without its boundary.
    step: String,
    /// For a chain that came to its own end here: whether it is right.
    pub is_right: Option<bool>,
    /// Rollouts asked for.
    pub drawn: u32,
    /// Rollouts that grow.
    pub alive: u32,
    /// Rollouts that came to their end, and those of them that are right.
    pub n: u32,
    pub k: u32,
    /// Rollouts that a length limit cut.
    pub truncated: u32,
    /// Rollouts that began, those that were dropped counted.
    begun: u64,
    /// Tokens of its steps.
    tokens: u64,
    /// How often one of its wrong rollouts was chosen to be searched.
    pub chosen: u32,
}

impl Prefix {
    /// The hard label: whether some completion is right. `None` if none came to its end.
    fn is_good(&self) -> Option<bool> {
        self.is_right.or((self.n > 0).then_some(self.k > 0))
    }

    fn rollouts(&self, seed: u64) -> Option<Rollouts> {
        let (n, k) = match self.is_right {
            // What has come to its end has one completion: itself.
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
    /// Its whole steps, as prefixes.
    pub prefixes: Vec<usize>,
    /// `None` while it grows; it stays so where the search ended before the chain did.
    pub end: Option<End>,
    tokens: u64,
    /// Its last node.
    pub node: NodeId,
    /// Whether a reward model is mistaken about it.
    pub mined: bool,
    /// For a rollout that is searched like a chain: the steps of the prefix that it begins behind.
    rollout_from: Option<usize>,
}

#[derive(Debug, Default)]
pub(super) struct Sampled {
    pub chains: Vec<Chain>,
    pub prefixes: Vec<Prefix>,
    /// How many rollouts a prefix gets; known once the chains are done.
    pub target: u32,
    /// By the chain's text up to there. A text at which chains ended is another prefix than the
    /// same text from which they went on.
    by_text: HashMap<(String, bool), usize>,
    by_node: HashMap<NodeId, usize>,
    /// The chain that goes on from a node.
    chain_of: HashMap<NodeId, usize>,
    /// The prefix of the rollout that goes on from a node.
    pub rollout_of: HashMap<NodeId, usize>,
    /// Wrong rollouts that may be searched.
    pub pool: Vec<Candidate>,
    /// Nodes whose caches are wanted.
    pub kept: HashSet<NodeId>,
    /// The prefixes that are rolled out; `None` is all.
    pub mined: Option<HashSet<usize>>,
}

/// What a node is part of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Part {
    /// The chain of this number.
    Chain(usize),
    /// A rollout of the prefix of this number.
    Rollout(usize),
}

impl Sampled {
    /// What a node just reported is part of. `chains_grow`: whether the chains are not done yet.
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
            self.prefixes[prefix].begun += 1;
            return Some(Part::Rollout(prefix));
        }
        let chain = self.chain_of.remove(&parent).unwrap_or_else(|| {
            self.chains.push(Chain::default());
            self.chains.len() - 1
        });
        Some(Part::Chain(chain))
    }

    /// Takes in the next step of a chain. Returns whether the chain is to go on.
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
        let is_whole = matches!(end, None | Some(End::Right | End::Wrong));
        if is_whole && !content.is_empty_step() {
            let is_right = end.map(|end| end == End::Right);
            let prefix = self.prefix(tree, node, is_right);
            self.chains[chain].prefixes.push(prefix);
        }
        let goes_on = end.is_none() && content.state == State::Open;
        if goes_on {
            self.chain_of.insert(node, chain);
        }
        goes_on
    }

    fn prefix(&mut self, tree: &ChainTree, node: NodeId, is_right: Option<bool>) -> usize {
        let key = (tree.text(node), is_right.is_some());
        let next = self.prefixes.len();
        let prefix = *self.by_text.entry(key).or_insert(next);
        if prefix == next {
            if is_right.is_none() {
                self.kept.insert(node);
            }
            self.by_node.insert(node, prefix);
            let text = &tree.node(node).text;
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

    /// Takes in the next step of a rollout.
    pub(super) fn roll(&mut self, prefix: usize, node: NodeId, end: Option<End>) {
        let of = &mut self.prefixes[prefix];
        match end {
            None => {
                of.alive += 1;
                self.rollout_of.insert(node, prefix);
            }
            Some(End::Right) => (of.n, of.k) = (of.n + 1, of.k + 1),
            Some(End::Wrong) => of.n += 1,
            Some(End::Truncated) => of.truncated += 1,
            Some(End::Lost) => {}
        }
    }

    /// The share of right chains among those that came to their own end.
    pub(super) fn pass_rate(&self) -> Option<f64> {
        let chains = || self.chains.iter().filter(|c| c.rollout_from.is_none());
        let count = |end| chains().filter(|c| c.end == Some(end)).count();
        let (right, wrong) = (count(End::Right), count(End::Wrong));
        (right + wrong > 0).then(|| right as f64 / (right + wrong) as f64)
    }

    /// Whether some chains are right and some are wrong.
    pub(super) fn is_mixed(&self) -> bool {
        self.pass_rate()
            .is_some_and(|rate| rate > 0.0 && rate < 1.0)
    }

    /// Tokens of the longest chain.
    pub(super) fn longest(&self) -> u64 {
        self.chains.iter().map(|c| c.tokens).max().unwrap_or(0)
    }

    /// How far the binary search of a chain's first error is.
    pub(super) fn search(&self, chain: &Chain) -> Search {
        let rolled_out = |step: usize| {
            let prefix = &self.prefixes[chain.prefixes[step]];
            let is_done = prefix.drawn >= self.target && prefix.alive == 0;
            (is_done || prefix.is_right.is_some()).then(|| prefix.is_good())
        };
        let from = chain.rollout_from.unwrap_or(0);
        bisect::search(from, chain.prefixes.len(), chain.end, rolled_out)
    }

    /// Makes the wrong rollout that is most worth it a chain to be searched. Returns whether there
    /// was one.
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

    /// Lets the caches of a rollout go. Returns the nodes that had one.
    pub(super) fn release(&mut self, tree: &ChainTree, end: NodeId, prefix: usize) -> Vec<NodeId> {
        let begin = tree.node(self.prefixes[prefix].node).depth as usize;
        let mut path = tree.path(end).split_off(begin);
        path.retain(|node| self.kept.remove(node));
        path
    }

    /// Takes the rollouts of prefixes without a right one, whose first error is before them, out of
    /// the pool.
    pub(super) fn take_hopeless(&mut self) -> Vec<Candidate> {
        let is_hopeless = |candidate: &Candidate| {
            let prefix = &self.prefixes[candidate.prefix];
            prefix.k == 0 && prefix.alive == 0 && prefix.drawn >= self.target
        };
        self.pool
            .extract_if(.., |candidate| is_hopeless(candidate))
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
            counts.labels += u64::from(prefix.n > 0);
            counts.rollouts += u64::from(prefix.n);
            counts.truncated += u64::from(prefix.truncated);
            counts.begun += prefix.begun;
            counts.prefix_tokens += prefix.begun * prefix.tokens;
        }
        labelled
    }

    /// The steps with their rollouts, if there are any to have.
    fn steps(&self, chain: &Chain, seed: Option<u64>) -> Vec<LabelledStep> {
        let step = |&prefix: &usize| {
            let prefix = &self.prefixes[prefix];
            LabelledStep {
                text: prefix.step.clone(),
                rollouts: seed.and_then(|seed| prefix.rollouts(seed)),
                ..LabelledStep::default()
            }
        };
        chain.prefixes.iter().map(step).collect()
    }
    /// Chains of one step each that ended so, without a tree.
    #[cfg(test)]
    pub(super) fn of_ends(ends: &[End]) -> Self {
        let chain = |(at, end): (usize, &End)| Chain {
            prefixes: vec![at],
            end: Some(*end),
            tokens: 1,
            ..Chain::default()
        };
        Self {
            chains: ends.iter().enumerate().map(chain).collect(),
            ..Self::default()
        }
    }
}
