//! One problem in flight.

use std::collections::VecDeque;
use std::time::Duration;

use super::Context;
use super::budget::TokenBudget;
use super::consensus::Votes;
use super::contents::{ContentId, Contents};
use super::pruning::Decision;
use super::resources::{NodeResources, SpeculativeStep};
use crate::config::SearchConfig;
use crate::error::{ConfigError, GenError, ScoreError, SearchError};
use crate::event::Event;
use crate::finish::Finish;
use crate::generator::{ChainId, Source, StepOutput, StepPlan};
use crate::ledger::Ledger;
use crate::request::Request;
use crate::result::{ProblemResult, Stopped};
use crate::strategy::{self, Action, DecodeMode, Scoring, Strategy};
use crate::tree::{ChainTree, NodeId, Pruned, State};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Stage {
    Searching,
    /// Whole chains are to be scored before the result is made.
    FinalScoring,
    Done,
}

pub(super) enum Start {
    Started(ChainId, NodeId),
    NoMemory,
    NothingQueued,
}

/// One problem in flight: its request, its tree, and what is under way for it.
pub(super) struct ActiveProblem {
    pub index: usize,
    /// Tells this start of the problem from an earlier one that was set back.
    pub epoch: u64,
    pub request: Request,
    pub strategy: Box<dyn Strategy>,
    pub scoring: Scoring,
    pub stage: Stage,
    pub tree: ChainTree,
    /// By node.
    pub resources: Vec<NodeResources>,
    pub contents: Contents,
    pub steps: Steps,
    pub speculation: Speculation,
    pub bill: Bill,
    pub budget: TokenBudget,
    pub votes: Votes,
    pub start: strategy::Start,
    /// How many times the strategy has said what to do.
    answers_of_strategy: u32,
    /// Chains in the middle of a step that were dropped since the scheduler last looked.
    pub dropped: Vec<ChainId>,
    /// Batches at the scorer that have steps of this problem.
    pub batches: usize,
    /// Whether another problem was in flight at any time since the start.
    pub ran_beside_others: bool,
    /// Why the search ended before its strategy was done, if it did.
    pub stopped: Option<Stopped>,
    /// Why the problem failed, if it did.
    pub error: Option<String>,
    pub started: Duration,
}

/// Where the steps that a strategy asked for are, from the request to the report.
#[derive(Default)]
pub(super) struct Steps {
    /// To start or to take up again, in this order.
    pub queue: VecDeque<NodeId>,
    /// How many are being decoded.
    pub growing: usize,
    /// Closed or paused steps, or in the end whole chains, to be scored.
    pub ready: Vec<NodeId>,
    /// What the strategy has not heard of yet.
    pub unreported: Vec<NodeId>,
    /// How many were asked for and not reported.
    outstanding: usize,
}

/// Steps begun before the strategy asked for them.
#[derive(Default)]
pub(super) struct Speculation {
    /// How many are being decoded.
    pub running: usize,
    /// Steps that closed before they were asked for, and have just been asked for.
    arrived: Vec<(NodeId, StepOutput)>,
    /// Chains that now belong to a node.
    pub adopted: Vec<(ChainId, NodeId)>,
}

/// What the problem has cost, and what of it the run has not been told yet.
#[derive(Default)]
pub(super) struct Bill {
    pub ledger: Ledger,
    /// Sampled tokens that are not in the run's ledger yet.
    pub generated: u64,
    /// Reused tokens that are not there yet.
    pub reused: u64,
    pub prompt_tokens: usize,
    prompt_read: bool,
}

impl ActiveProblem {
    /// Opens the problem in both models; the inner error is the result of a refused problem.
    pub fn open(
        index: usize,
        epoch: u64,
        request: Request,
        cx: &mut Context<'_, '_>,
    ) -> Result<Result<Self, Box<ProblemResult>>, SearchError> {
        let started = cx.models.clock.now();
        let has_scorer = cx.models.scorer.is_some();
        let refuse = |request: Request, reason, too_long| {
            let mut result = ProblemResult::unsearched(index, request.problem);
            result.error = Some(reason);
            result.too_long = too_long;
            Ok(Err(Box::new(result)))
        };
        let strategy = match request.strategy(has_scorer) {
            Ok(strategy) => strategy,
            Err(error) => return refuse(request, error.to_string(), false),
        };
        let key = request.problem.key();
        let scoring = strategy.scoring();
        if scoring == Scoring::EveryStep && !has_scorer {
            let what = "a strategy that scores every step";
            return refuse(
                request,
                ConfigError::NeedsScorer { what }.to_string(),
                false,
            );
        }
        let settings = &request.settings;
        let opened = match cx
            .models
            .generator
            .open(&request.problem, key, &settings.generator)
        {
            Ok(opened) => opened,
            Err(error @ GenError::Lost(_)) => return Err(error.into()),
            Err(error) => {
                let too_long = matches!(error, GenError::PromptTooLong { .. });
                return refuse(request, error.to_string(), too_long);
            }
        };
        let mut handle = None;
        if scoring != Scoring::Never
            && let Some(scorer) = cx.models.scorer.as_mut()
        {
            match scorer.open(&request.problem, key) {
                Ok(id) => handle = Some(id),
                Err(error) => {
                    cx.models.generator.release(opened.chain);
                    if matches!(error, ScoreError::Lost(_)) {
                        return Err(error.into());
                    }
                    let too_long = matches!(error, ScoreError::TooLong { .. });
                    return refuse(request, error.to_string(), too_long);
                }
            }
        }
        let budget = TokenBudget::new(settings.search.budget_tokens);
        let root = NodeResources {
            chain: Some(opened.chain),
            content: Some(ContentId::ROOT),
            token_limit: budget.total(),
            ..NodeResources::default()
        };
        Ok(Ok(Self {
            index,
            epoch,
            request,
            strategy,
            scoring,
            stage: Stage::Searching,
            tree: ChainTree::new(),
            resources: vec![root],
            contents: Contents::new(handle),
            steps: Steps::default(),
            speculation: Speculation::default(),
            bill: Bill {
                prompt_tokens: opened.prompt_tokens,
                ..Bill::default()
            },
            budget,
            votes: Votes::default(),
            answers_of_strategy: 0,
            start: strategy::Start {
                strategy_seed: opened.strategy_seed,
                cache_tokens: cx.models.generator.memory().capacity_tokens,
            },
            dropped: Vec::new(),
            batches: 0,
            ran_beside_others: false,
            stopped: None,
            error: None,
            started,
        }))
    }

    pub fn config(&self) -> &SearchConfig {
        &self.request.settings.search
    }

    pub fn resources(&mut self, node: NodeId) -> &mut NodeResources {
        &mut self.resources[node.index()]
    }

    /// Whether the strategy is to be asked.
    pub fn has_news(&self) -> bool {
        let round_is_over = self.steps.outstanding == 0 || !self.strategy.in_rounds();
        !self.steps.unreported.is_empty() && round_is_over
    }

    /// Carries out what the strategy asked for, as far as the budget goes. A strategy that asks for
    /// nothing and waits for nothing is done; one that asks for the impossible ends the problem.
    pub fn follow(&mut self, actions: Vec<Action>, cx: &mut Context<'_, '_>) {
        if let Err(error) = self.apply(actions, cx) {
            self.fail(error.to_string(), cx);
        }
    }

    fn apply(&mut self, actions: Vec<Action>, cx: &mut Context<'_, '_>) -> Result<(), SearchError> {
        self.answers_of_strategy += 1;
        let round = self.round();
        let aggregation = self.config().aggregation;
        let decision = Decision::new(&self.tree, &actions, aggregation, round);
        for action in self.afford(actions) {
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
        for (node, step) in std::mem::take(&mut self.speculation.arrived) {
            self.close(node, step, cx);
        }
        if self.steps.outstanding == 0 && self.steps.unreported.is_empty() {
            self.conclude(cx);
        }
        Ok(())
    }

    /// The round of the search, from 1, if the strategy works in rounds. Otherwise it is asked
    /// whenever something has happened, which depends on what else is in flight.
    fn round(&self) -> Option<u32> {
        self.strategy
            .in_rounds()
            .then_some(self.answers_of_strategy)
    }

    fn state(&self, node: NodeId, verb: &str) -> Result<State, SearchError> {
        match self.tree.contains(node) {
            true => Ok(self.tree.node(node).state),
            false => Err(bad(node, verb, "a node")),
        }
    }

    fn expand(
        &mut self,
        node: NodeId,
        count: usize,
        mode: DecodeMode,
        cx: &mut Context<'_, '_>,
    ) -> Result<(), SearchError> {
        let keeps = self.strategy.keeps_expanded(node);
        match self.state(node, "expand")? {
            State::Open => {}
            State::Expanded if self.is_kept(node) && self.resources(node).chain.is_some() => {}
            _ => return Err(bad(node, "expand", "an open node")),
        }
        if count == 0 {
            let what = format!("it asked to expand {node:?} into no steps");
            return Err(SearchError::BadAction(what));
        }
        let left = self.resources(node).token_limit;
        let token_limits = self.budget.token_limits(left, count);
        if token_limits.is_empty() {
            if self.tree.node(node).state == State::Open {
                self.refuse(node, cx);
            }
            return Ok(());
        }

        let wanted = |step: &mut SpeculativeStep| step.mode == mode;
        let is_first = self.tree.node(node).children.is_empty();
        let mut step = self
            .resources(node)
            .speculative
            .take_if(|a| is_first && wanted(a));
        self.drop_speculative(node, cx);
        if step.is_some() && (token_limits.len() > 1 || keeps) {
            self.note_reuse(node);
        }
        self.tree.node_mut(node).state = State::Expanded;
        // A node that is expanded again has only what it did not hand out.
        let handed = token_limits
            .iter()
            .fold(0, |sum: usize, &a| sum.saturating_add(a));
        self.resources(node).token_limit = left.saturating_sub(handed);
        self.resources(node).unclosed += token_limits.len();
        self.steps.outstanding += token_limits.len();
        for token_limit in token_limits {
            let child = self.tree.add_child(node);
            self.tree.node_mut(child).round = self.round();
            self.resources.push(NodeResources {
                mode,
                token_limit,
                ..NodeResources::default()
            });
            match step.take() {
                None => {
                    self.steps.queue.push_back(child);
                    self.resources(node).unstarted += 1;
                }
                Some(step) => self.adopt(child, step),
            }
        }
        self.let_go(node, cx);
        Ok(())
    }

    /// Ends a chain that the budget has nothing left for.
    fn refuse(&mut self, node: NodeId, cx: &mut Context<'_, '_>) {
        self.finish(node, Finish::Budget, cx);
        self.steps.unreported.push(node);
    }

    /// Makes a step that was begun ahead that of a node.
    fn adopt(&mut self, child: NodeId, step: SpeculativeStep) {
        self.resources(child).chain = Some(step.chain);
        match step.step {
            Some(step) => self.speculation.arrived.push((child, step)),
            None => {
                self.speculation.running -= 1;
                self.steps.growing += 1;
                self.speculation.adopted.push((step.chain, child));
            }
        }
    }

    /// Gives an expanded node's chain back when all its children are started.
    fn let_go(&mut self, node: NodeId, cx: &mut Context<'_, '_>) {
        if self.resources(node).unstarted == 0
            && !self.strategy.keeps_expanded(node)
            && let Some(chain) = self.resources(node).chain.take()
        {
            cx.models.generator.release(chain);
        }
    }

    fn resume(&mut self, node: NodeId, cx: &mut Context<'_, '_>) -> Result<(), SearchError> {
        if self.state(node, "resume")? != State::Paused {
            return Err(bad(node, "resume", "a paused node"));
        }
        let left = self.resources(node).token_limit;
        let Some(&more) = self.budget.token_limits(left, 1).first() else {
            self.refuse(node, cx);
            return Ok(());
        };
        let tokens = self.tree.node(node).tokens.len();
        self.tree.node_mut(node).state = State::Growing;
        let resources = self.resources(node);
        resources.token_limit = more.saturating_add(tokens);
        if let Some(parent) = self.tree.node(node).parent {
            self.resources(parent).unclosed += 1;
        }
        self.steps.outstanding += 1;
        self.steps.queue.push_back(node);
        Ok(())
    }

    /// Whether an expanded node was kept. One that is not has no cache once all its children are
    /// started.
    fn is_kept(&self, node: NodeId) -> bool {
        let resources = &self.resources[node.index()];
        let is_idle = resources.unstarted == 0 && resources.chain.is_some();
        is_idle || self.strategy.keeps_expanded(node)
    }

    fn ask_for_score(&mut self, node: NodeId) -> Result<(), SearchError> {
        let state = self.state(node, "score")?;
        if !self.competes(node) || self.scoring == Scoring::Never {
            return Err(bad(node, "score", "an open, paused or complete node"));
        }
        self.steps.outstanding += 1;
        let known = match state {
            State::Paused => {
                let paused = self.tree.node(node);
                paused.is_empty_step() || paused.partial_score.is_some()
            }
            _ => self.is_read(node),
        };
        match known {
            true => self.report(node),
            false => self.steps.ready.push(node),
        }
        Ok(())
    }

    /// Whether nothing of a closed node's chain is still to be scored.
    fn is_read(&self, node: NodeId) -> bool {
        let path = self.tree.path(node);
        path.into_iter().all(|id| {
            let node = self.tree.node(id);
            node.is_empty_step() || node.score.is_some()
        })
    }

    fn competes(&self, node: NodeId) -> bool {
        let node = self.tree.node(node);
        matches!(node.state, State::Open | State::Paused) || node.is_complete()
    }

    /// Starts the next queued step if memory allows. The last child takes its parent's chain over
    /// unless that is kept, the others fork it.
    pub fn start_next(&mut self, cx: &mut Context<'_, '_>, total: &mut Ledger) -> Start {
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
    fn note_reuse(&mut self, node: NodeId) {
        let reused = (self.bill.prompt_tokens + self.tree.token_count(node)) as u64;
        self.bill.ledger.reused_tokens += reused;
        self.bill.reused += reused;
    }

    /// Takes in a step that closed or paused. Its chain is idle or paused.
    pub fn close(&mut self, id: NodeId, step: StepOutput, cx: &mut Context<'_, '_>) {
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
        let finish = step.finish.or(out_of_steps.then_some(Finish::MaxSteps));
        node.tokens = step.tokens;
        node.text = step.text;
        node.logprob = step.logprob;
        if step.paused {
            node.state = State::Paused;
        } else {
            node.state = finish.map_or(State::Open, State::Finished);
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

    /// Ends a chain and gives back what it held for growing.
    pub fn finish(&mut self, node: NodeId, finish: Finish, cx: &mut Context<'_, '_>) {
        self.tree.node_mut(node).state = State::Finished(finish);
        self.release(node, cx);
        cx.event(Event::ChainFinished {
            index: self.index,
            tree: &self.tree,
            node,
            finish,
        });
    }

    /// The first of the siblings that go on from the same text, in the order of their streams, stands for all.
    fn merge_siblings(&mut self, parent: NodeId, cx: &mut Context<'_, '_>) {
        let mut siblings = self.tree.node(parent).children.clone();
        siblings.retain(|&id| std::mem::take(&mut self.resources(id).waits));
        for (i, &id) in siblings.iter().enumerate() {
            let twin = siblings[..i].iter().copied().find(|&earlier| {
                let (a, b) = (self.tree.node(earlier), self.tree.node(id));
                let leftover = |id: NodeId| &self.resources[id.index()].leftover;
                let same = a.text == b.text && leftover(earlier) == leftover(id);
                a.state == b.state && a.state != State::Paused && same
            });
            if let Some(twin) = twin.filter(|_| self.competes(id)) {
                self.tree.node_mut(twin).copies += 1;
                self.tree.node_mut(id).state = State::Duplicate;
                self.tree.node_mut(id).duplicate_of = Some(twin);
                self.release(id, cx);
                self.steps.outstanding -= 1;
            } else {
                self.advance(id);
            }
        }
    }

    /// Sends a step to the scorer or, where there is nothing to score, to the strategy.
    fn advance(&mut self, id: NodeId) {
        let is_step = !self.tree.node(id).is_empty_step();
        if self.scoring == Scoring::EveryStep && self.competes(id) && is_step {
            self.steps.ready.push(id);
        } else {
            self.report(id);
        }
    }

    /// Puts a node before the strategy.
    pub fn report(&mut self, id: NodeId) {
        self.steps.outstanding -= 1;
        self.steps.unreported.push(id);
    }

    /// Tells the strategy what is new and does as it says.
    pub fn wake(&mut self, cx: &mut Context<'_, '_>) {
        if self.stage != Stage::Searching {
            self.steps.unreported.clear();
            return;
        }
        self.note_memory(&cx.models);
        let mut nodes = std::mem::take(&mut self.steps.unreported);
        nodes.sort_unstable();
        let actions = self.strategy.on_steps(&self.tree, &nodes);
        if self.config().consensus && self.is_decided(&nodes, cx.models.answers) {
            self.conclude(cx);
            return;
        }
        self.follow(actions, cx);
        self.release_read(cx);
    }

    /// Ends the search: drops what is open and has the finished chains scored if that is still due.
    pub fn conclude(&mut self, cx: &mut Context<'_, '_>) {
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
                    self.tree.node_mut(id).pruned = Some(Decision::search_over(self.round()));
                    self.tree.node_mut(id).state = State::Pruned;
                    self.drop_speculative(id, cx);
                    self.cancel(id, cx);
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
    pub fn stop(&mut self, stopped: Stopped, cx: &mut Context<'_, '_>) {
        self.stopped = Some(stopped);
        self.end(cx);
    }

    /// Ends the search because a model failed this problem.
    pub fn fail(&mut self, reason: String, cx: &mut Context<'_, '_>) {
        self.error = Some(reason);
        self.end(cx);
    }

    fn end(&mut self, cx: &mut Context<'_, '_>) {
        self.conclude(cx);
        self.steps.ready.clear();
        self.done(cx);
    }

    pub fn done(&mut self, cx: &mut Context<'_, '_>) {
        self.release_scores(cx);
        self.stage = Stage::Done;
    }

    fn prune(&mut self, node: NodeId, why: Pruned, cx: &mut Context<'_, '_>) {
        self.tree.node_mut(node).state = State::Pruned;
        self.tree.node_mut(node).pruned = Some(why);
        self.release(node, cx);
        cx.event(Event::ChainPruned {
            index: self.index,
            tree: &self.tree,
            node,
        });
    }

    /// Gives up the worst of the steps that wait for memory.
    pub fn give_up_worst(&mut self, cx: &mut Context<'_, '_>) {
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
            finish: Some(Finish::NoMemory),
            paused: false,
        };
        self.close(node, so_far, cx);
    }
}

fn bad(node: NodeId, verb: &str, wanted: &str) -> SearchError {
    let what = format!("it asked to {verb} {node:?}, which is not {wanted}");
    SearchError::BadAction(what)
}
