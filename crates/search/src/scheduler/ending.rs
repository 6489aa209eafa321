//! How a chain ends, and how the search of a problem does.

use super::Context;
use super::active::{ActiveProblem, Stage};
use super::pruning::Decision;
use crate::event::Event;
use crate::finish::Finish;
use crate::result::Stopped;
use crate::strategy::Scoring;
use crate::tree::{ChainTree, NodeId, Pruned, State};

impl ActiveProblem {
    /// Ends a chain and gives back what it held for growing.
    pub(super) fn finish(&mut self, node: NodeId, finish: Finish, cx: &mut Context<'_, '_>) {
        self.tree.node_mut(node).state = State::Finished(finish);
        self.lost_to_memory += usize::from(finish == Finish::NoMemory);
        self.release(node, cx);
        cx.event(Event::ChainFinished {
            index: self.index,
            tree: &self.tree,
            node,
            finish,
        });
    }

    pub(super) fn prune(&mut self, node: NodeId, why: Pruned, cx: &mut Context<'_, '_>) {
        self.tree.node_mut(node).state = State::Pruned;
        self.tree.node_mut(node).pruned = Some(why);
        self.release(node, cx);
        cx.event(Event::ChainPruned {
            index: self.index,
            tree: &self.tree,
            node,
        });
    }

    /// Ends the search: drops what is open and has the finished chains scored if that is still due.
    pub(super) fn conclude(&mut self, cx: &mut Context<'_, '_>) {
        self.steps.queue.clear();
        self.steps.ready.clear();
        self.steps.unreported.clear();
        for (_, step) in std::mem::take(&mut self.speculation.arrived) {
            self.charge(step.tokens.len());
        }
        self.speculation.adopted.clear();
        self.steps.growing = 0;
        self.steps.outstanding = 0;
        let ids: Vec<NodeId> = self.tree.nodes().map(|(id, _)| id).collect();
        for &id in &ids {
            match self.tree.node(id).state {
                State::Open | State::Paused if id != ChainTree::ROOT => {
                    let over = Decision::search_over(self.round());
                    self.prune(id, over, cx);
                }
                State::Growing => {
                    // What was sampled of it is charged before its chain is given back.
                    self.drop_speculative(id, cx);
                    self.cancel(id, cx);
                    self.prune(id, Decision::search_over(self.round()), cx);
                }
                // Also the chain of an expanded node whose children were not all started.
                _ => self.release(id, cx),
            }
        }
        if self.scoring == Scoring::OnDemand && cx.models.scorer.is_some() {
            let unread = |id: &NodeId| self.tree.node(*id).is_complete() && !self.is_read(*id);
            self.steps.ready = ids.into_iter().filter(unread).collect();
        }
        match self.steps.ready.is_empty() {
            true => self.done(cx),
            false => self.stage = Stage::FinalScoring,
        }
    }

    /// Ends the search now, whatever its strategy still wanted: nothing more is scored.
    pub(super) fn stop(&mut self, stopped: Stopped, cx: &mut Context<'_, '_>) {
        self.stopped = Some(stopped);
        self.end(cx);
    }

    /// Ends the search because a model failed this problem.
    pub(super) fn fail(&mut self, reason: String, cx: &mut Context<'_, '_>) {
        self.error = Some(reason);
        self.end(cx);
    }

    pub(super) fn end(&mut self, cx: &mut Context<'_, '_>) {
        self.conclude(cx);
        self.steps.ready.clear();
        self.done(cx);
    }

    pub(super) fn done(&mut self, cx: &mut Context<'_, '_>) {
        self.release_scores(cx);
        self.stage = Stage::Done;
    }
}
