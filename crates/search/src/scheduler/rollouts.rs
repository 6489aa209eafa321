//! Values by rollouts: each new step is completed several times before the strategy sees it.
//!
//! The strategy knows nothing of this. A step whose value is awaited counts as outstanding, so a
//! strategy in rounds is called when all steps of the round have their values.

use super::Context;
use super::active::{ActiveProblem, NodeResources};
use super::contents::ContentId;
use super::values::{Rollouts, Worth};
use crate::event::ChainEvent;
use crate::rollouts::RolloutValue;
use crate::strategy::{DecodeMode, Scoring};
use crate::tree::{NodeId, State};

impl ActiveProblem {
    /// Whether the scorer scores this step before it is reported or completed.
    pub(super) fn is_scored_first(&self, id: NodeId) -> bool {
        let by_steps = self.rollouts.as_ref().is_none_or(Rollouts::scores_steps);
        let is_step = !self.tree.node(id).is_empty_step();
        self.policy.scoring == Scoring::EveryStep && by_steps && self.competes(id) && is_step
    }

    /// Takes a step of the strategy that has its score or needs none: it is reported, or completed
    /// first.
    pub(super) fn arrive(&mut self, id: NodeId, cx: &mut Context<'_, '_>) {
        let node = self.tree.node(id);
        let (is_open, is_step) = (node.state == State::Open, !node.is_empty_step());
        let is_scored = self.is_scored(id);
        let Some(rollouts) = &mut self.rollouts else {
            self.steps.report(id);
            return;
        };
        if is_open && is_step {
            let count = rollouts.config.count;
            rollouts.awaited.insert(id, Vec::new());
            for _ in 0..count {
                let child = self.tree.add_rollout(id);
                self.queue_rollout(id, child, id);
            }
        } else if node.is_complete() && is_step {
            // The chain is its own completion.
            if rollouts.config.value == RolloutValue::Prm && !is_scored {
                self.steps.ready.push(id);
                return;
            }
            rollouts.awaited.insert(id, vec![id]);
            self.settle(cx);
        } else {
            self.steps.report(id);
            self.settle(cx);
        }
    }

    /// Whether the scorer was asked about the text up to this node.
    fn is_scored(&self, id: NodeId) -> bool {
        let content = self.resources[id].content.unwrap_or(ContentId::ROOT);
        self.contents.scored(content).is_some()
    }

    /// Queues a step of a rollout of `leaf`, after `from`.
    fn queue_rollout(&mut self, from: NodeId, child: NodeId, leaf: NodeId) {
        self.tree.node_mut(child).round = self.policy.round();
        self.resources.push(NodeResources {
            mode: DecodeMode::Sample,
            token_limit: self.budget.total(),
            rollout: Some(leaf),
            ..NodeResources::default()
        });
        self.resources[from].unstarted += 1;
        self.resources[from].unclosed += 1;
        self.steps.outstanding += 1;
        self.steps.queue.push_back(child);
    }

    /// Takes a step of a rollout that has closed: the rollout continues, is scored, or has ended.
    pub(super) fn continue_rollout(&mut self, id: NodeId, leaf: NodeId, cx: &mut Context<'_, '_>) {
        let node = self.tree.node(id);
        let by_prm = |rollouts: &Rollouts| rollouts.config.value == RolloutValue::Prm;
        let by_prm = self.rollouts.as_ref().is_some_and(by_prm);
        if node.state == State::Open {
            self.tree.node_mut(id).state = State::Expanded;
            let child = self.tree.add_child(id);
            self.queue_rollout(id, child, leaf);
            self.steps.outstanding -= 1;
        } else if by_prm && node.is_complete() && !self.is_scored(id) {
            self.steps.ready.push(id);
        } else {
            self.end_rollout(id, leaf, cx);
        }
    }

    /// Takes the end of a rollout.
    pub(super) fn end_rollout(&mut self, end: NodeId, leaf: NodeId, cx: &mut Context<'_, '_>) {
        self.steps.outstanding -= 1;
        if let Some(rollouts) = &mut self.rollouts {
            rollouts.awaited.entry(leaf).or_default().push(end);
        }
        self.settle(cx);
    }

    /// Gives all awaited steps their values and reports them, once nothing else is outstanding:
    /// then the votes do not depend on the order in which chains end.
    pub(super) fn settle(&mut self, cx: &mut Context<'_, '_>) {
        let Some(mut rollouts) = self.rollouts.take() else {
            return;
        };
        let waits = rollouts.awaited.len();
        if waits == 0 || self.steps.outstanding > waits {
            self.rollouts = Some(rollouts);
            return;
        }
        let how = match rollouts.config.value {
            RolloutValue::Vote => Worth::Vote(rollouts.poll(&self.tree, cx.models.answers)),
            RolloutValue::Prm => Worth::Prm(self.config().aggregation),
            RolloutValue::Verifier => Worth::Outcome,
        };
        let weight = rollouts.config.weight;
        let awaited = std::mem::take(&mut rollouts.awaited);
        let valued: Vec<(NodeId, f32)> = awaited
            .iter()
            .map(|(&leaf, ends)| (leaf, rollouts.value(&self.tree, ends, &how)))
            .collect();
        for (leaf, value) in valued {
            // The scores of steps are aggregated, but not values: each says where its step leads,
            // whatever those before it lead to.
            let model = self.tree.scored(leaf, self.config().aggregation);
            let model = model.filter(|_| weight < 1.0);
            let mixed = model.map_or(value, |model| weight * value + (1.0 - weight) * model);
            let score = self.outcome_score(leaf).unwrap_or(mixed);
            let node = self.tree.node_mut(leaf);
            (node.value, node.rating) = (Some(value), Some(score));
            self.notify(leaf, ChainEvent::Scored(score), cx);
            self.steps.report(leaf);
        }
        self.rollouts = Some(rollouts);
    }
}
