//! The steps of a problem, from the queue to the strategy: they start, close, are merged with equal
//! ones, and are scored or reported.

use super::Context;
use super::active::ActiveProblem;
use super::contents::ContentId;
use crate::event::Event;
use crate::finish::{Border, Finish};
use crate::generator::{ChainId, Source, StepOutput, StepPlan};
use crate::ledger::Ledger;
use crate::strategy::{DecodeMode, Scoring};
use crate::tree::{NodeId, State};

/// What became of a queued step.
pub(super) enum Start {
    Started(ChainId, NodeId),
    NoMemory,
    NothingQueued,
}

impl ActiveProblem {
    /// Starts the next queued step if memory allows. The last child takes its parent's chain over
    /// unless that is kept, the others fork it.
    pub(super) fn start_next(&mut self, cx: &mut Context<'_, '_>, total: &mut Ledger) -> Start {
        let Some(&node) = self.steps.queue.front() else {
            return Start::NothingQueued;
        };
        let (Some(parent), stream) = (self.tree.node(node).parent, self.tree.node(node).stream)
        else {
            return Start::NothingQueued;
        };
        let paused = self.resources(node).chain;
        let Some(source) = paused.or(self.resources(parent).chain) else {
            return Start::NothingQueued;
        };
        let is_last =
            self.resources(parent).unstarted == 1 && !self.strategy.keeps_expanded(parent);
        let resources = self.resources(node);
        let plan = StepPlan {
            stream,
            mode: match paused {
                Some(_) => DecodeMode::Sample,
                None => resources.mode,
            },
            token_limit: resources.token_limit,
        };
        let from = match paused.is_some() || is_last {
            true => Source::Itself(source),
            false => Source::ForkOf(source),
        };
        let Some(chain) = cx.models.generator.try_start(from, plan) else {
            return Start::NoMemory;
        };
        self.steps.queue.pop_front();
        if paused.is_none() {
            self.resources(parent).unstarted -= 1;
            if !self.bill.prompt_read {
                self.bill.prompt_read = true;
                self.bill.ledger.prompt_tokens += self.bill.prompt_tokens as u64;
                total.prompt_tokens += self.bill.prompt_tokens as u64;
            }
            match from {
                Source::Itself(_) => self.resources(parent).chain = None,
                Source::ForkOf(_) => self.note_reuse(parent),
            }
        }
        self.resources(node).chain = Some(chain);
        self.steps.growing += 1;
        Start::Started(chain, node)
    }

    /// Books the tokens that a fork of a node's chain does not read again.
    pub(super) fn note_reuse(&mut self, node: NodeId) {
        let reused = (self.bill.prompt_tokens + self.tree.token_count(node)) as u64;
        self.bill.ledger.reused_tokens += reused;
        self.bill.reused += reused;
    }

    /// Takes in a step that closed or paused. Its chain is idle or paused.
    pub(super) fn close(&mut self, id: NodeId, step: StepOutput, cx: &mut Context<'_, '_>) {
        let max_steps = self.config().max_steps;
        let billed = self.tree.node(id).tokens.len();
        self.charge(step.tokens.len().saturating_sub(billed));
        self.budget.note_step(step.tokens.len());
        let left = self
            .resources(id)
            .token_limit
            .saturating_sub(step.tokens.len());
        let resources = self.resources(id);
        resources.token_limit = left;
        resources.leftover = step.leftover;
        resources.tokens_match_text = step.tokens_match_text;
        let node = self.tree.node_mut(id);
        let out_of_steps = node.depth as usize >= max_steps;
        node.tokens = step.tokens;
        node.text = step.text;
        node.logprob = step.logprob;
        if step.paused {
            node.state = State::Paused;
            cx.event(Event::StepPaused {
                index: self.index,
                tree: &self.tree,
                node: id,
            });
        } else {
            node.judges.clear();
            node.quantiles = None;
            let ended = step.finish.is_some_and(Finish::is_complete);
            let finish = if !ended && self.states_answer(id, step.border, cx.models.answers) {
                // Nothing goes on from here.
                self.resources(id).leftover.clear();
                Some(Finish::Answer)
            } else {
                step.finish.or(out_of_steps.then_some(Finish::MaxSteps))
            };
            self.tree.node_mut(id).state = finish.map_or(State::Open, State::Finished);
            cx.event(Event::StepClosed {
                index: self.index,
                tree: &self.tree,
                node: id,
            });
            if let Some(finish) = finish {
                self.finish(id, finish, cx);
            }
        }

        let Some(parent) = self.tree.node(id).parent else {
            return;
        };
        let above = self.resources(parent).content.unwrap_or(ContentId::ROOT);
        let content = self.contents.intern(&self.tree, above, id);
        self.resources(id).content = Some(content);
        self.resources(parent).unclosed -= 1;
        if !self.strategy.merges_siblings() {
            self.advance(id);
            return;
        }
        self.resources(id).waits = true;
        if self.resources(parent).unclosed == 0 {
            self.merge_siblings(parent, cx);
        }
    }

    /// The first of the siblings that go on from the same text, in the order of their streams,
    /// stands for all. One that was reported before is reported again, for it has a copy more.
    pub(super) fn merge_siblings(&mut self, parent: NodeId, cx: &mut Context<'_, '_>) {
        let siblings = self.tree.node(parent).children.clone();
        let new: Vec<bool> = siblings
            .iter()
            .map(|&id| std::mem::take(&mut self.resources(id).waits))
            .collect();
        for (i, &id) in siblings.iter().enumerate().filter(|(i, _)| new[*i]) {
            // A step that was paused is compared with those that grew with it only.
            let any = self.resources(id).mode == DecodeMode::Sample;
            let twin = (0..i)
                .filter(|&earlier| any || new[earlier])
                .find(|&earlier| self.is_same_step(siblings[earlier], id));
            let Some(twin) = twin.filter(|_| self.competes(id)) else {
                self.advance(id);
                continue;
            };
            let stands = siblings[twin];
            self.tree.node_mut(stands).copies += 1;
            self.tree.node_mut(id).state = State::Duplicate;
            self.tree.node_mut(id).duplicate_of = Some(stands);
            cx.event(Event::StepMerged {
                index: self.index,
                tree: &self.tree,
                node: id,
                twin: stands,
            });
            self.release(id, cx);
            match new[twin] {
                true => self.steps.outstanding -= 1,
                false => self.report(stands),
            }
        }
    }

    /// Whether a chain goes on from `earlier` as it would from its sibling `id`. An expanded
    /// sibling was open before.
    fn is_same_step(&self, earlier: NodeId, id: NodeId) -> bool {
        let (a, b) = (self.tree.node(earlier), self.tree.node(id));
        let before = match a.state {
            State::Expanded => State::Open,
            state => state,
        };
        let leftover = |id: NodeId| &self.resources[id.index()].leftover;
        let is_same = a.text == b.text && leftover(earlier) == leftover(id);
        before == b.state && before != State::Paused && is_same
    }

    /// Sends a step to the scorer or, where there is nothing to score, to the strategy.
    pub(super) fn advance(&mut self, id: NodeId) {
        let is_step = !self.tree.node(id).is_empty_step();
        if self.scoring == Scoring::EveryStep && self.competes(id) && is_step {
            self.steps.ready.push(id);
        } else {
            self.report(id);
        }
    }

    /// Puts a node before the strategy.
    pub(super) fn report(&mut self, id: NodeId) {
        self.steps.outstanding -= 1;
        self.steps.unreported.push(id);
    }

    /// Makes room for the next queued step; other chains are then read again. Returns whether
    /// that freed memory.
    pub(super) fn forget_idle(&mut self, cx: &mut Context<'_, '_>) -> bool {
        let next = self.steps.queue.front().copied();
        let above = next.and_then(|node| self.tree.node(node).parent);
        let chain_of = |node: Option<NodeId>| self.resources[node?.index()].chain;
        let source = chain_of(next).or(chain_of(above));
        source.is_some_and(|kept| cx.models.generator.forget(kept))
    }

    /// Gives up the worst of the steps that wait for memory.
    pub(super) fn give_up_worst(&mut self, cx: &mut Context<'_, '_>) {
        let aggregation = self.config().aggregation;
        let tree = &self.tree;
        let worst = (0..self.steps.queue.len()).min_by(|&a, &b| {
            let (a, b) = (self.steps.queue[a], self.steps.queue[b]);
            let score = |id| {
                tree.chain_score(id, aggregation)
                    .unwrap_or_else(|| tree.mean_logprob(id))
            };
            score(a).total_cmp(&score(b)).then(b.cmp(&a))
        });
        let Some(node) = worst.and_then(|at| self.steps.queue.remove(at)) else {
            return;
        };
        if let Some(parent) = self.tree.node(node).parent
            && self.resources(node).chain.is_none()
        {
            self.resources(parent).unstarted -= 1;
            self.let_go(parent, cx);
        }
        let written = self.tree.node(node);
        let so_far = StepOutput {
            chain: ChainId(u64::MAX),
            tokens: written.tokens.clone(),
            text: written.text.clone(),
            logprob: written.logprob,
            leftover: Vec::new(),
            tokens_match_text: self.resources[node.index()].tokens_match_text,
            border: Border::Limit,
            finish: Some(Finish::NoMemory),
            paused: false,
        };
        self.close(node, so_far, cx);
    }
}
