//! One problem in flight.

use std::collections::VecDeque;
use std::ops::{Index, IndexMut};
use std::time::Duration;

use super::Context;
use super::budget::TokenBudget;
use super::contents::{ContentId, Contents};
use super::policy::{Policy, Votes};
use crate::config::SearchConfig;
use crate::error::{ConfigError, GenError, ScoreError, SearchError};
use crate::generator::{ChainId, StepOutput};
use crate::ledger::Ledger;
use crate::request::Request;
use crate::result::{ProblemResult, Stopped};
use crate::strategy::{DecodeMode, Scoring, Start};
use crate::tree::{ChainTree, NodeId};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Stage {
    Searching,
    /// Whole chains are to be scored before the result is made.
    FinalScoring,
    Done,
}

/// One problem in flight: its request, its tree, and what is under way for it.
pub(super) struct ActiveProblem {
    pub index: usize,
    /// Tells this start of the problem from an earlier one that was set back.
    pub epoch: u64,
    pub request: Request,
    pub policy: Policy,
    pub stage: Stage,
    pub tree: ChainTree,
    pub resources: Resources,
    pub contents: Contents,
    pub steps: Steps,
    pub bill: Bill,
    pub budget: TokenBudget,
    /// The lists of changed problems that have this one, a bit each.
    pub noted: u8,
    /// Whether another problem was in flight at any time since the start.
    pub ran_beside_others: bool,
    pub outcome: Outcome,
}

/// The losses of a search, and why it ended if its strategy did not end it.
#[derive(Default)]
pub(super) struct Outcome {
    /// Chains that were given up for want of memory, whatever the strategy did with them then.
    pub lost_to_memory: usize,
    /// Verdicts that scorers lost.
    pub lost_verdicts: usize,
    /// Why the search ended before its strategy was done, if it did.
    pub stopped: Option<Stopped>,
    /// Why the problem failed, if it did.
    pub error: Option<String>,
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
    pub outstanding: usize,
    /// How many are being decoded that the strategy has not asked for.
    pub ahead: usize,
    /// Steps that closed before they were asked for, and have just been asked for.
    pub arrived: Vec<(NodeId, StepOutput)>,
    /// Chains of steps that were begun ahead and belong to a node since the scheduler last looked.
    pub adopted: Vec<(ChainId, NodeId)>,
    /// Chains in the middle of a step that were dropped since then.
    pub dropped: Vec<ChainId>,
}

impl Steps {
    /// The number of rows in a pass.
    pub(super) fn rows(&self) -> usize {
        self.growing + self.ahead
    }

    /// Puts a node before the strategy.
    pub(super) fn report(&mut self, node: NodeId) {
        self.outstanding -= 1;
        self.unreported.push(node);
    }
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
    pub prompt_read: bool,
    /// Rows that it has in a pass, and the passes up to where these are charged.
    pub rows: usize,
    pub charged: Passes,
    pub started: Duration,
}

/// The generator's passes so far.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Passes {
    pub count: u64,
    /// The sum over all passes of the seconds that each took for a row.
    pub seconds_a_row: f64,
}

impl ActiveProblem {
    /// Opens the problem in both models; the inner error is the result of a refused problem.
    pub(super) fn open(
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
            let error = ConfigError::NeedsScorer { what };
            return refuse(request, error.to_string(), false);
        }
        let settings = &request.settings;
        let generator = &mut cx.models.generator;
        let opened = match generator.open(&request.problem, key, &settings.generator) {
            Ok(opened) => opened,
            Err(error @ GenError::Lost(_)) => return Err(error.into()),
            Err(error) => {
                let too_long = error.is_too_long();
                return refuse(request, error.to_string(), too_long);
            }
        };
        if opened.given.len() != request.problem.steps.len() {
            cx.models.generator.release(opened.chain);
            let error = GenError::Failed("it cannot go on from given steps".into());
            return refuse(request, error.to_string(), false);
        }
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
                    let too_long = error.is_too_long();
                    return refuse(request, error.to_string(), too_long);
                }
            }
        }
        let budget = TokenBudget::new(settings.search.budget_tokens);
        let thought = opened.thought.unwrap_or_default();
        let root = NodeResources {
            chain: Some(opened.chain),
            content: Some(ContentId::ROOT),
            unsettled: thought.to_owned(),
            token_limit: budget.total(),
            ..NodeResources::default()
        };
        let mut live = Self {
            index,
            epoch,
            request,
            policy: Policy {
                strategy,
                scoring,
                start: Start {
                    node: ChainTree::ROOT,
                    strategy_seed: opened.strategy_seed,
                    cache_tokens: cx.models.generator.memory().capacity_tokens,
                },
                answers: 0,
                votes: Votes::default(),
            },
            stage: Stage::Searching,
            tree: ChainTree::after(thought),
            resources: Resources::new(root),
            contents: Contents::new(handle),
            steps: Steps::default(),
            bill: Bill {
                prompt_tokens: opened.prompt_tokens,
                started,
                ..Bill::default()
            },
            budget,
            noted: 0,
            ran_beside_others: false,
            outcome: Outcome::default(),
        };
        live.take_given(opened.given, cx);
        Ok(Ok(live))
    }

    pub(super) fn config(&self) -> &SearchConfig {
        &self.request.settings.search
    }

    /// Charges the passes since the last call. In each of them the problem had the number of rows
    /// that was noted then. To be called before a pass in which that number has changed.
    pub(super) fn charge_passes(&mut self, passes: Passes) {
        let bill = &mut self.bill;
        if bill.rows > 0 {
            bill.ledger.forward_passes += passes.count - bill.charged.count;
            let seconds = passes.seconds_a_row - bill.charged.seconds_a_row;
            bill.ledger.seconds.generate += bill.rows as f64 * seconds;
        }
        bill.charged = passes;
        bill.rows = self.steps.rows();
    }

    /// Whether the strategy is to be asked.
    pub(super) fn has_news(&self) -> bool {
        let round_is_over = self.steps.outstanding == 0 || !self.policy.strategy.in_rounds();
        !self.steps.unreported.is_empty() && round_is_over
    }
}

/// The resources of all nodes of a tree.
pub(super) struct Resources(Vec<NodeResources>);

impl Resources {
    pub(super) fn new(root: NodeResources) -> Self {
        Self(vec![root])
    }

    /// Adds those of the tree's next node.
    pub(super) fn push(&mut self, node: NodeResources) {
        self.0.push(node);
    }

    /// The nodes in order of age, the root first.
    pub(super) fn nodes(&self) -> impl Iterator<Item = NodeId> + use<> {
        (0..self.0.len()).map(|at| NodeId(at as u32))
    }
}

impl Index<NodeId> for Resources {
    type Output = NodeResources;

    fn index(&self, node: NodeId) -> &NodeResources {
        &self.0[node.index()]
    }
}

impl IndexMut<NodeId> for Resources {
    fn index_mut(&mut self, node: NodeId) -> &mut NodeResources {
        &mut self.0[node.index()]
    }
}

/// The resources of a node in the models, and how many of them its children still need.
#[derive(Debug, Default)]
pub(super) struct NodeResources {
    pub chain: Option<ChainId>,
    /// The text of the chain, once it closed or paused.
    pub content: Option<ContentId>,
    /// The bytes of the last token after the end of the step.
    pub leftover: Vec<u8>,
    /// The end of its chain's text, as far as an answer may begin there that is not whole.
    pub unsettled: String,
    /// Whether its tokens stand for its text and nothing else.
    pub tokens_match_text: bool,
    /// How its step grows.
    pub mode: DecodeMode,
    /// Most tokens of its step; after it closed without a limit, those left for what follows.
    pub token_limit: usize,
    /// Children still to be started from `chain`.
    pub unstarted: usize,
    /// Children in the middle of a step.
    pub unclosed: usize,
    /// Closed or paused; waits for its siblings to do so.
    pub waits: bool,
    /// The first child, begun before anybody asked for it.
    pub speculative: Option<SpeculativeStep>,
}

/// A step that is written before it is known whether it will be wanted.
#[derive(Debug)]
pub(super) struct SpeculativeStep {
    pub chain: ChainId,
    pub mode: DecodeMode,
    /// The step, once it closed or paused.
    pub step: Option<StepOutput>,
}
