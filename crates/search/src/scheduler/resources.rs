//! The resources of a problem's nodes in the models: giving them back, and charging for them.

use std::ops::{Index, IndexMut};

use super::active::ActiveProblem;
use super::contents::ContentId;
use super::{Context, Models};
use crate::generator::{ChainId, StepOutput};
use crate::ledger::Ledger;
use crate::strategy::DecodeMode;
use crate::tree::{ChainTree, NodeId, State};

/// The resources of all nodes of a tree.
pub(super) struct Resources(Vec<NodeResources>);

impl Resources {
    pub fn new(root: NodeResources) -> Self {
        Self(vec![root])
    }

    /// Adds those of the tree's next node.
    pub fn push(&mut self, node: NodeResources) {
        self.0.push(node);
    }

    /// The nodes in order of age, the root first.
    pub fn nodes(&self) -> impl Iterator<Item = NodeId> + use<> {
        (0..self.0.len()).map(|at| NodeId(at as u32))
    }
}

impl Index<NodeId> for Resources {
    type Output = NodeResources;

    fn index(&self, node: NodeId) -> &NodeResources {
        &self.0[node.index()]
    }
}

impl IndexMut<NodeId> for Resources {
    fn index_mut(&mut self, node: NodeId) -> &mut NodeResources {
        &mut self.0[node.index()]
    }
}

/// What a node holds in the models, and how much of it is still owed to its children.
#[derive(Debug, Default)]
pub(super) struct NodeResources {
    pub chain: Option<ChainId>,
    /// What its chain says, once it closed or paused.
    pub content: Option<ContentId>,
    /// What its last token stands for behind the step's end.
    pub leftover: Vec<u8>,
    /// The end of its chain's text, as far as an answer may begin there that is not whole.
    pub unsettled: String,
    /// Whether its tokens stand for its text and nothing else.
    pub tokens_match_text: bool,
    /// How its step grows.
    pub mode: DecodeMode,
    /// Most tokens of its step; after it closed without a limit, those left for what follows.
    pub token_limit: usize,
    /// Children still to be started from `chain`.
    pub unstarted: usize,
    /// Children in the middle of a step.
    pub unclosed: usize,
    /// Closed or paused; waits for its siblings to do so.
    pub waits: bool,
    /// Its first child, begun before anybody asked for it.
    pub speculative: Option<SpeculativeStep>,
}

/// A step that is written before it is known whether it will be wanted.
#[derive(Debug)]
pub(super) struct SpeculativeStep {
    pub chain: ChainId,
    pub mode: DecodeMode,
    /// The step, once it closed or paused.
    pub step: Option<StepOutput>,
}

impl ActiveProblem {
    /// Gives back what a node holds in the generator.
    pub(super) fn release(&mut self, node: NodeId, cx: &mut Context<'_, '_>) {
        self.drop_speculative(node, cx);
        if let Some(chain) = self.resources[node].chain.take() {
            cx.models.generator.release(chain);
        }
    }

    /// Drops a chain in the middle of a step.
    pub(super) fn cancel(&mut self, node: NodeId, cx: &mut Context<'_, '_>) {
        if let Some(chain) = self.resources[node].chain.take() {
            let sampled = cx.models.generator.release(chain);
            let billed = self.tree.node(node).tokens.len();
            self.charge(sampled.saturating_sub(billed));
            self.steps.dropped.push(chain);
        }
    }

    /// Throws away the step that was begun ahead of `node`.
    pub(super) fn drop_speculative(&mut self, node: NodeId, cx: &mut Context<'_, '_>) {
        let Some(step) = self.resources[node].speculative.take() else {
            return;
        };
        let unfinished = cx.models.generator.release(step.chain);
        match &step.step {
            Some(step) => self.charge(step.tokens.len()),
            None => {
                self.steps.ahead -= 1;
                self.charge(unfinished);
                self.steps.dropped.push(step.chain);
            }
        }
    }

    /// Charges sampled tokens to the problem, and to the run at the next occasion.
    pub(super) fn charge(&mut self, tokens: usize) {
        self.bill.ledger.generated_tokens += tokens as u64;
        self.bill.generated += tokens as u64;
    }

    /// Hands on to the run what it was not charged for yet.
    pub(super) fn bill_run(&mut self, run: &mut Ledger) {
        run.generated_tokens += std::mem::take(&mut self.bill.generated);
        run.reused_tokens += std::mem::take(&mut self.bill.reused);
    }

    /// Gives everything back.
    pub fn release_all(&mut self, cx: &mut Context<'_, '_>) {
        for node in self.resources.nodes() {
            self.drop_speculative(node, cx);
            self.cancel(node, cx);
        }
        self.release_scores(cx);
    }

    pub(super) fn release_scores(&mut self, cx: &mut Context<'_, '_>) {
        if let Some(scorer) = cx.models.scorer.as_deref_mut() {
            self.contents.release_all(scorer);
        }
    }

    /// Memory of the distinct tokens that are alive in either model.
    pub(super) fn note_memory(&mut self, models: &Models<'_>) {
        let memory = models.generator.memory();
        let nodes = self.resources.nodes();
        let in_generator: Vec<NodeId> = nodes
            .filter(|&node| self.resources[node].chain.is_some())
            .collect();
        let mut bytes = 0;
        if !in_generator.is_empty() {
            let tokens = self.bill.prompt_tokens + self.tree.distinct_tokens(&in_generator);
            bytes += tokens as u64 * memory.bytes_per_token;
        }
        if let Some(scorer) = &models.scorer {
            let memory = scorer.memory();
            bytes += self
                .contents
                .bytes(&self.tree, self.bill.prompt_tokens, memory);
        }
        self.bill.ledger.peak_kv_bytes = self.bill.ledger.peak_kv_bytes.max(bytes);
    }

    /// Gives back the scorer's caches that no chain will be read from any more.
    pub(super) fn release_read(&mut self, cx: &mut Context<'_, '_>) {
        if self.contents.batches > 0 {
            // The scorer is reading from them.
            return;
        }
        let Some(scorer) = cx.models.scorer.as_deref_mut() else {
            return;
        };
        let below = self
            .resources
            .nodes()
            .filter_map(|node| self.read_from(node));
        let wanted: Vec<ContentId> = below.collect();
        self.contents.keep(wanted.into_iter(), scorer);
    }

    /// The text that what is still to be scored at or below a node follows on.
    fn read_from(&self, id: NodeId) -> Option<ContentId> {
        let node = self.tree.node(id);
        let own = self.resources[id].content;
        let above = || {
            let parent = node.parent.unwrap_or(ChainTree::ROOT);
            self.resources[parent].content
        };
        match node.state {
            State::Open => own,
            State::Growing | State::Paused => above(),
            State::Expanded if self.policy.strategy.keeps_expanded(id) => own,
            State::Finished(finish) if finish.is_complete() => {
                own.filter(|&content| self.contents.scored(content).is_none())
            }
            _ => None,
        }
    }
}
