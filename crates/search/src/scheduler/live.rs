//! One problem in flight.

use std::collections::VecDeque;
use std::time::Duration;

use super::held::Held;
use super::{Models, refusal_of_generator, refusal_of_scorer};
use crate::config::SearchConfig;
use crate::error::{ConfigError, SearchError};
use crate::event::Event;
use crate::finish::Finish;
use crate::generator::{ChainId, StepPlan, Stepped};
use crate::ledger::Ledger;
use crate::problem::Problem;
use crate::result::ProblemResult;
use crate::scorer::ScoreId;
use crate::strategy::{Action, Growth, Scoring, Start as Begin, Strategy};
use crate::tree::{ChainTree, NodeId, State};

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
    pub held: Vec<Held>,
    pub strategy: Box<dyn Strategy>,
    pub scoring: Scoring,
    pub stage: Stage,
    /// Steps to start, in this order.
    pub queue: VecDeque<NodeId>,
    /// Steps being decoded.
    pub growing: usize,
    /// Closed steps, or in the end whole chains, to be scored.
    pub ready: Vec<NodeId>,
    /// What the strategy has not heard of yet.
    pub settled: Vec<NodeId>,
    /// Steps asked for and not settled.
    outstanding: usize,
    /// Chains dropped in the middle of a step, with the tokens sampled for it.
    pub cancelled: Vec<(ChainId, usize)>,
    pub start: Begin,
    pub prompt_tokens: usize,
    prompt_read: bool,
    /// Whether another problem was in flight at any time since the start.
    pub had_company: bool,
    pub ledger: Ledger,
    pub started: Duration,
}

impl Live {
    /// Opens the problem in both models; the inner error is the result of a refused problem.
    pub fn open(
        index: usize,
        problem: Problem,
        strategy: Box<dyn Strategy>,
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
                let reason = refusal_of_generator(error)?;
                return Ok(Err(Box::new(refused(index, problem, reason))));
            }
        };
        let mut root = Held {
            chain: Some(opened.chain),
            ..Held::default()
        };
        if scoring != Scoring::Never
            && let Some(scorer) = models.scorer.as_mut()
        {
            match scorer.open(&problem, key) {
                Ok(id) => root.score = Some(id),
                Err(error) => {
                    models.generator.release(opened.chain);
                    let reason = refusal_of_scorer(error)?;
                    return Ok(Err(Box::new(refused(index, problem, reason))));
                }
            }
        }
        Ok(Ok(Self {
            index,
            problem,
            tree: ChainTree::new(),
            held: vec![root],
            scoring,
            strategy,
            stage: Stage::Searching,
            queue: VecDeque::new(),
            growing: 0,
            ready: Vec::new(),
            settled: Vec::new(),
            outstanding: 0,
            cancelled: Vec::new(),
            start: Begin {
                entropy: opened.entropy,
                cache_tokens: models.generator.memory().capacity_tokens,
            },
            prompt_tokens: opened.prompt_tokens,
            prompt_read: false,
            had_company: false,
            ledger: Ledger::default(),
            started: now,
        }))
    }

    pub fn held(&mut self, node: NodeId) -> &mut Held {
        &mut self.held[node.index()]
    }

    /// Carries out what the strategy asked for. A strategy that asks for nothing and waits for
    /// nothing is done.
    pub fn apply(
        &mut self,
        actions: Vec<Action>,
        models: &mut Models<'_>,
        observe: &mut dyn FnMut(Event<'_>),
    ) -> Result<(), SearchError> {
        for action in actions {
            match action {
                Action::Expand { node, count, .. } => self.expand(node, count)?,
                Action::Prune(node) => {
                    self.check_open(node, "prune")?;
                    self.prune(node, models, observe);
                }
                Action::Resume(_) | Action::Score(_) => {}
                Action::Done => {
                    self.conclude(models, observe);
                    return Ok(());
                }
            }
        }
        if self.outstanding == 0 && self.settled.is_empty() {
            self.conclude(models, observe);
        }
        Ok(())
    }

    fn check_open(&self, node: NodeId, verb: &str) -> Result<(), SearchError> {
        if self.tree.contains(node) && self.tree.node(node).state == State::Open {
            return Ok(());
        }
        Err(SearchError::BadAction(format!(
            "it asked to {verb} {node:?}, which is not an open node"
        )))
    }

    fn expand(&mut self, node: NodeId, count: usize) -> Result<(), SearchError> {
        self.check_open(node, "expand")?;
        if count == 0 {
            let what = format!("it asked to expand {node:?} into no steps");
            return Err(SearchError::BadAction(what));
        }
        self.tree.node_mut(node).state = State::Expanded;
        for _ in 0..count {
            let child = self.tree.add_child(node);
            self.held.push(Held::default());
            self.queue.push_back(child);
        }
        let held = self.held(node);
        held.unstarted = count;
        held.unclosed = count;
        held.unscored = count;
        self.outstanding += count;
        Ok(())
    }

    /// Starts the next queued step if memory allows. The last child takes its parent's chain over,
    /// the others fork it.
    pub fn start_next(&mut self, models: &mut Models<'_>, total: &mut Ledger) -> Start {
        let Some(&node) = self.queue.front() else {
            return Start::NothingQueued;
        };
        let (Some(parent), stream) = (self.tree.node(node).parent, self.tree.node(node).stream)
        else {
            return Start::NothingQueued;
        };
        let Some(source) = self.held(parent).chain else {
            return Start::NothingQueued;
        };
        if !models.generator.can_start(source) {
            return Start::NoMemory;
        }
        self.queue.pop_front();
        self.held(parent).unstarted -= 1;
        let chain = if self.held(parent).unstarted == 0 {
            self.held(parent).chain = None;
            source
        } else {
            let reused = (self.prompt_tokens + self.tree.token_count(parent)) as u64;
            self.ledger.reused_tokens += reused;
            total.reused_tokens += reused;
            models.generator.fork(source)
        };
        if !self.prompt_read {
            self.prompt_read = true;
            self.ledger.prompt_tokens += self.prompt_tokens as u64;
            total.prompt_tokens += self.prompt_tokens as u64;
        }
        models.generator.start_step(
            chain,
            StepPlan {
                stream,
                growth: Growth::Whole,
                allowance: usize::MAX,
            },
        );
        self.held(node).chain = Some(chain);
        self.growing += 1;
        Start::Started(chain, node)
    }

    /// Takes in a closed step. Its chain is idle again.
    pub fn close(
        &mut self,
        id: NodeId,
        step: Stepped,
        max_steps: usize,
        models: &mut Models<'_>,
        observe: &mut dyn FnMut(Event<'_>),
    ) {
        self.ledger.generated_tokens += step.tokens.len() as u64;
        let node = self.tree.node_mut(id);
        let out_of_steps = node.depth as usize >= max_steps;
        let finish = step.finish.or(out_of_steps.then_some(Finish::MaxSteps));
        node.tokens = step.tokens;
        node.text = step.text;
        node.logprob = step.logprob;
        node.state = finish.map_or(State::Open, State::Finished);
        observe(Event::StepClosed {
            index: self.index,
            tree: &self.tree,
            node: id,
        });
        if let Some(finish) = finish {
            self.finish(id, finish, models, observe);
        }

        let Some(parent) = self.tree.node(id).parent else {
            return;
        };
        self.held(parent).unclosed -= 1;
        if !self.strategy.merges_siblings() {
            self.advance(id, models);
        } else if self.held(parent).unclosed == 0 {
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
        if let Some(chain) = self.held(node).chain.take() {
            models.generator.release(chain);
        }
        observe(Event::ChainFinished {
            index: self.index,
            tree: &self.tree,
            node,
            finish,
        });
    }

    /// The first of the siblings with the same text, in the order of their streams, stands for all.
    fn merge_siblings(&mut self, parent: NodeId, models: &mut Models<'_>) {
        let siblings = self.tree.node(parent).children.clone();
        let competes = |tree: &ChainTree, id: NodeId| {
            let node = tree.node(id);
            node.state == State::Open || node.is_complete()
        };
        for (i, &id) in siblings.iter().enumerate() {
            let twin = siblings[..i].iter().copied().find(|&earlier| {
                let (a, b) = (self.tree.node(earlier), self.tree.node(id));
                a.state == b.state && a.text == b.text
            });
            if let Some(twin) = twin.filter(|_| competes(&self.tree, id)) {
                self.tree.node_mut(twin).copies += 1;
                self.tree.node_mut(id).state = State::Duplicate;
                self.release(id, models);
                self.outstanding -= 1;
                self.past_scoring(id, models);
            } else {
                self.advance(id, models);
            }
        }
    }

    /// Sends a closed step to the scorer or, where there is nothing to score, to the strategy.
    fn advance(&mut self, id: NodeId, models: &mut Models<'_>) {
        let node = self.tree.node(id);
        let competes = node.state == State::Open || node.is_complete();
        if self.scoring != Scoring::EveryStep || !competes {
            self.settle(id, models);
        } else if node.is_empty_step() {
            // Not a step: the chain keeps the score it has.
            if node.state == State::Open {
                self.held(id).score = self.fork_score(id, models);
            }
            self.settle(id, models);
        } else {
            self.ready.push(id);
        }
    }

    /// A second handle on the scored chain above `node`.
    pub fn fork_score(&mut self, node: NodeId, models: &mut Models<'_>) -> Option<ScoreId> {
        let parent = self.tree.node(node).parent?;
        let id = self.held(parent).score?;
        let scorer = models.scorer.as_mut()?;
        Some(scorer.fork(id))
    }

    /// Puts a node before the strategy.
    pub fn settle(&mut self, id: NodeId, models: &mut Models<'_>) {
        self.outstanding -= 1;
        self.settled.push(id);
        self.past_scoring(id, models);
    }

    fn past_scoring(&mut self, id: NodeId, models: &mut Models<'_>) {
        let Some(parent) = self.tree.node(id).parent else {
            return;
        };
        self.held(parent).unscored -= 1;
        // Whole chains are scored in the end, from the root.
        let keep = self.scoring == Scoring::OnDemand && parent == ChainTree::ROOT;
        if self.held(parent).unscored == 0 && !keep {
            self.release_score(parent, models);
        }
    }

    /// Tells the strategy what is new and does as it says.
    pub fn wake(
        &mut self,
        models: &mut Models<'_>,
        observe: &mut dyn FnMut(Event<'_>),
    ) -> Result<(), SearchError> {
        if self.stage != Stage::Searching {
            self.settled.clear();
            return Ok(());
        }
        self.note_memory(models);
        let mut nodes = std::mem::take(&mut self.settled);
        nodes.sort_unstable();
        let actions = self.strategy.settled(&self.tree, &nodes);
        self.apply(actions, models, observe)
    }

    /// Ends the search: drops what is open and has the finished chains scored if that is still due.
    pub fn conclude(&mut self, models: &mut Models<'_>, observe: &mut dyn FnMut(Event<'_>)) {
        self.queue.clear();
        self.ready.clear();
        self.settled.clear();
        self.growing = 0;
        self.outstanding = 0;
        let ids: Vec<NodeId> = self.tree.nodes().map(|(id, _)| id).collect();
        for &id in &ids[1..] {
            match self.tree.node(id).state {
                State::Open => self.prune(id, models, observe),
                State::Growing => {
                    self.tree.node_mut(id).state = State::Pruned;
                    self.cancel(id, models);
                }
                _ => {}
            }
            // Also the chain of an expanded node whose children were not all started.
            self.release(id, models);
        }
        if let Some(chain) = self.held(ChainTree::ROOT).chain.take() {
            models.generator.release(chain);
        }
        self.ready = match self.scoring {
            Scoring::OnDemand => ids
                .into_iter()
                .filter(|&id| self.tree.node(id).is_complete())
                .filter(|&id| self.tree.steps(id).next().is_some())
                .collect(),
            Scoring::EveryStep | Scoring::Never => Vec::new(),
        };
        if self.ready.is_empty() || models.scorer.is_none() {
            self.ready.clear();
            self.done(models);
        } else {
            self.stage = Stage::FinalScoring;
            self.note_memory(models);
        }
    }

    pub fn done(&mut self, models: &mut Models<'_>) {
        self.release_score(ChainTree::ROOT, models);
        self.stage = Stage::Done;
    }

    fn prune(&mut self, node: NodeId, models: &mut Models<'_>, observe: &mut dyn FnMut(Event<'_>)) {
        self.tree.node_mut(node).state = State::Pruned;
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
        if let Some(parent) = self.tree.node(node).parent {
            let held = self.held(parent);
            held.unstarted -= 1;
            if held.unstarted == 0
                && let Some(chain) = held.chain.take()
            {
                models.generator.release(chain);
            }
        }
        let nothing = Stepped {
            chain: ChainId(u64::MAX),
            tokens: Vec::new(),
            text: String::new(),
            logprob: 0.0,
            finish: Some(Finish::NoMemory),
            paused: false,
        };
        self.close(node, nothing, config.max_steps, models, observe);
    }
}

fn refused(index: usize, problem: Problem, error: String) -> ProblemResult {
    ProblemResult {
        index,
        problem,
        tree: ChainTree::new(),
        finished: Vec::new(),
        chosen: None,
        answer: None,
        score: None,
        error: Some(error),
        ledger: Ledger::default(),
        elapsed: 0.0,
    }
}
