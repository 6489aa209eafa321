//! Speculative extension (`FastTTS`, <https://arxiv.org/abs/2509.00195>): chains whose step is done
//! continue with the next step while the last steps of the round are written.
//!
//! A speculative step after a node is sampled from the random stream of the node's first child. The
//! step is therefore the same, bit for bit, as if it had begun after the round. If the strategy
//! expands the node, the first child gets the step; otherwise the step is discarded.

use std::collections::HashSet;

use super::Context;
use super::active::{ActiveProblem, SpeculativeStep};
use super::budget::TokenBudget;
use super::contents::ContentId;
use crate::generator::{ChainId, Source, StepOutput, StepPlan};
use crate::stream::child_stream;
use crate::tree::{NodeId, State};

impl ActiveProblem {
    /// Begins the next step of every chain whose step of this round is done. Returns the new chains
    /// with the nodes that they follow.
    pub(super) fn start_speculative(&mut self, cx: &mut Context<'_, '_>) -> Vec<(ChainId, NodeId)> {
        let mut started = Vec::new();
        let unlimited = matches!(self.budget, TokenBudget::Unlimited);
        // If no step is growing, the round is over and the strategy decides first. Under a budget,
        // no tokens are spent on steps that may be discarded. Without rounds, no chain waits for
        // another.
        if self.steps.growing == 0 || !unlimited || !self.policy.strategy.in_rounds() {
            return started;
        }
        let below = self.resources.nodes().skip(1);
        let closed: Vec<NodeId> = below.filter(|&id| self.may_speculate(id)).collect();
        let mut ahead = self.speculative_texts();
        for id in closed {
            let Some(source) = self.resources[id].chain else {
                continue;
            };
            // Equal siblings will be merged into one node, which needs only one step.
            let text = self.resources[id].content;
            if self.policy.strategy.merges_siblings() && ahead.contains(&text) {
                continue;
            }
            let mode = self.resources[id].mode;
            let plan = StepPlan {
                stream: child_stream(self.tree.node(id).stream, 0),
                mode,
                // A token budget could limit the step, but with a budget this function has returned
                // above.
                token_limit: usize::MAX,
            };
            let from = Source::ForkOf(source);
            // Speculation takes only memory that is free now. If there is too little, the next turn
            // tries again.
            let Some(chain) = cx.models.generator.try_start(from, plan) else {
                break;
            };
            self.resources[id].speculative = Some(SpeculativeStep {
                chain,
                mode,
                step: None,
            });
            self.steps.ahead += 1;
            ahead.insert(text);
            started.push((chain, id));
        }
        started
    }

    fn may_speculate(&self, id: NodeId) -> bool {
        let node = self.tree.node(id);
        node.state == State::Open
            && node.children.is_empty()
            && self.resources[id].speculative.is_none()
    }

    /// Returns the texts after which a speculative step exists.
    fn speculative_texts(&self) -> HashSet<Option<ContentId>> {
        let resources = self.resources.nodes().map(|node| &self.resources[node]);
        resources
            .filter(|resources| resources.speculative.is_some())
            .map(|resources| resources.content)
            .collect()
    }

    /// Keeps a speculative step that closed or paused until the strategy asks for it.
    pub(super) fn close_speculative(&mut self, node: NodeId, step: StepOutput) {
        self.steps.ahead -= 1;
        if let Some(ahead) = &mut self.resources[node].speculative {
            ahead.step = Some(step);
        }
    }
}
