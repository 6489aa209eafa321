//! The tree of partial and finished chains of one problem.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::aggregation::Aggregation;
use crate::finish::Finish;
use crate::numbers::{number_or_nan, numbers_or_nan, one};
use crate::outcome::Outcome;
use crate::stream::{ROOT_STREAM, child_stream};
use crate::thinking::Thought;
use crate::token_logprobs::TokenLogprobs;

/// The index of a node in its tree; parents have smaller numbers than their children.
#[derive(
    Debug, Default, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
pub struct NodeId(pub u32);

impl NodeId {
    pub(crate) fn index(self) -> usize {
        self.0 as usize
    }
}

/// The state of the chain that ends at a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "state", content = "finish")]
pub enum State {
    /// The step is queued or being decoded. Tokens are missing: all of them, or those after a
    /// pause.
    Growing,
    /// The step is paused in the middle, so that its beginning can be scored.
    Paused,
    /// The step is closed and may be expanded.
    Open,
    /// The chain continues in the node's children.
    Expanded,
    /// The chain ended with this step.
    Finished(Finish),
    /// The search dropped the chain; [`Node::pruned`] has the reason.
    Pruned,
    /// An earlier sibling has the same text and represents both.
    Duplicate,
}

/// The reason for pruning a node, and the node's rank at that moment.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Pruned {
    /// The decision behind the pruning: the strategy's choice, the budget, or the end of the
    /// search.
    pub reason: PruneReason,
    /// The round of the search in which the node was pruned, counted like [`Node::round`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub round: Option<u32>,
    /// The node's place among the candidates of that round by chain score, 1 for the best.
    /// Strategies may choose by another order: a subtree of DVTS keeps its own best chain, a
    /// particle filter samples.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rank: Option<u32>,
    /// The number of candidates: chains that could have continued, and complete chains.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub candidates: Option<u32>,
    /// The lowest chain score among the chains that continued.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cutoff: Option<f32>,
}

/// The reason for pruning a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum PruneReason {
    /// The strategy continued with other chains.
    NotChosen,
    /// The strategy wanted to continue the chain, but the problem's token budget was too small.
    Budget,
    /// The chain was open, or in the middle of a step, when the search ended.
    SearchOver,
}

/// One step of a chain. The chain of a node consists of the steps from the root to the node.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Node {
    /// The node of the step before; `None` for the root.
    pub parent: Option<NodeId>,
    /// The nodes of the next steps, in the order of their random streams.
    pub children: Vec<NodeId>,
    /// The nodes of the first steps of this step's rollouts, which are not among `children`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub rollouts: Vec<NodeId>,
    /// Whether the step belongs to a rollout: the search did not ask for it, only for the value of
    /// a step before it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_rollout: bool,
    /// The number of steps from the root to this node; 0 for the root.
    pub depth: u32,
    /// The random stream that the step was sampled from.
    pub stream: u64,
    /// The tokens of this step only, its boundary or end-of-text token included.
    pub tokens: Vec<u32>,
    /// The text of this step only, its boundary included.
    pub text: String,
    /// The thought at the beginning of the step; `None` if it has no part of one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub thought: Option<Thought>,
    /// The text that the scorer reads, if it is not `text`. Not serialized.
    #[serde(skip)]
    pub read: Option<String>,
    /// The sum of the generator's log-probabilities (natural logarithm) of the tokens.
    #[serde(deserialize_with = "number_or_nan")]
    pub logprob: f32,
    /// Log-probabilities of each of `tokens`, if the settings ask for them; empty otherwise. Not
    /// serialized.
    #[serde(skip)]
    pub token_logprobs: Vec<TokenLogprobs>,
    /// The scorer's probability that the step is right. `Some(0.0)` is a score.
    pub score: Option<f32>,
    /// The scorer's probability for the beginning of the step, if the step was paused.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub partial_score: Option<f32>,
    /// V: the mean worth of the step's rollouts, in `0.0..=1.0`, if the search has values by
    /// rollouts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub value: Option<f32>,
    /// The score of the chain up to this step, if it is not that of the steps: in a search with
    /// values by rollouts the value, or its mixture with the aggregated scores of the steps; in a
    /// search with outcome scores 1 or 0 at the end of a chain.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rating: Option<f32>,
    /// The verifier's finding about the chain that ends here, if it was asked while the search ran.
    /// Not serialized: finished chains have their outcomes.
    #[serde(skip)]
    pub outcome: Option<Outcome>,
    /// The scores of the judges that were asked about the step, by name; `None` for a judge that
    /// abstained. Empty with a single scorer. If the step is paused, or was rejected at its pause,
    /// the scores are for its beginning.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub judges: BTreeMap<String, Option<f32>>,
    /// The 10, 50 and 90 % quantiles of the step's probability of success, if the scorer has them.
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        deserialize_with = "numbers_or_nan"
    )]
    pub quantiles: Option<[f32; 3]>,
    /// The number of siblings sampled with this text, this node included. This node represents all
    /// of them.
    #[serde(default = "one")]
    pub copies: usize,
    /// The round in which the strategy asked for this step, from 1. `None` if the strategy does not
    /// work in rounds, so that chains grow independently.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub round: Option<u32>,
    /// The reason for pruning; `None` if the node was not pruned.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pruned: Option<Pruned>,
    /// The earlier sibling with the same text; `None` if the node is not a duplicate.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub duplicate_of: Option<NodeId>,
    /// The state of the chain that ends with this step.
    #[serde(flatten)]
    pub state: State,
}

impl Node {
    fn new(parent: Option<NodeId>, depth: u32, stream: u64, state: State) -> Self {
        Self {
            parent,
            children: Vec::new(),
            rollouts: Vec::new(),
            is_rollout: false,
            depth,
            stream,
            tokens: Vec::new(),
            text: String::new(),
            thought: None,
            read: None,
            logprob: 0.0,
            token_logprobs: Vec::new(),
            score: None,
            partial_score: None,
            value: None,
            rating: None,
            outcome: None,
            judges: BTreeMap::new(),
            quantiles: None,
            copies: 1,
            round: None,
            pruned: None,
            duplicate_of: None,
            state,
        }
    }

    /// Whether the step has no text for a scorer but white space, such as a lone end-of-text token
    /// after the last boundary. Empty steps are never scored.
    pub fn is_empty_step(&self) -> bool {
        self.read_text().trim().is_empty()
    }

    /// Returns the text that scorers read: the whole text of the step or, if it has a part of a
    /// thought, the part that the settings name.
    pub fn read_text(&self) -> &str {
        self.read.as_deref().unwrap_or(&self.text)
    }

    /// Returns the text of the step's thought, without its tags; `None` if the step has none.
    pub fn thinking(&self) -> Option<&str> {
        self.thought.map(|thought| thought.text(&self.text))
    }

    /// Returns the text of the step after its thought.
    pub fn spoken(&self) -> &str {
        let from = self.thought.map_or(0, |thought| thought.bytes);
        self.text.get(from..).unwrap_or_default()
    }

    /// Returns the number of tokens that the generator sampled for the step.
    pub fn sampled_tokens(&self) -> usize {
        let forced = self.thought.map_or(0, |thought| thought.forced);
        self.tokens.len().saturating_sub(forced)
    }

    /// Returns the reason why the chain ended with this step; `None` if the chain did not end here.
    pub fn finish(&self) -> Option<Finish> {
        match self.state {
            State::Finished(finish) => Some(finish),
            _ => None,
        }
    }

    /// Whether the chain ended here by itself and not at a limit.
    pub fn is_complete(&self) -> bool {
        self.finish().is_some_and(Finish::is_complete)
    }
}

/// The tree of all chains of a problem, in an arena: every token is stored once. Node 0 is the
/// root, which is the problem. The root has no tokens; its text is empty or the tag of a thought
/// that the prompt leaves open.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct ChainTree {
    nodes: Vec<Node>,
}

impl Default for ChainTree {
    fn default() -> Self {
        Self::new()
    }
}

impl ChainTree {
    /// The root, which is the problem before any step.
    pub const ROOT: NodeId = NodeId(0);

    /// Makes a tree that consists of only the root.
    pub fn new() -> Self {
        Self::after("")
    }

    /// Makes a tree of only the root, whose text is the tag of a thought that the prompt leaves
    /// open.
    pub(crate) fn after(thought: &str) -> Self {
        let mut root = Node::new(None, 0, ROOT_STREAM, State::Open);
        root.text = thought.to_owned();
        Self { nodes: vec![root] }
    }

    /// Returns the number of nodes, the root, pruned nodes and duplicates included.
    #[allow(clippy::len_without_is_empty, reason = "there is always a root")]
    pub fn len(&self) -> usize {
        self.nodes.len()
    }

    /// Returns the node with this number.
    ///
    /// # Panics
    /// If `id` comes from another tree and is not in this one.
    pub fn node(&self, id: NodeId) -> &Node {
        &self.nodes[id.index()]
    }

    pub(crate) fn node_mut(&mut self, id: NodeId) -> &mut Node {
        &mut self.nodes[id.index()]
    }

    /// Iterates over all nodes, parents before their children.
    pub fn nodes(&self) -> impl ExactSizeIterator<Item = (NodeId, &Node)> {
        self.nodes
            .iter()
            .enumerate()
            .map(|(i, node)| (NodeId(i as u32), node))
    }

    pub(crate) fn contains(&self, id: NodeId) -> bool {
        id.index() < self.nodes.len()
    }

    /// Adds a growing child after the node's other children and returns its id.
    pub(crate) fn add_child(&mut self, parent: NodeId) -> NodeId {
        let id = NodeId(self.nodes.len() as u32);
        let above = self.node_mut(parent);
        let index = above.children.len() as u32;
        above.children.push(id);
        let (depth, stream) = (above.depth + 1, child_stream(above.stream, index));
        let mut node = Node::new(Some(parent), depth, stream, State::Growing);
        node.is_rollout = above.is_rollout;
        self.nodes.push(node);
        id
    }

    /// Adds the growing first step of a rollout and returns its id. The streams of rollouts are
    /// others than those of children, so the search samples the same children with and without
    /// rollouts.
    pub(crate) fn add_rollout(&mut self, parent: NodeId) -> NodeId {
        let id = NodeId(self.nodes.len() as u32);
        let above = self.node_mut(parent);
        let index = above.rollouts.len() as u32;
        above.rollouts.push(id);
        let stream = child_stream(above.stream, u32::MAX - index);
        let mut node = Node::new(Some(parent), above.depth + 1, stream, State::Growing);
        node.is_rollout = true;
        self.nodes.push(node);
        id
    }

    /// Returns the chain of `id`: its nodes from the first step down to `id`, without the root.
    pub fn path(&self, id: NodeId) -> Vec<NodeId> {
        let mut path = Vec::with_capacity(self.node(id).depth as usize);
        let mut at = id;
        while let Some(parent) = self.node(at).parent {
            path.push(at);
            at = parent;
        }
        path.reverse();
        path
    }

    fn chain(&self, id: NodeId) -> impl Iterator<Item = &Node> {
        self.path(id).into_iter().map(|id| self.node(id))
    }

    /// Iterates over the steps of the chain of `id`, first step first, without empty steps.
    pub fn steps(&self, id: NodeId) -> impl Iterator<Item = &Node> {
        self.chain(id).filter(|node| !node.is_empty_step())
    }

    /// Returns the text of the whole chain, without the root's text.
    pub fn text(&self, id: NodeId) -> String {
        self.chain(id).map(|node| node.text.as_str()).collect()
    }

    /// Returns the text in which to look for the chain's answer: the text of the chain after its
    /// thought. If the generator reports no thoughts, it is the whole text, after the tag of a
    /// thought that the prompt opened.
    pub fn solution(&self, id: NodeId) -> String {
        let has_thought = self.chain(id).any(|node| node.thought.is_some());
        if has_thought {
            return self.chain(id).map(Node::spoken).collect();
        }
        self.node(Self::ROOT).text.clone() + &self.text(id)
    }

    /// Returns the number of tokens of the whole chain, without the prompt.
    pub fn token_count(&self, id: NodeId) -> usize {
        self.chain(id).map(|node| node.tokens.len()).sum()
    }

    /// Returns the number of sampled tokens of the whole chain, and of given steps.
    pub fn sampled_count(&self, id: NodeId) -> usize {
        self.chain(id).map(Node::sampled_tokens).sum()
    }

    /// Returns the number of sampled tokens in the thought of the chain.
    pub fn thought_tokens(&self, id: NodeId) -> usize {
        let thoughts = self.chain(id).filter_map(|node| node.thought);
        thoughts.map(Thought::sampled).sum()
    }

    /// Returns the sum of the log-probabilities (natural logarithm) of the chain's tokens.
    pub fn logprob(&self, id: NodeId) -> f32 {
        // Summed in f64: an f32 sum over thousands of tokens would depend on how they are split
        // into steps.
        let logprobs = self.chain(id).map(|node| f64::from(node.logprob));
        logprobs.sum::<f64>() as f32
    }

    /// Iterates over the log-probabilities of the tokens sampled for the chain of `id`; given steps
    /// have none. The tokens may stand for more bytes than the chain's text: a chain may end inside
    /// a token.
    pub fn token_logprobs(&self, id: NodeId) -> impl Iterator<Item = &TokenLogprobs> {
        self.chain(id).flat_map(|node| &node.token_logprobs)
    }

    /// Returns the mean log-probability per sampled token of the chain; 0 for the root.
    pub fn mean_logprob(&self, id: NodeId) -> f32 {
        self.logprob(id) / self.sampled_count(id).max(1) as f32
    }

    /// Returns the score of the chain; `None` if there is none.
    ///
    /// If the step has a [rating](Node::rating), it is the score. Otherwise the scores of
    /// the steps are aggregated; a paused step counts with its partial score. A chain without scores
    /// has the rating of the nearest step above that has one.
    pub fn chain_score(&self, id: NodeId, aggregation: Aggregation) -> Option<f32> {
        let rating = self.node(id).rating;
        let nearest = || self.chain(id).filter_map(|node| node.rating).last();
        rating
            .or_else(|| self.scored(id, aggregation))
            .or_else(nearest)
    }

    /// Returns the aggregated scores of the chain's steps, without ratings by rollouts; `None` if no
    /// step has a score.
    pub fn scored(&self, id: NodeId, aggregation: Aggregation) -> Option<f32> {
        let scores = self.chain(id).filter_map(|node| {
            let score = node.score.or(node.partial_score)?;
            Some(aggregation.weighed(score, node.logprob))
        });
        aggregation.fold(scores)
    }

    /// Counts the tokens of all nodes at or above one of `ends`, each node once; without the
    /// prompt.
    pub fn distinct_tokens(&self, ends: &[NodeId]) -> usize {
        let mut counted = vec![false; self.nodes.len()];
        let mut tokens = 0;
        for &end in ends {
            let mut at = Some(end);
            // Stops at the first counted node: all nodes above it are counted, too.
            while let Some(id) = at.filter(|id| !counted[id.index()]) {
                counted[id.index()] = true;
                tokens += self.node(id).tokens.len();
                at = self.node(id).parent;
            }
        }
        tokens
    }

    /// Sorts nodes by chain score, best first. Chains without a score come last. Equal chains keep
    /// the order of their numbers: the child of the better parent comes first, then the earlier
    /// sibling.
    pub fn sort_by_score(&self, nodes: &mut [NodeId], aggregation: Aggregation) {
        let scored = nodes
            .iter()
            .map(|&id| (self.chain_score(id, aggregation), id))
            .collect();
        nodes.copy_from_slice(&best_first(scored));
    }

    /// Numbers the tree in depth-first order, so that the numbers do not depend on the order in
    /// which steps closed.
    pub(crate) fn renumbered(mut self) -> Self {
        let mut order = Vec::with_capacity(self.nodes.len());
        let mut stack = vec![Self::ROOT];
        while let Some(id) = stack.pop() {
            order.push(id);
            // Pushed in reverse order, since the last pushed node is visited first.
            stack.extend(self.node(id).rollouts.iter().rev());
            stack.extend(self.node(id).children.iter().rev());
        }
        let mut new_id = vec![NodeId(0); self.nodes.len()];
        for (new, old) in order.iter().enumerate() {
            new_id[old.index()] = NodeId(new as u32);
        }
        for node in &mut self.nodes {
            node.parent = node.parent.map(|p| new_id[p.index()]);
            node.duplicate_of = node.duplicate_of.map(|twin| new_id[twin.index()]);
            for child in node.children.iter_mut().chain(&mut node.rollouts) {
                *child = new_id[child.index()];
            }
        }
        let mut old: Vec<Option<Node>> = self.nodes.into_iter().map(Some).collect();
        let nodes = order
            .iter()
            .filter_map(|id| old[id.index()].take())
            .collect();
        Self { nodes }
    }
}

/// Sorts nodes by their scores, best first; nodes without a score come last. Nodes with equal
/// scores keep the order of their numbers, which is the order of the strategy's `Expand` actions.
pub(crate) fn best_first(mut scored: Vec<(Option<f32>, NodeId)>) -> Vec<NodeId> {
    fn value(score: Option<f32>) -> f32 {
        score.unwrap_or(f32::NEG_INFINITY)
    }
    scored.sort_by(|a, b| value(b.0).total_cmp(&value(a.0)).then(a.1.cmp(&b.1)));
    scored.into_iter().map(|(_, id)| id).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Makes the tree root -> a -> b, root -> c, with b added after c.
    fn sample() -> (ChainTree, [NodeId; 3]) {
        let mut tree = ChainTree::new();
        let a = tree.add_child(ChainTree::ROOT);
        let c = tree.add_child(ChainTree::ROOT);
        let b = tree.add_child(a);
        for (id, text, score) in [(a, "a\n", 0.5), (b, "b\n", 0.25), (c, "c\n", 0.0)] {
            let node = tree.node_mut(id);
            node.text = text.into();
            node.score = Some(score);
            node.tokens = vec![id.0; 2];
            node.logprob = -1.0;
        }
        (tree, [a, b, c])
    }

    #[test]
    fn a_chain_is_its_path() {
        let (tree, [a, b, c]) = sample();
        assert_eq!(tree.path(b), [a, b]);
        assert_eq!(tree.text(b), "a\nb\n");
        assert_eq!(tree.token_count(b), 4);
        assert_eq!(tree.logprob(b), -2.0);
        assert_eq!(tree.mean_logprob(b), -0.5);
        assert_eq!(tree.chain_score(b, Aggregation::Product), Some(0.125));
        assert_eq!(tree.chain_score(c, Aggregation::Min), Some(0.0));
        assert!(tree.path(ChainTree::ROOT).is_empty());
    }

    #[test]
    fn sorting_puts_ties_in_order_of_age_and_unscored_last() {
        let (mut tree, [a, b, c]) = sample();
        let unscored = tree.add_child(ChainTree::ROOT);
        tree.node_mut(b).score = Some(0.5);
        let mut ids = [unscored, c, b, a];
        tree.sort_by_score(&mut ids, Aggregation::Min);
        assert_eq!(ids, [a, b, c, unscored]);
    }

    #[test]
    fn renumbering_keeps_the_tree_and_forgets_the_order_of_arrival() {
        let (tree, _) = sample();
        let tree = tree.renumbered();
        let texts: Vec<_> = tree.nodes().map(|(_, node)| node.text.as_str()).collect();
        assert_eq!(texts, ["", "a\n", "b\n", "c\n"]);
        assert_eq!(tree.text(NodeId(2)), "a\nb\n");
        assert_eq!(tree.node(ChainTree::ROOT).children, [NodeId(1), NodeId(3)]);
    }

    #[test]
    fn serialises_with_flat_state() {
        let (mut tree, [a, ..]) = sample();
        tree.node_mut(a).state = State::Finished(Finish::Answer);
        let json = serde_json::to_value(&tree).unwrap();
        assert_eq!(json[1]["state"], "finished");
        assert_eq!(json[1]["finish"], "answer");
        assert_eq!(json[0]["state"], "open");
        let back: ChainTree = serde_json::from_value(json).unwrap();
        assert_eq!(back, tree);
    }
}
