//! The exchange with a strategy: reports of steps go in, actions on the tree come out.

use super::Context;
use super::active::{ActiveProblem, NodeResources, SpeculativeStep, Stage};
use super::ending::Decision;
use crate::error::SearchError;
use crate::event::ChainEvent;
use crate::finish::Finish;
use crate::strategy::{Action, DecodeMode, Scoring};
use crate::tree::{NodeId, State};

impl ActiveProblem {
    /// Reports new steps to the strategy and carries out its actions.
    pub(super) fn wake(&mut self, cx: &mut Context<'_, '_>) {
        if self.stage != Stage::Searching {
            self.steps.unreported.clear();
            return;
        }
        self.note_memory(&cx.models);
        let mut nodes = std::mem::take(&mut self.steps.unreported);
        // Nodes are numbered in the order of their `Expand` actions: sorted, the list does not
        // depend on which step happened to close first. Merging may have reported a node twice.
        nodes.sort_unstable();
        // Merging reports a representative once for each new copy.
        nodes.dedup();
        if self.policy.is_verified && self.config().stop_when_verified {
            self.stop_verified(cx);
            return;
        }
        let actions = self.policy.strategy.on_steps(&self.tree, &nodes);
        let answers = cx.models.answers;
        if self.config().consensus && self.policy.is_decided(&nodes, &self.tree, answers) {
            self.conclude(cx);
            return;
        }
        self.follow(actions, cx);
        self.release_read(cx);
    }

    /// Carries out actions as far as the token budget allows. A strategy that asks for nothing and
    /// waits for nothing is done; an impossible action fails the problem.
    pub(super) fn follow(&mut self, actions: Vec<Action>, cx: &mut Context<'_, '_>) {
        if let Err(error) = self.apply(actions, cx) {
            self.fail(error.to_string(), cx);
        }
    }

    pub(super) fn apply(
        &mut self,
        actions: Vec<Action>,
        cx: &mut Context<'_, '_>,
    ) -> Result<(), SearchError> {
        self.policy.answers += 1;
        let round = self.policy.round();
        let aggregation = self.config().aggregation;
        // Ranks are taken from the tree before any action, since pruning takes nodes out of the
        // ranking.
        let decision = Decision::new(&self.tree, &actions, aggregation, round);
        // A strategy without rounds keeps its actions: the budget of a chain is split among its
        // children when they are made.
        let actions = if round.is_some() {
            let spent = self.bill.ledger.generated_tokens as usize;
            self.budget.afford(actions, &self.tree, spent)
        } else {
            actions
        };
        for action in actions {
            match action {
                Action::Expand { node, count, mode } => self.expand(node, count, mode, cx)?,
                Action::Resume(node) => self.resume(node, cx)?,
                Action::Score(node) => self.ask_for_score(node)?,
                Action::Prune(node) => {
                    match self.state(node, "prune")? {
                        State::Open | State::Paused | State::Finished(_) => {}
                        State::Expanded if self.is_kept(node) => {}
                        _ => return Err(bad(node, "prune", "an open, paused or finished node")),
                    }
                    self.prune(node, decision.on(node), cx);
                }
                Action::Done => {
                    self.conclude(cx);
                    return Ok(());
                }
            }
        }
        // Speculative steps that are already written close after all actions, like the steps that
        // the actions queued.
        for (node, step) in std::mem::take(&mut self.steps.arrived) {
            self.close(node, step, cx);
        }
        if self.steps.outstanding == 0 && self.steps.unreported.is_empty() {
            self.conclude(cx);
        }
        Ok(())
    }

    pub(super) fn state(&self, node: NodeId, verb: &str) -> Result<State, SearchError> {
        if self.tree.contains(node) {
            Ok(self.tree.node(node).state)
        } else {
            Err(bad(node, verb, "a node"))
        }
    }

    pub(super) fn expand(
        &mut self,
        node: NodeId,
        count: usize,
        mode: DecodeMode,
        cx: &mut Context<'_, '_>,
    ) -> Result<(), SearchError> {
        let keeps = self.policy.strategy.keeps_expanded(node);
        match self.state(node, "expand")? {
            State::Open => {}
            // A kept node can be expanded again while its chain holds the cache to fork.
            State::Expanded if self.is_kept(node) && self.resources[node].chain.is_some() => {}
            _ => return Err(bad(node, "expand", "an open node")),
        }
        if count == 0 {
            let what = format!("it asked to expand {node:?} into no steps");
            return Err(SearchError::BadAction(what));
        }
        let left = self.resources[node].token_limit;
        let token_limits = self.budget.token_limits(left, count);
        // The budget is spent: an open chain ends here, a kept node has its earlier children.
        if token_limits.is_empty() {
            if self.tree.node(node).state == State::Open {
                self.refuse(node, cx);
            }
            return Ok(());
        }

        // A speculative step has the random stream of the first child, so only the first expansion
        // in the same mode may take it over: then it is the step that would be sampled now.
        let known = self.tree.node(node).children.len();
        let is_first = known == 0;
        let mut step = self.resources[node]
            .speculative
            .take_if(|step| is_first && step.mode == mode);
        self.drop_speculative(node, cx);
        // Counts what `start_next` would count: an only child takes over its parent's chain and
        // reuses nothing.
        if step.is_some() && (token_limits.len() > 1 || keeps) {
            self.note_reuse(node);
        }
        self.tree.node_mut(node).state = State::Expanded;
        // The tokens given to these children are no longer the node's; its next expansion shares
        // the rest.
        let handed = token_limits
            .iter()
            .fold(0, |sum: usize, &a| sum.saturating_add(a));
        self.resources[node].token_limit = left.saturating_sub(handed);
        self.resources[node].unclosed += token_limits.len();
        self.steps.outstanding += token_limits.len();
        for token_limit in token_limits {
            let child = self.tree.add_child(node);
            self.tree.node_mut(child).round = self.policy.round();
            self.resources.push(NodeResources {
                mode,
                token_limit,
                ..NodeResources::default()
            });
            match step.take() {
                None => {
                    self.steps.queue.push_back(child);
                    self.resources[node].unstarted += 1;
                }
                Some(step) => self.adopt(child, step),
            }
        }
        let begun = &self.tree.node(node).children[known..];
        self.notify(node, ChainEvent::Expanded(begun), cx);
        self.let_go(node, cx);
        Ok(())
    }

    /// Ends a chain that has no token left in the budget.
    pub(super) fn refuse(&mut self, node: NodeId, cx: &mut Context<'_, '_>) {
        self.finish(node, Finish::Budget, cx);
        self.steps.unreported.push(node);
    }

    /// Gives a speculative step to the node that the strategy made for it.
    pub(super) fn adopt(&mut self, child: NodeId, step: SpeculativeStep) {
        self.resources[child].chain = Some(step.chain);
        if let Some(step) = step.step {
            self.steps.arrived.push((child, step));
        } else {
            self.steps.ahead -= 1;
            self.steps.growing += 1;
            self.steps.adopted.push((step.chain, child));
        }
    }

    /// Releases an expanded node's chain once all its children have started.
    pub(super) fn let_go(&mut self, node: NodeId, cx: &mut Context<'_, '_>) {
        if self.resources[node].unstarted == 0
            && self.tree.node(node).state == State::Expanded
            && !self.policy.strategy.keeps_expanded(node)
            && let Some(chain) = self.resources[node].chain.take()
        {
            cx.models.generator.release(chain);
        }
    }

    pub(super) fn resume(
        &mut self,
        node: NodeId,
        cx: &mut Context<'_, '_>,
    ) -> Result<(), SearchError> {
        if self.state(node, "resume")? != State::Paused {
            return Err(bad(node, "resume", "a paused node"));
        }
        let left = self.resources[node].token_limit;
        let Some(&more) = self.budget.token_limits(left, 1).first() else {
            self.refuse(node, cx);
            return Ok(());
        };
        let tokens = self.tree.node(node).sampled_tokens();
        self.tree.node_mut(node).state = State::Growing;
        let resources = &mut self.resources[node];
        // A step's limit counts from its first token, also tokens from before the pause.
        resources.token_limit = more.saturating_add(tokens);
        if let Some(parent) = self.tree.node(node).parent {
            self.resources[parent].unclosed += 1;
        }
        self.steps.outstanding += 1;
        self.steps.queue.push_back(node);
        Ok(())
    }

    /// Whether an expanded node was kept. Other expanded nodes lose their chain once all their
    /// children have started.
    pub(super) fn is_kept(&self, node: NodeId) -> bool {
        let resources = &self.resources[node];
        let is_idle = resources.unstarted == 0 && resources.chain.is_some();
        is_idle || self.policy.strategy.keeps_expanded(node)
    }

    pub(super) fn ask_for_score(&mut self, node: NodeId) -> Result<(), SearchError> {
        let state = self.state(node, "score")?;
        if !self.competes(node) || self.policy.scoring == Scoring::Never {
            return Err(bad(node, "score", "an open, paused or complete node"));
        }
        self.steps.outstanding += 1;
        // If nothing has to be scored, the node is reported at once: otherwise the strategy would
        // wait for ever.
        let known = match state {
            State::Paused => {
                let paused = self.tree.node(node);
                paused.is_empty_step() || paused.partial_score.is_some()
            }
            _ => self.is_read(node),
        };
        if known {
            self.steps.report(node);
        } else {
            self.steps.ready.push(node);
        }
        Ok(())
    }

    /// Whether no step of a closed node's chain has to be scored: each has a score or is empty.
    pub(super) fn is_read(&self, node: NodeId) -> bool {
        let path = self.tree.path(node);
        path.into_iter().all(|id| {
            let node = self.tree.node(id);
            node.is_empty_step() || node.score.is_some()
        })
    }

    /// Whether a chain can still be chosen: open, paused or complete.
    pub(super) fn competes(&self, node: NodeId) -> bool {
        let node = self.tree.node(node);
        matches!(node.state, State::Open | State::Paused) || node.is_complete()
    }
}

fn bad(node: NodeId, verb: &str, wanted: &str) -> SearchError {
    let what = format!("it asked to {verb} {node:?}, which is not {wanted}");
    SearchError::BadAction(what)
}
