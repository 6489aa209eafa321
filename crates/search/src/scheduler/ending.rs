//! The end of chains and of a problem's search. The tree records for each pruned node why it was
//! pruned.

use super::Context;
use super::active::{ActiveProblem, Stage};
use crate::aggregation::Aggregation;
use crate::event::{ChainEvent, Event};
use crate::finish::Finish;
use crate::result::Stopped;
use crate::strategy::{Action, Scoring};
use crate::tree::{ChainTree, NodeId, PruneReason, Pruned, State};

impl ActiveProblem {
    /// Ends a chain and releases its cache in the generator.
    pub(super) fn finish(&mut self, node: NodeId, finish: Finish, cx: &mut Context<'_, '_>) {
        self.tree.node_mut(node).state = State::Finished(finish);
        self.outcome.lost_to_memory += usize::from(finish == Finish::NoMemory);
        self.release(node, cx);
        self.notify(node, ChainEvent::Finished(finish), cx);
    }

    pub(super) fn prune(&mut self, node: NodeId, why: Pruned, cx: &mut Context<'_, '_>) {
        self.tree.node_mut(node).state = State::Pruned;
        self.tree.node_mut(node).pruned = Some(why);
        self.release(node, cx);
        self.notify(node, ChainEvent::Pruned, cx);
    }

    /// Reports an event of a chain to the sink. Steps of rollouts have no events.
    pub(super) fn notify(&self, node: NodeId, what: ChainEvent<'_>, cx: &mut Context<'_, '_>) {
        if self.tree.node(node).is_rollout {
            return;
        }
        cx.event(Event::Chain {
            index: self.index,
            tree: &self.tree,
            node,
            what,
        });
    }

    /// Ends the search: prunes open chains, and lets complete chains be scored if they still have
    /// to be.
    pub(super) fn conclude(&mut self, cx: &mut Context<'_, '_>) {
        self.steps.queue.clear();
        self.steps.ready.clear();
        self.steps.unverified.clear();
        self.steps.unreported.clear();
        // Speculative steps that no node takes any more: their tokens were sampled, so they are
        // charged.
        for (node, step) in std::mem::take(&mut self.steps.arrived) {
            self.charge_step(node, &step, cx);
        }
        self.steps.adopted.clear();
        self.steps.growing = 0;
        self.steps.outstanding = 0;
        let ids: Vec<NodeId> = self.tree.nodes().map(|(id, _)| id).collect();
        let over = Decision::unranked(PruneReason::SearchOver, self.policy.round());
        for &id in &ids {
            match self.tree.node(id).state {
                State::Open | State::Paused if id != ChainTree::ROOT => self.prune(id, over, cx),
                State::Growing => {
                    // The tokens of an unfinished step are counted here: once the chain is released
                    // they are unknown.
                    self.drop_speculative(id, cx);
                    self.cancel(id, cx);
                    self.prune(id, over, cx);
                }
                // An expanded node has a chain here if some of its children were not started.
                _ => self.release(id, cx),
            }
        }
        // Under `EveryStep` all complete chains have scores already. The exception: the given steps
        // were a whole chain, so the strategy's first actions were never carried out.
        let is_due = match self.policy.scoring {
            // Completions compete as candidates, so all their steps count, too.
            Scoring::EveryStep => self.policy.answers == 0 || self.rollouts.is_some(),
            Scoring::OnDemand => true,
            Scoring::Never => false,
        };
        if is_due && cx.models.scorer.is_some() {
            self.steps.ready = ids
                .into_iter()
                .filter(|&id| self.tree.node(id).is_complete() && !self.is_read(id))
                .collect();
        }
        if self.steps.ready.is_empty() {
            self.done(cx);
        } else {
            self.stage = Stage::FinalScoring;
        }
    }

    /// Ends the search because of a cancel or a deadline; no chain is scored any more.
    pub(super) fn stop(&mut self, stopped: Stopped, cx: &mut Context<'_, '_>) {
        self.outcome.stopped = Some(stopped);
        self.end(cx);
    }

    /// Ends the search with an error of a model or of the strategy for this problem.
    pub(super) fn fail(&mut self, reason: String, cx: &mut Context<'_, '_>) {
        self.outcome.error = Some(reason);
        self.end(cx);
    }

    pub(super) fn end(&mut self, cx: &mut Context<'_, '_>) {
        // `conclude` may queue chains for their final scores. A search that is cut off does not
        // wait for them.
        self.conclude(cx);
        self.steps.ready.clear();
        self.done(cx);
    }

    pub(super) fn done(&mut self, cx: &mut Context<'_, '_>) {
        self.release_scores(cx);
        self.stage = Stage::Done;
    }
}

/// The chains that a strategy kept and dropped in one call, to explain why chains were pruned.
#[derive(Debug, Default)]
pub(super) struct Decision {
    round: Option<u32>,
    /// The candidates, best score first: chains that could continue, and complete ones.
    ranked: Vec<NodeId>,
    /// The lowest score of a chain that continues.
    cutoff: Option<f32>,
    /// The nodes that the strategy dropped. A pruned node that is not among them was pruned for
    /// lack of budget.
    dropped: Vec<NodeId>,
}

impl Decision {
    /// Reads the decision from `actions`, before they are carried out.
    pub(super) fn new(
        tree: &ChainTree,
        actions: &[Action],
        aggregation: Aggregation,
        round: Option<u32>,
    ) -> Self {
        let (mut dropped, mut going_on) = (Vec::new(), Vec::new());
        for action in actions {
            match *action {
                Action::Prune(node) => dropped.push(node),
                Action::Expand { node, .. } | Action::Resume(node) => going_on.push(node),
                Action::Score(_) | Action::Done => {}
            }
        }
        if dropped.is_empty() {
            return Self {
                round,
                ..Self::default()
            };
        }
        // An action may name a node that does not exist; carrying out the action reports that
        // error.
        let could_go_on = |&id: &NodeId| {
            tree.contains(id) && matches!(tree.node(id).state, State::Open | State::Paused)
        };
        let candidates = dropped.iter().chain(&going_on).copied();
        let mut ranked: Vec<NodeId> = candidates.filter(could_go_on).collect();
        // Complete chains compete for the same slots, so they are candidates of every round.
        let complete = tree
            .nodes()
            .filter(|(_, node)| node.is_complete() && !node.is_rollout);
        ranked.extend(complete.map(|(id, _)| id));
        tree.sort_by_score(&mut ranked, aggregation);
        let scores = going_on.iter().filter(|id| could_go_on(id));
        let scores = scores.filter_map(|&id| tree.chain_score(id, aggregation));
        Self {
            round,
            ranked,
            cutoff: scores.min_by(f32::total_cmp),
            dropped,
        }
    }

    /// Returns the reason to record for a node that this decision prunes.
    pub(super) fn on(&self, node: NodeId) -> Pruned {
        let round = self.round;
        if !self.dropped.contains(&node) {
            return Self::unranked(PruneReason::Budget, round);
        }
        let place = self.ranked.iter().position(|&id| id == node);
        Pruned {
            reason: PruneReason::NotChosen,
            round,
            rank: place.map(|at| at as u32 + 1),
            candidates: place.map(|_| self.ranked.len() as u32),
            cutoff: self.cutoff.filter(|_| place.is_some()),
        }
    }

    /// Returns the reason to record for a node that is pruned whatever its rank.
    pub(super) fn unranked(reason: PruneReason, round: Option<u32>) -> Pruned {
        Pruned {
            reason,
            round,
            rank: None,
            candidates: None,
            cutoff: None,
        }
    }
}
