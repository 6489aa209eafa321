//! Speculative extension (FastTTS, <https://arxiv.org/abs/2509.00195>): chains that are done with their step go on with
//! the next one while the last steps of the round are written.
//!
//! What is written ahead of a node is its first child: drawn from that child's random stream, so it
//! is the same, bit for bit, as if it had been begun after the round. If the strategy expands the
//! node, the child takes the step over; otherwise it is thrown away.

use std::collections::HashSet;

use super::Models;
use super::budget::Purse;
use super::contents::ContentId;
use super::held::Ahead;
use super::live::Live;
use crate::generator::{ChainId, StepPlan, Stepped};
use crate::stream::child_stream;
use crate::tree::{NodeId, State};

impl Live {
    /// Begins a step after every chain that is done with its own in this round. Returns their
    /// chains with the nodes they follow.
    pub(super) fn start_ahead(&mut self, models: &mut Models<'_>) -> Vec<(ChainId, NodeId)> {
        let mut started = Vec::new();
        let unlimited = matches!(self.purse, Purse::Unlimited);
        if self.growing == 0 || !unlimited || !self.strategy.in_rounds() {
            return started;
        }
        let closed: Vec<NodeId> = (1..self.held.len())
            .map(|at| NodeId(at as u32))
            .filter(|&id| self.may_go_ahead(id))
            .collect();
        let mut ahead = self.texts_ahead();
        for id in closed {
            let Some(source) = self.held(id).chain else {
                continue;
            };
            // Equal siblings will be one.
            let text = self.held(id).content;
            if self.strategy.merges_siblings() && ahead.contains(&text) {
                continue;
            }
            if !models.generator.can_start(source) {
                break;
            }
            let growth = self.held(id).growth;
            let plan = StepPlan {
                stream: child_stream(self.tree.node(id).stream, 0),
                growth,
                allowance: usize::MAX,
            };
            let chain = models.generator.fork(source);
            models.generator.start_step(chain, plan);
            self.held(id).ahead = Some(Ahead {
                chain,
                growth,
                step: None,
            });
            self.running_ahead += 1;
            ahead.insert(text);
            started.push((chain, id));
        }
        started
    }

    fn may_go_ahead(&self, id: NodeId) -> bool {
        let node = self.tree.node(id);
        node.state == State::Open
            && node.children.is_empty()
            && self.held[id.index()].ahead.is_none()
    }

    /// Texts that a step is being written after.
    fn texts_ahead(&self) -> HashSet<Option<ContentId>> {
        let held = self.held.iter().filter(|held| held.ahead.is_some());
        held.map(|held| held.content).collect()
    }

    /// A step written ahead of `node` closed or paused.
    pub(super) fn arrive_ahead(&mut self, node: NodeId, step: Stepped) {
        self.running_ahead -= 1;
        if let Some(ahead) = &mut self.held(node).ahead {
            ahead.step = Some(step);
        }
    }
}
