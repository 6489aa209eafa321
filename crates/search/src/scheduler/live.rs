//! One problem in flight.

use std::collections::VecDeque;
use std::time::Duration;

use super::budget::TokenBudget;
use super::consensus::Votes;
use super::contents::{ContentId, Contents};
use super::pruning::Decision;
use super::resources::{NodeResources, SpeculativeStep};
use super::{Models, refusal_of_generator, refusal_of_scorer};
use crate::config::SearchConfig;
use crate::error::{ConfigError, GenError, ScoreError, SearchError};
use crate::event::Event;
use crate::finish::Finish;
use crate::generator::{ChainId, StepOutput, StepPlan};
use crate::ledger::Ledger;
use crate::problem::Problem;
use crate::result::ProblemResult;
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

pub(super) struct Live {
    pub index: usize,
    pub problem: Problem,
    pub tree: ChainTree,
    /// By node.
    pub resources: Vec<NodeResources>,
    pub contents: Contents,
    pub strategy: Box<dyn Strategy>,
    pub scoring: Scoring,
    pub stage: Stage,
    /// Steps to start or to take up again, in this order.
    pub queue: VecDeque<NodeId>,
    /// Steps being decoded.
    pub growing: usize,
    /// Steps being decoded ahead of the strategy.
    pub speculative_running: usize,
    /// Closed or paused steps, or in the end whole chains, to be scored.
    pub ready: Vec<NodeId>,
    /// What the strategy has not heard of yet.
    pub unreported: Vec<NodeId>,
    /// Steps asked for and not reported.
    outstanding: usize,
    /// Steps written ahead that have just been asked for.
    arrived: Vec<(NodeId, StepOutput)>,
    /// Chains written ahead that now belong to a node.
    pub adopted: Vec<(ChainId, NodeId)>,
    /// Chains dropped in the middle of a step.
    pub dropped: Vec<ChainId>,
    /// Sampled tokens that are not in the run's ledger yet.
    pub unbilled: u64,
    /// Reused tokens that are not there yet.
    pub unbilled_reuse: u64,
    pub budget: TokenBudget,
    pub votes: Votes,
    pub start: strategy::Start,
    /// How many times the strategy has said what to do.
    answers_of_strategy: u32,
    pub prompt_tokens: usize,
    prompt_read: bool,
    /// Whether another problem was in flight at any time since the start.
    pub ran_beside_others: bool,
    pub ledger: Ledger,
    pub started: Duration,
}

impl Live {
    /// Opens the problem in both models; the inner error is the result of a refused problem.
    pub fn open(
        index: usize,
        problem: Problem,
        strategy: Box<dyn Strategy>,
        config: &SearchConfig,
        models: &mut Models<'_>,
        now: Duration,
    ) -> Result<Result<Self, Box<ProblemResult>>, SearchError> {
        let key = problem.key();
        let scoring = strategy.scoring();
        if scoring == Scoring::EveryStep && models.scorer.is_none() {
            let what = "a strategy that scores every step";
            return Err(ConfigError::NeedsScorer { what }.into());
        }
        let opened = match models.generator.open(&problem, key) {
            Ok(opened) => opened,
            Err(error) => {
                let too_long = matches!(error, GenError::PromptTooLong { .. });
                let reason = refusal_of_generator(error)?;
                return Ok(Err(Box::new(refused(index, problem, reason, too_long))));
            }
        };
        let mut handle = None;
        if scoring != Scoring::Never
            && let Some(scorer) = models.scorer.as_mut()
        {
            match scorer.open(&problem, key) {
                Ok(id) => handle = Some(id),
                Err(error) => {
                    models.generator.release(opened.chain);
                    let too_long = matches!(error, ScoreError::TooLong { .. });
                    let reason = refusal_of_scorer(error)?;
                    return Ok(Err(Box::new(refused(index, problem, reason, too_long))));
                }
            }
        }
        let budget = TokenBudget::new(config.budget_tokens);
        let root = NodeResources {
            chain: Some(opened.chain),
            content: Some(ContentId::ROOT),
            token_limit: budget.total(),
            ..NodeResources::default()
        };
        Ok(Ok(Self {
            index,
            problem,
            tree: ChainTree::new(),
            resources: vec![root],
            contents: Contents::new(handle),
            scoring,
            strategy,
            stage: Stage::Searching,
            queue: VecDeque::new(),
            growing: 0,
            speculative_running: 0,
            ready: Vec::new(),
            unreported: Vec::new(),
            outstanding: 0,
            arrived: Vec::new(),
            adopted: Vec::new(),
            dropped: Vec::new(),
            unbilled: 0,
            unbilled_reuse: 0,
            budget,
            votes: Votes::default(),
            answers_of_strategy: 0,
            start: strategy::Start {
                strategy_seed: opened.strategy_seed,
                cache_tokens: models.generator.memory().capacity_tokens,
            },
            prompt_tokens: opened.prompt_tokens,
            prompt_read: false,
            ran_beside_others: false,
            ledger: Ledger::default(),
            started: now,
        }))
    }

    pub fn resources(&mut self, node: NodeId) -> &mut NodeResources {
        &mut self.resources[node.index()]
    }

    /// Whether the strategy is to be asked.
    pub fn has_news(&self) -> bool {
        let round_is_over = self.outstanding == 0 || !self.strategy.in_rounds();
        !self.unreported.is_empty() && round_is_over
    }

    /// Carries out what the strategy asked for, as far as the budget goes. A strategy that asks for
    /// nothing and waits for nothing is done.
    pub fn apply(
        &mut self,
        actions: Vec<Action>,
        config: &SearchConfig,
        models: &mut Models<'_>,
        observe: &mut dyn FnMut(Event<'_>),
    ) -> Result<(), SearchError> {
        self.answers_of_strategy += 1;
        let round = self.round();
        let decision = Decision::new(&self.tree, &actions, config.aggregation, round);
        for action in self.afford(actions) {
            match action {
                Action::Expand { node, count, mode } => {
                    self.expand(node, count, mode, models, observe)?
                }
                Action::Resume(node) => self.resume(node, models, observe)?,
                Action::Score(node) => self.ask_for_score(node)?,
                Action::Prune(node) => {
                    let is_kept = self.strategy.keeps_expanded();
                    match self.state(node, "prune")? {
                        State::Open | State::Paused | State::Finished(_) => {}
                        State::Expanded if is_kept => {}
                        _ => return Err(bad(node, "prune", "an open, paused or finished node")),
                    }
                    self.prune(node, decision.on(node), models, observe);
                }
                Action::Done => {
                    self.conclude(models, observe);
                    return Ok(());
                }
            }
        }
        for (node, step) in std::mem::take(&mut self.arrived) {
            self.close(node, step, config.max_steps, models, observe);
        }
        if self.outstanding == 0 && self.unreported.is_empty() {
            self.conclude(models, observe);
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
        models: &mut Models<'_>,
        observe: &mut dyn FnMut(Event<'_>),
    ) -> Result<(), SearchError> {
        let keeps = self.strategy.keeps_expanded();
        match self.state(node, "expand")? {
            State::Open => {}
            State::Expanded if keeps && self.resources(node).chain.is_some() => {}
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
                self.refuse(node, models, observe);
            }
            return Ok(());
        }

        let wanted = |step: &mut SpeculativeStep| step.mode == mode;
        let is_first = self.tree.node(node).children.is_empty();
        let mut step = self
            .resources(node)
            .speculative
            .take_if(|a| is_first && wanted(a));
        self.drop_speculative(node, models);
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
        self.outstanding += token_limits.len();
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
                    self.queue.push_back(child);
                    self.resources(node).unstarted += 1;
                }
                Some(step) => self.adopt(child, step),
            }
        }
        self.let_go(node, models);
        Ok(())
    }

    /// Ends a chain that the budget has nothing left for.
    fn refuse(
        &mut self,
        node: NodeId,
        models: &mut Models<'_>,
        observe: &mut dyn FnMut(Event<'_>),
    ) {
        self.finish(node, Finish::Budget, models, observe);
        self.unreported.push(node);
    }

    /// Makes a step that was begun ahead that of a node.
    fn adopt(&mut self, child: NodeId, step: SpeculativeStep) {
        self.resources(child).chain = Some(step.chain);
        match step.step {
            Some(step) => self.arrived.push((child, step)),
            None => {
                self.speculative_running -= 1;
                self.growing += 1;
                self.adopted.push((step.chain, child));
            }
        }
    }

    /// Gives an expanded node's chain back when all its children are started.
    fn let_go(&mut self, node: NodeId, models: &mut Models<'_>) {
        if self.resources(node).unstarted == 0
            && !self.strategy.keeps_expanded()
            && let Some(chain) = self.resources(node).chain.take()
        {
            models.generator.release(chain);
        }
    }

    fn resume(
        &mut self,
        node: NodeId,
        models: &mut Models<'_>,
        observe: &mut dyn FnMut(Event<'_>),
    ) -> Result<(), SearchError> {
        if self.state(node, "resume")? != State::Paused {
            return Err(bad(node, "resume", "a paused node"));
        }
        let left = self.resources(node).token_limit;
        let Some(&more) = self.budget.token_limits(left, 1).first() else {
            self.refuse(node, models, observe);
            return Ok(());
        };
        let tokens = self.tree.node(node).tokens.len();
        self.tree.node_mut(node).state = State::Growing;
        let resources = self.resources(node);
        resources.token_limit = more.saturating_add(tokens);
        if let Some(parent) = self.tree.node(node).parent {
            self.resources(parent).unclosed += 1;
        }
        self.outstanding += 1;
        self.queue.push_back(node);
        Ok(())
    }

    fn ask_for_score(&mut self, node: NodeId) -> Result<(), SearchError> {
        let state = self.state(node, "score")?;
        if !self.competes(node) || self.scoring == Scoring::Never {
            return Err(bad(node, "score", "an open, paused or complete node"));
        }
        self.outstanding += 1;
        let known = match state {
            State::Paused => {
                let paused = self.tree.node(node);
                paused.is_empty_step() || paused.partial_score.is_some()
            }
            _ => self.is_read(node),
        };
        match known {
            true => self.report(node),
            false => self.ready.push(node),
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
    pub fn start_next(&mut self, models: &mut Models<'_>, total: &mut Ledger) -> Start {
        let Some(&node) = self.queue.front() else {
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
        if !models.generator.can_start(source) {
            return Start::NoMemory;
        }
        self.queue.pop_front();
        if paused.is_none() {
            self.resources(parent).unstarted -= 1;
            if !self.prompt_read {
                self.prompt_read = true;
                self.ledger.prompt_tokens += self.prompt_tokens as u64;
                total.prompt_tokens += self.prompt_tokens as u64;
            }
        }
        let is_last = self.resources(parent).unstarted == 0 && !self.strategy.keeps_expanded();
        let chain = if paused.is_some() {
            source
        } else if is_last {
            self.resources(parent).chain = None;
            source
        } else {
            self.note_reuse(parent);
            models.generator.fork(source)
        };
        let resources = self.resources(node);
        resources.chain = Some(chain);
        let plan = StepPlan {
            stream,
            mode: match paused {
                Some(_) => DecodeMode::Sample,
                None => resources.mode,
            },
            token_limit: resources.token_limit,
        };
        models.generator.start_step(chain, plan);
        self.growing += 1;
        Start::Started(chain, node)
    }

    /// Books the tokens that a fork of a node's chain does not read again.
    fn note_reuse(&mut self, node: NodeId) {
        let reused = (self.prompt_tokens + self.tree.token_count(node)) as u64;
        self.ledger.reused_tokens += reused;
        self.unbilled_reuse += reused;
    }

    /// Takes in a step that closed or paused. Its chain is idle or paused.
    pub fn close(
        &mut self,
        id: NodeId,
        step: StepOutput,
        max_steps: usize,
        models: &mut Models<'_>,
        observe: &mut dyn FnMut(Event<'_>),
    ) {
        let billed = self.tree.node(id).tokens.len();
        self.bill(step.tokens.len().saturating_sub(billed));
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
            observe(Event::StepClosed {
                index: self.index,
                tree: &self.tree,
                node: id,
            });
            if let Some(finish) = finish {
                self.finish(id, finish, models, observe);
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
            self.merge_siblings(parent, models);
        }
    }

    /// Ends a chain and gives back what it held for growing.
    pub fn finish(
        &mut self,
        node: NodeId,
        finish: Finish,
        models: &mut Models<'_>,
        observe: &mut dyn FnMut(Event<'_>),
    ) {
        self.tree.node_mut(node).state = State::Finished(finish);
        self.release(node, models);
        observe(Event::ChainFinished {
            index: self.index,
            tree: &self.tree,
            node,
            finish,
        });
    }

    /// The first of the siblings that go on from the same text, in the order of their streams, stands for all.
    fn merge_siblings(&mut self, parent: NodeId, models: &mut Models<'_>) {
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
                self.release(id, models);
                self.outstanding -= 1;
            } else {
                self.advance(id);
            }
        }
    }

    /// Sends a step to the scorer or, where there is nothing to score, to the strategy.
    fn advance(&mut self, id: NodeId) {
        let is_step = !self.tree.node(id).is_empty_step();
        if self.scoring == Scoring::EveryStep && self.competes(id) && is_step {
            self.ready.push(id);
        } else {
            self.report(id);
        }
    }

    /// Puts a node before the strategy.
    pub fn report(&mut self, id: NodeId) {
        self.outstanding -= 1;
        self.unreported.push(id);
    }

    /// Tells the strategy what is new and does as it says.
    pub fn wake(
        &mut self,
        config: &SearchConfig,
        models: &mut Models<'_>,
        observe: &mut dyn FnMut(Event<'_>),
    ) -> Result<(), SearchError> {
        if self.stage != Stage::Searching {
            self.unreported.clear();
            return Ok(());
        }
        self.note_memory(models);
        let mut nodes = std::mem::take(&mut self.unreported);
        nodes.sort_unstable();
        let actions = self.strategy.on_steps(&self.tree, &nodes);
        if config.consensus && self.is_decided(&nodes, models.answers) {
            self.conclude(models, observe);
            return Ok(());
        }
        self.apply(actions, config, models, observe)?;
        self.release_read(models);
        Ok(())
    }

    /// Ends the search: drops what is open and has the finished chains scored if that is still due.
    pub fn conclude(&mut self, models: &mut Models<'_>, observe: &mut dyn FnMut(Event<'_>)) {
        self.queue.clear();
        self.ready.clear();
        self.unreported.clear();
        for (_, step) in std::mem::take(&mut self.arrived) {
            self.bill(step.tokens.len());
        }
        self.adopted.clear();
        self.growing = 0;
        self.outstanding = 0;
        let ids: Vec<NodeId> = self.tree.nodes().map(|(id, _)| id).collect();
        for &id in &ids {
            match self.tree.node(id).state {
                State::Open | State::Paused if id != ChainTree::ROOT => {
                    let over = Decision::search_over(self.round());
                    self.prune(id, over, models, observe);
                }
                State::Growing => {
                    self.tree.node_mut(id).pruned = Some(Decision::search_over(self.round()));
                    self.tree.node_mut(id).state = State::Pruned;
                    self.drop_speculative(id, models);
                    self.cancel(id, models);
                }
                // Also the chain of an expanded node whose children were not all started.
                _ => self.release(id, models),
            }
        }
        if self.scoring == Scoring::OnDemand && models.scorer.is_some() {
            let unread = |id: &NodeId| self.tree.node(*id).is_complete() && !self.is_read(*id);
            self.ready = ids.into_iter().filter(unread).collect();
        }
        match self.ready.is_empty() {
            true => self.done(models),
            false => self.stage = Stage::FinalScoring,
        }
    }

    pub fn done(&mut self, models: &mut Models<'_>) {
        self.release_scores(models);
        self.stage = Stage::Done;
    }

    fn prune(
        &mut self,
        node: NodeId,
        why: Pruned,
        models: &mut Models<'_>,
        observe: &mut dyn FnMut(Event<'_>),
    ) {
        self.tree.node_mut(node).state = State::Pruned;
        self.tree.node_mut(node).pruned = Some(why);
        self.release(node, models);
        observe(Event::ChainPruned {
            index: self.index,
            tree: &self.tree,
            node,
        });
    }

    /// Gives up the worst of the steps that wait for memory.
    pub fn give_up_worst(
        &mut self,
        config: &SearchConfig,
        models: &mut Models<'_>,
        observe: &mut dyn FnMut(Event<'_>),
    ) {
        let tree = &self.tree;
        let worst = (0..self.queue.len()).min_by(|&a, &b| {
            let (a, b) = (self.queue[a], self.queue[b]);
            let score = |id| {
                tree.chain_score(id, config.aggregation)
                    .unwrap_or_else(|| tree.mean_logprob(id))
            };
            score(a).total_cmp(&score(b)).then(b.cmp(&a))
        });
        let Some(node) = worst.and_then(|at| self.queue.remove(at)) else {
            return;
        };
        if let Some(parent) = self.tree.node(node).parent
            && self.resources(node).chain.is_none()
        {
            self.resources(parent).unstarted -= 1;
            self.let_go(parent, models);
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
        self.close(node, so_far, config.max_steps, models, observe);
    }
}

fn bad(node: NodeId, verb: &str, wanted: &str) -> SearchError {
    let what = format!("it asked to {verb} {node:?}, which is not {wanted}");
    SearchError::BadAction(what)
}

fn refused(index: usize, problem: Problem, error: String, too_long: bool) -> ProblemResult {
    ProblemResult {
        index,
        problem,
        tree: ChainTree::new(),
        finished: Vec::new(),
        chosen: None,
        answer: None,
        is_guess: false,
        withheld: None,
        score: None,
        error: Some(error),
        too_long,
        answers: Vec::new(),
        ledger: Ledger::default(),
        elapsed: 0.0,
    }
}
