//! The life of a step: it starts, grows in the forward passes that all problems share, closes, and
//! is merged with equal siblings.

use std::collections::BTreeMap;

use super::active::ActiveProblem;
use super::contents::ContentId;
use super::live::Look;
use super::{Context, Owner, Scheduler};
use crate::error::{GenError, SearchError};
use crate::event::{ChainEvent, Event};
use crate::finish::{Border, Finish};
use crate::generator::{ChainId, PassOutput, Source, StepOutput, StepPlan};
use crate::ledger::Ledger;
use crate::strategy::DecodeMode;
use crate::tree::{ChainTree, NodeId, State};

impl Scheduler<'_, '_> {
    /// Starts queued steps while memory lasts, oldest problem first. Returns whether one started.
    ///
    /// Within a problem, steps start strictly in order: no step overtakes a step that waits for
    /// memory, so the problem's steps do not depend on timing. If memory is short, speculative
    /// steps are discarded, so they never keep another step from starting.
    pub(super) fn start_steps(&mut self) -> bool {
        let mut started = self.start_queued();
        if self.room.blocked && self.drop_all_speculative() {
            started |= self.start_queued();
        }
        if !self.room.blocked && self.live.speculating > 0 {
            for (index, live) in self.live.iter_mut() {
                if !live.config().speculate {
                    continue;
                }
                for (chain, node) in live.start_speculative(&mut self.cx) {
                    self.owners.insert(chain, Owner::new(index, node, true));
                }
            }
        }
        started
    }

    fn start_queued(&mut self) -> bool {
        let mut started = false;
        self.room.blocked = false;
        for index in self.live.changed(Look::Start) {
            let mut any = false;
            while let Some(live) = self.live.get_mut_quietly(index) {
                match live.start_next(&mut self.cx, &mut self.summary.ledger) {
                    Start::Started(chain, node) => {
                        self.owners.insert(chain, Owner::new(index, node, false));
                        any = true;
                    }
                    // Steps of other problems may still start if they need less memory.
                    Start::NoMemory => {
                        self.room.blocked = true;
                        self.live.again(Look::Start, index);
                        break;
                    }
                    Start::NothingQueued => break,
                }
            }
            if any {
                started = true;
                self.live.again(Look::Book, index);
                self.live.again(Look::Rows, index);
            }
        }
        started
    }

    /// Discards all speculative steps. Returns whether there was any.
    fn drop_all_speculative(&mut self) -> bool {
        let mut dropped = false;
        for (_, live) in self.live.iter_mut() {
            for node in live.resources.nodes() {
                if live.resources[node].speculative.is_some() {
                    live.drop_speculative(node, &mut self.cx);
                    dropped = true;
                }
            }
        }
        self.book();
        dropped
    }

    /// Runs one forward pass over all growing steps. Returns whether there was any.
    pub(super) fn pass(&mut self) -> Result<bool, SearchError> {
        let rows = self.cx.models.generator.active();
        if rows == 0 {
            return Ok(false);
        }
        // The scorer may use memory for its cache that the generator has reserved for steps since.
        // The pass writes to that memory.
        if let Some(scorer) = self.cx.models.scorer.as_deref_mut() {
            scorer.evict_borrowed();
        }
        // Earlier passes are charged before this pass, in which the problem may have another number
        // of rows.
        for index in self.live.changed(Look::Rows) {
            if let Some(live) = self.live.get_mut_quietly(index) {
                live.charge_passes(self.passes);
            }
        }
        let before = self.cx.models.clock.now();
        let executed = self.cx.models.generator.executed();
        let PassOutput {
            steps: mut closed,
            failed,
            retried,
        } = match self.cx.models.generator.pass() {
            Ok(output) => output,
            Err(error @ GenError::Lost(_)) => return Err(error.into()),
            Err(error) => {
                self.fail_active(&error);
                return Ok(true);
            }
        };
        let seconds = self.cx.seconds_since(before);
        let executed = self.cx.models.generator.executed().since(executed);

        self.passes.count += 1;
        // Every row of a pass takes an equal share of its time and operations.
        self.passes.seconds_a_row += seconds / rows as f64;
        self.passes.flops_a_row += executed.flops as f64 / rows as f64;
        self.summary.ledger.executed.generate += executed.flops;
        self.summary.ledger.prefix_tokens += executed.prefix_tokens;
        self.summary.ledger.forward_passes += 1;
        self.summary.ledger.seconds.generate += seconds;
        self.note_memory();
        for (chain, requests) in retried {
            self.summary.ledger.retries += u64::from(requests);
            let owner = self.owners.get(&chain);
            if let Some(live) = owner.and_then(|owner| self.live.get_mut(owner.index)) {
                live.bill.ledger.retries += u64::from(requests);
            }
        }

        // Several chains of a problem may fail in one pass: the problem ends with the first error.
        let (mut ended, mut lost) = (BTreeMap::new(), None);
        for (chain, error) in failed {
            let Some(owner) = self.owners.get(&chain) else {
                let what = format!("{chain:?} failed, which was not growing");
                return Err(SearchError::BadStep(what));
            };
            match error {
                GenError::Lost(_) => lost = Some(error),
                _ => _ = ended.entry(owner.index).or_insert(error),
            }
        }

        // A NaN would spread into chain scores and make their order arbitrary.
        for step in closed.iter().filter(|step| !step.logprob.is_finite()) {
            if let Some(owner) = self.owners.get(&step.chain) {
                let what = format!("the log-probability of a step is {}", step.logprob);
                let error = GenError::Failed(what.into());
                ended.entry(owner.index).or_insert(error);
            }
        }

        // Speculative steps come first: an ordinary step that closes may discard the speculative
        // step after it.
        let owners = &self.owners;
        closed.sort_by_key(|step| {
            let owner = owners.get(&step.chain);
            !owner.is_some_and(|owner| owner.speculative)
        });
        for step in closed {
            let owner = self.owners.remove(&step.chain);
            let found = owner.and_then(|owner| Some((self.live.get_mut(owner.index)?, owner)));
            let Some((live, owner)) = found else {
                let what = format!("a step closed for {:?}, which was not growing", step.chain);
                return Err(SearchError::BadStep(what));
            };
            if owner.speculative {
                live.close_speculative(owner.node, step);
                continue;
            }
            live.steps.growing -= 1;
            live.close(owner.node, step, &mut self.cx);
        }
        self.book();
        // The error is returned only now, so that the ledger contains the steps that the pass
        // completed.
        if let Some(error) = lost {
            return Err(error.into());
        }
        // A problem may have ended when its steps closed; ending it again does nothing.
        for (index, error) in ended {
            self.end(index, |live, cx| live.fail(error.to_string(), cx));
        }

        self.update_clock();
        let cache_bytes = self.cx.models.cache_bytes();
        self.cx.event(Event::Pass {
            rows,
            in_flight: self.live.len(),
            cache_bytes,
            ledger: &self.summary.ledger,
        });
        Ok(true)
    }

    /// Fails every problem that has a step in a pass that failed.
    fn fail_active(&mut self, error: &GenError) {
        let active = self.live.iter().filter(|(_, live)| live.steps.rows() > 0);
        let active: Vec<usize> = active.map(|(index, _)| index).collect();
        for index in active {
            self.end(index, |live, cx| live.fail(error.to_string(), cx));
        }
    }
}

enum Start {
    Started(ChainId, NodeId),
    NoMemory,
    NothingQueued,
}

impl ActiveProblem {
    /// Starts the next queued step if memory allows. The last child takes over its parent's chain,
    /// unless the strategy keeps the parent. Earlier children fork that chain.
    fn start_next(&mut self, cx: &mut Context<'_, '_>, total: &mut Ledger) -> Start {
        let Some(&node) = self.steps.queue.front() else {
            return Start::NothingQueued;
        };
        let paused = self.resources[node].chain;
        let parent = self.tree.node(node).parent;
        let source = paused.or(parent.and_then(|parent| self.resources[parent].chain));
        let (Some(parent), Some(source)) = (parent, source) else {
            return Start::NothingQueued;
        };
        // An open parent is completed by rollouts; the strategy may expand it afterwards.
        let is_last = self.resources[parent].unstarted == 1
            && self.tree.node(parent).state == State::Expanded
            && !self.policy.strategy.keeps_expanded(parent);
        let resources = &mut self.resources[node];
        let plan = StepPlan {
            stream: self.tree.node(node).stream,
            mode: match paused {
                // A step pauses once: it resumes to its end.
                Some(_) => DecodeMode::Sample,
                None => resources.mode,
            },
            token_limit: resources.token_limit,
        };
        // No later step starts from the parent, so the last child needs no fork.
        let from = if paused.is_some() || is_last {
            Source::Itself(source)
        } else {
            Source::ForkOf(source)
        };
        let Some(chain) = cx.models.generator.try_start(from, plan) else {
            return Start::NoMemory;
        };
        self.steps.queue.pop_front();
        if paused.is_none() {
            self.resources[parent].unstarted -= 1;
            if !self.bill.prompt_read {
                self.bill.prompt_read = true;
                // The first step that starts makes the generator read the prompt and the given
                // steps.
                let given = self.tree.token_count(self.policy.start.node);
                let read = self.bill.prompt_tokens + given;
                self.bill.ledger.prompt_tokens += read as u64;
                total.prompt_tokens += read as u64;
                self.charge_flops(cx.models.generator.flops(0, read, 0));
                self.need(cx.models.generator.flops(0, read, 1));
            }
            match from {
                Source::Itself(_) => self.resources[parent].chain = None,
                Source::ForkOf(_) => self.note_reuse(parent),
            }
        }
        self.resources[node].chain = Some(chain);
        self.steps.growing += 1;
        Start::Started(chain, node)
    }

    /// Counts the tokens that a fork of a node's chain finds in the cache.
    pub(super) fn note_reuse(&mut self, node: NodeId) {
        let reused = (self.bill.prompt_tokens + self.tree.token_count(node)) as u64;
        self.bill.ledger.reused_tokens += reused;
        self.bill.reused += reused;
    }

    /// Takes in a step that closed or paused; its chain is idle or paused in the generator.
    pub(super) fn close(&mut self, id: NodeId, step: StepOutput, cx: &mut Context<'_, '_>) {
        let max_steps = self.config().max_steps;
        self.charge_step(id, &step, cx);
        self.budget.note_step(step.sampled());
        let above = self.tree.node(id).parent.unwrap_or(ChainTree::ROOT);
        // The limit of steps is for the answer; thoughts have a budget of their own.
        let thoughts = self.resources[above].thought_steps + u32::from(step.is_thought());
        let resources = &mut self.resources[id];
        resources.thought_steps = thoughts;
        resources.token_limit = resources.token_limit.saturating_sub(step.sampled());
        resources.leftover = step.leftover;
        resources.tokens_match_text = step.tokens_match_text;
        let read = self.request.settings.generator.thinking.score;
        let node = self.tree.node_mut(id);
        let out_of_steps = (node.depth - thoughts) as usize >= max_steps;
        node.tokens = step.tokens;
        node.read = read.of(&step.text, step.thought);
        node.thought = step.thought;
        node.text = step.text;
        node.logprob = step.logprob;
        node.token_logprobs = step.token_logprobs;
        if step.paused {
            node.state = State::Paused;
            self.notify(id, ChainEvent::Paused, cx);
        } else {
            // Opinions from a pause concern only the beginning; the whole step is scored again.
            node.judges.clear();
            node.quantiles = None;
            // If the chain ended by itself, its text need not be searched for a stated answer.
            let ended = step.finish.is_some_and(Finish::is_complete);
            let finish = if !ended && self.states_answer(id, step.border, cx.models.answers) {
                // The chain ends here: the bytes after the answer belong to no step.
                self.resources[id].leftover.clear();
                Some(Finish::Answer)
            } else {
                step.finish.or(out_of_steps.then_some(Finish::MaxSteps))
            };
            self.tree.node_mut(id).state = finish.map_or(State::Open, State::Finished);
            self.notify(id, ChainEvent::Closed, cx);
            if let Some(finish) = finish {
                self.finish(id, finish, cx);
            }
        }

        let Some(parent) = self.tree.node(id).parent else {
            return;
        };
        let above = self.resources[parent].content.unwrap_or(ContentId::ROOT);
        let content = self.contents.intern(&self.tree, above, id);
        self.resources[id].content = Some(content);
        self.resources[parent].unclosed -= 1;
        // Completions are independent samples: equal ones count each.
        let is_rollout = self.resources[id].rollout.is_some();
        if is_rollout || !self.policy.strategy.merges_siblings() {
            self.advance(id, cx);
            return;
        }
        self.resources[id].waits = true;
        if self.resources[parent].unclosed == 0 {
            self.merge_siblings(parent, cx);
        }
    }

    /// Merges equal siblings. The first of them, in the order of their random streams, represents
    /// all. If the strategy knows the representative already, it is reported again, since its
    /// `copies` have changed.
    fn merge_siblings(&mut self, parent: NodeId, cx: &mut Context<'_, '_>) {
        let siblings = self.tree.node(parent).children.clone();
        let new: Vec<bool> = siblings
            .iter()
            .map(|&id| std::mem::take(&mut self.resources[id].waits))
            .collect();
        for (i, &id) in siblings.iter().enumerate().filter(|(i, _)| new[*i]) {
            // A paused mode is for a choice among the steps of one expansion: only these are
            // compared.
            let any = self.resources[id].mode == DecodeMode::Sample;
            let twin = (0..i)
                .filter(|&earlier| any || new[earlier])
                .find(|&earlier| self.is_same_step(siblings[earlier], id));
            let Some(twin) = twin.filter(|_| self.competes(id)) else {
                self.advance(id, cx);
                continue;
            };
            let stands = siblings[twin];
            self.tree.node_mut(stands).copies += 1;
            self.tree.node_mut(id).state = State::Duplicate;
            self.tree.node_mut(id).duplicate_of = Some(stands);
            self.notify(id, ChainEvent::Merged(stands), cx);
            self.release(id, cx);
            if new[twin] {
                self.steps.outstanding -= 1;
            } else {
                self.steps.report(stands);
            }
        }
        // Merged steps are no longer outstanding.
        self.settle(cx);
    }

    /// Whether a chain continues from `earlier` exactly as from its sibling `id`. An expanded
    /// `earlier` was open before, so it may equal an open `id`.
    fn is_same_step(&self, earlier: NodeId, id: NodeId) -> bool {
        let (a, b) = (self.tree.node(earlier), self.tree.node(id));
        let before = match a.state {
            State::Expanded => State::Open,
            state => state,
        };
        // Equal texts with different leftover bytes continue with different next steps.
        let (leftover, other) = (
            &self.resources[earlier].leftover,
            &self.resources[id].leftover,
        );
        let is_same = a.text == b.text && leftover == other;
        before == b.state && before != State::Paused && is_same
    }

    /// Sends a step to the verifier, to the scorer, to its rollouts, or to the strategy.
    fn advance(&mut self, id: NodeId, cx: &mut Context<'_, '_>) {
        if self.policy.asks_verifier && self.tree.node(id).is_complete() {
            self.steps.unverified.push(id);
        } else {
            self.advance_verified(id, cx);
        }
    }

    /// Sends a step that needs no outcome, or has it, to the scorer, to its rollouts, or to the
    /// strategy.
    pub(super) fn advance_verified(&mut self, id: NodeId, cx: &mut Context<'_, '_>) {
        if let Some(leaf) = self.resources[id].rollout {
            self.continue_rollout(id, leaf, cx);
        } else if self.is_scored_first(id) {
            self.steps.ready.push(id);
        } else {
            self.arrive(id, cx);
        }
    }

    /// Evicts the caches of the problem's idle chains, except the chain that the next queued step
    /// starts from. An evicted chain is read again when it continues. Returns whether memory was
    /// freed.
    pub(super) fn forget_idle(&mut self, cx: &mut Context<'_, '_>) -> bool {
        let next = self.steps.queue.front().copied();
        let above = next.and_then(|node| self.tree.node(node).parent);
        let chain_of = |node: Option<NodeId>| self.resources[node?].chain;
        let source = chain_of(next).or(chain_of(above));
        source.is_some_and(|kept| cx.models.generator.forget(kept))
    }

    /// Ends the chain of the queued step with the lowest chain score ([`Finish::NoMemory`]).
    pub(super) fn give_up_worst(&mut self, cx: &mut Context<'_, '_>) {
        let aggregation = self.config().aggregation;
        let tree = &self.tree;
        let worst = (0..self.steps.queue.len()).min_by(|&a, &b| {
            let (a, b) = (self.steps.queue[a], self.steps.queue[b]);
            // Without scores, chains are compared by the generator's mean log-probability.
            let score = |id| {
                let score = tree.chain_score(id, aggregation);
                score.unwrap_or_else(|| tree.mean_logprob(id))
            };
            // Of equal chains the youngest is given up.
            score(a).total_cmp(&score(b)).then(b.cmp(&a))
        });
        let Some(node) = worst.and_then(|at| self.steps.queue.remove(at)) else {
            return;
        };
        if let Some(parent) = self.tree.node(node).parent
            && self.resources[node].chain.is_none()
        {
            self.resources[parent].unstarted -= 1;
            self.let_go(parent, cx);
        }
        let written = self.tree.node(node);
        // The step closes with the tokens from before its pause, if any, so that it is reported
        // like any other.
        let so_far = StepOutput {
            chain: ChainId(u64::MAX),
            tokens: written.tokens.clone(),
            text: written.text.clone(),
            logprob: written.logprob,
            token_logprobs: written.token_logprobs.clone(),
            thought: written.thought,
            leftover: Vec::new(),
            tokens_match_text: self.resources[node].tokens_match_text,
            border: Border::Limit,
            finish: Some(Finish::NoMemory),
            paused: false,
        };
        self.close(node, so_far, cx);
    }
}
