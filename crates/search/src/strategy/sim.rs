//! A small scheduler without models, for tests of strategies. It carries out actions, refuses
//! actions that the real scheduler refuses, and counts steps and chains.

use super::{Action, DecodeMode, Scoring, Start, Strategy};
use crate::finish::Finish;
use crate::stream::child_stream;
use crate::tree::{ChainTree, NodeId, State};

/// A step that a [`World`] writes, with its scores.
#[derive(Debug, Clone)]
pub(super) struct Step {
    pub text: String,
    pub tokens: usize,
    pub score: f32,
    pub partial_score: f32,
    /// The sum of the log-probabilities of the tokens.
    pub logprob: f32,
    pub finish: Option<Finish>,
}

/// A function that writes the step of a node. The node's parent, index and stream are known.
pub(super) type Script = dyn Fn(&ChainTree, NodeId, DecodeMode) -> Step;

/// A replacement of the models, in which strategies are run.
pub(super) struct World {
    pub script: Box<Script>,
    /// The depth at which chains are cut off ([`Finish::MaxSteps`]).
    pub max_steps: u32,
    /// The most steps that may be sampled, as under a token budget. Children beyond the limit are
    /// left out, and leaves without children are dropped.
    pub token_limit: usize,
    pub start: Start,
}

/// The record of a strategy that was run to its end.
#[derive(Debug)]
pub(super) struct Played {
    pub tree: ChainTree,
    /// The most nodes that were open, paused or growing at once.
    pub peak: usize,
    pub grown: usize,
    pub actions: Vec<Action>,
    /// The steps of all nodes, without pauses; the root has none.
    steps: Vec<Option<Step>>,
}

impl Played {
    /// Returns the texts of complete chains.
    pub(super) fn complete(&self) -> Vec<String> {
        let nodes = self.tree.nodes().filter(|(_, node)| node.is_complete());
        nodes.map(|(id, _)| self.tree.text(id)).collect()
    }
}

impl World {
    /// Makes a world of hashed steps. There are few texts, so siblings are often equal. Scores are
    /// arbitrary, and some steps are empty, end the chain or cut it short.
    pub(super) fn random(seed: u64) -> Self {
        fn fraction(bits: u64) -> f32 {
            (bits % 1000) as f32 / 1000.0
        }
        Self::scripted(move |tree, id, mode| {
            let node = tree.node(id);
            let above = tree.node(node.parent.expect("a child")).stream ^ seed;
            let draw = match mode {
                DecodeMode::Greedy => child_stream(above, u32::MAX),
                _ => child_stream(node.stream ^ seed, 0),
            };
            // Seven kinds of steps: siblings are equal often enough for merging to be tested.
            let kind = (draw % 7) as u32;
            let hash = child_stream(above, kind);
            let deep = node.depth >= 3;
            let (text, finish) = match (hash >> 8) % 8 {
                0 if node.depth > 1 => (String::new(), Some(Finish::EndOfText)),
                1..=3 if deep => (format!("end {kind}\n"), Some(Finish::Answer)),
                4 if deep => (format!("cut {kind}"), Some(Finish::StepCap)),
                _ => (format!("step {kind}\n"), None),
            };
            let tokens = 1 + (hash >> 16) as usize % 8;
            Step {
                text,
                tokens,
                score: fraction(hash >> 24),
                partial_score: fraction(hash >> 34),
                logprob: -2.0 * fraction(hash >> 44) * tokens as f32,
                finish,
            }
        })
    }

    pub(super) fn scripted(
        script: impl Fn(&ChainTree, NodeId, DecodeMode) -> Step + 'static,
    ) -> Self {
        Self {
            script: Box::new(script),
            max_steps: 12,
            token_limit: usize::MAX,
            start: Start {
                node: ChainTree::ROOT,
                strategy_seed: 7,
                cache_tokens: 10_000,
            },
        }
    }

    /// Runs the strategy until no step is left to report.
    pub(super) fn play(&self, strategy: &mut dyn Strategy) -> Played {
        let mut played = Played {
            tree: ChainTree::new(),
            peak: 0,
            grown: 0,
            actions: Vec::new(),
            steps: vec![None],
        };
        let mut actions = strategy.begin(self.start);
        // A strategy that does not end fails its test instead of hanging it.
        for _ in 0..10_000 {
            played.actions.extend(&actions);
            let settled = self.round(strategy, &mut played, actions);
            if settled.is_empty() {
                played.end();
                return played;
            }
            actions = strategy.on_steps(&played.tree, &settled);
        }
        panic!("the strategy does not end");
    }

    /// Carries out actions and returns the nodes to report; no nodes if the search has ended.
    fn round(
        &self,
        strategy: &dyn Strategy,
        played: &mut Played,
        actions: Vec<Action>,
    ) -> Vec<NodeId> {
        let mut growing = Vec::new();
        let mut settled = Vec::new();
        for action in actions {
            let tree = &mut played.tree;
            match action {
                Action::Expand { node, count, mode } => {
                    let state = tree.node(node).state;
                    let again = state == State::Expanded && strategy.keeps_expanded(node);
                    assert!(state == State::Open || again, "expands {node:?}, {state:?}");
                    assert!(count > 0, "expands {node:?} into nothing");
                    let granted = count.min(self.token_limit - played.grown);
                    tree.node_mut(node).state = match granted {
                        0 if tree.node(node).children.is_empty() => State::Pruned,
                        _ => State::Expanded,
                    };
                    for _ in 0..granted {
                        let child = tree.add_child(node);
                        played.steps.push(Some((self.script)(tree, child, mode)));
                        played.grown += 1;
                        growing.push((child, mode));
                    }
                }
                Action::Resume(node) => {
                    assert_eq!(tree.node(node).state, State::Paused);
                    tree.node_mut(node).state = State::Growing;
                    growing.push((node, DecodeMode::Sample));
                }
                Action::Score(node) => {
                    let content = tree.node(node);
                    let open = matches!(content.state, State::Open | State::Paused);
                    assert!(open || content.is_complete(), "scores {node:?}");
                    for id in tree.path(node) {
                        played.score(id);
                    }
                    settled.push(node);
                }
                Action::Prune(node) => {
                    let state = tree.node(node).state;
                    let kept = state == State::Expanded && strategy.keeps_expanded(node);
                    let leaf = matches!(state, State::Open | State::Paused | State::Finished(_));
                    assert!(leaf || kept, "prunes {node:?}, {state:?}");
                    tree.node_mut(node).state = State::Pruned;
                }
                Action::Done => {
                    played.end();
                    return Vec::new();
                }
            }
        }
        let alive = [State::Growing, State::Open, State::Paused];
        let live = played.tree.nodes().skip(1);
        let live = live.filter(|(_, node)| alive.contains(&node.state)).count();
        played.peak = played.peak.max(live);
        for &(node, mode) in &growing {
            played.grow(node, mode, self.max_steps);
        }
        for &(node, _) in &growing {
            let twin = strategy.merges_siblings().then(|| played.merge(node));
            if let Some(twin) = twin.flatten() {
                // The representative is reported again, unless it is reported in this round anyway.
                if growing.iter().all(|&(new, _)| new != twin) && !settled.contains(&twin) {
                    settled.push(twin);
                }
                continue;
            }
            if strategy.scoring() == Scoring::EveryStep {
                played.score(node);
            }
            settled.push(node);
        }
        settled.sort_unstable();
        settled
    }
}

impl Played {
    /// Prunes open chains, as the scheduler does at the end of a search.
    fn end(&mut self) {
        let ids: Vec<NodeId> = self.tree.nodes().map(|(id, _)| id).skip(1).collect();
        for id in ids {
            let state = &mut self.tree.node_mut(id).state;
            if *state == State::Open {
                *state = State::Pruned;
            }
        }
    }

    fn grow(&mut self, id: NodeId, mode: DecodeMode, max_steps: u32) {
        let Some(step) = self.steps[id.index()].clone() else {
            return;
        };
        let node = self.tree.node_mut(id);
        let pause = match mode {
            DecodeMode::PauseAfter(tokens) => Some(tokens),
            DecodeMode::PauseAtOnce => Some(1),
            DecodeMode::Sample | DecodeMode::Greedy => None,
        };
        match pause {
            Some(tokens) if tokens < step.tokens => {
                node.tokens = vec![1; tokens];
                node.text = "so far".to_owned();
                node.state = State::Paused;
            }
            _ => {
                node.tokens = vec![1; step.tokens];
                node.text = step.text;
                node.logprob = step.logprob;
                let cut = (node.depth >= max_steps).then_some(Finish::MaxSteps);
                node.state = step.finish.or(cut).map_or(State::Open, State::Finished);
            }
        }
    }

    fn score(&mut self, id: NodeId) {
        let node = self.tree.node_mut(id);
        let (Some(step), false) = (&self.steps[id.index()], node.is_empty_step()) else {
            return;
        };
        match node.state {
            State::Paused => node.partial_score = Some(step.partial_score),
            State::Open | State::Expanded => node.score = Some(step.score),
            State::Finished(finish) if finish.is_complete() => node.score = Some(step.score),
            _ => {}
        }
    }

    /// Merges the node into an equal earlier sibling and returns that sibling, if there is one.
    fn merge(&mut self, id: NodeId) -> Option<NodeId> {
        let node = self.tree.node(id);
        if node.state != State::Open && !node.is_complete() {
            return None;
        }
        let siblings = &self.tree.node(node.parent?).children;
        let earlier = siblings.iter().copied().take_while(|&twin| twin != id);
        let twin = earlier.into_iter().find(|&twin| {
            let other = self.tree.node(twin);
            let before = match other.state {
                State::Expanded => State::Open,
                state => state,
            };
            (before, &other.text) == (node.state, &node.text)
        })?;
        self.tree.node_mut(twin).copies += 1;
        let node = self.tree.node_mut(id);
        node.state = State::Duplicate;
        node.duplicate_of = Some(twin);
        Some(twin)
    }
}
