//! Speculative extension (`FastTTS`, <https://arxiv.org/abs/2509.00195>): chains that are done with
//! their step go on with the next one while the last steps of the round are written.
//!
//! What is written ahead of a node is its first child: drawn from that child's random stream, so it
//! is the same, bit for bit, as if it had been begun after the round. If the strategy expands the
//! node, the child takes the step over; otherwise it is thrown away.

use std::collections::HashSet;

use super::Context;
use super::active::{ActiveProblem, SpeculativeStep};
use super::budget::TokenBudget;
use super::contents::ContentId;
use crate::generator::{ChainId, Source, StepOutput, StepPlan};
use crate::stream::child_stream;
use crate::tree::{NodeId, State};

impl ActiveProblem {
    /// Begins a step after every chain that is done with its own in this round. Returns their
    /// chains with the nodes they follow.
    pub(super) fn start_speculative(&mut self, cx: &mut Context<'_, '_>) -> Vec<(ChainId, NodeId)> {
        let mut started = Vec::new();
        let unlimited = matches!(self.budget, TokenBudget::Unlimited);
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
            // Equal siblings will be one.
            let text = self.resources[id].content;
            if self.policy.strategy.merges_siblings() && ahead.contains(&text) {
                continue;
            }
            let mode = self.resources[id].mode;
            let plan = StepPlan {
                stream: child_stream(self.tree.node(id).stream, 0),
                mode,
                token_limit: usize::MAX,
            };
            let from = Source::ForkOf(source);
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

    /// Texts that a step is being written after.
    fn speculative_texts(&self) -> HashSet<Option<ContentId>> {
        let resources = self.resources.nodes().map(|node| &self.resources[node]);
        resources
            .filter(|resources| resources.speculative.is_some())
            .map(|resources| resources.content)
            .collect()
    }

    /// A step written ahead of `node` closed or paused.
    pub(super) fn close_speculative(&mut self, node: NodeId, step: StepOutput) {
        self.steps.ahead -= 1;
        if let Some(ahead) = &mut self.resources[node].speculative {
            ahead.step = Some(step);
        }
    }
}
