//! One problem in flight.

use std::collections::VecDeque;
use std::time::Duration;

use super::Context;
use super::budget::TokenBudget;
use super::contents::{ContentId, Contents};
use super::node::NodeResources;
use super::votes::Votes;
use crate::config::SearchConfig;
use crate::error::{ConfigError, GenError, ScoreError, SearchError};
use crate::generator::{ChainId, StepOutput};
use crate::ledger::Ledger;
use crate::request::Request;
use crate::result::{ProblemResult, Stopped};
use crate::strategy::{self, Scoring, Strategy};
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
    pub answers_of_strategy: u32,
    /// Chains in the middle of a step that were dropped since the scheduler last looked.
    pub dropped: Vec<ChainId>,
    /// Batches at the scorer that have steps of this problem.
    pub batches: usize,
    /// The lists of changed problems that have this one, a bit each.
    pub noted: u8,
    /// Whether another problem was in flight at any time since the start.
    pub ran_beside_others: bool,
    /// Chains that were given up for want of memory, whatever the strategy did with them then.
    pub lost_to_memory: usize,
    /// Verdicts that scorers lost.
    pub lost_verdicts: usize,
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
    pub outstanding: usize,
}

/// Steps begun before the strategy asked for them.
#[derive(Default)]
pub(super) struct Speculation {
    /// How many are being decoded.
    pub running: usize,
    /// Steps that closed before they were asked for, and have just been asked for.
    pub arrived: Vec<(NodeId, StepOutput)>,
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
    pub prompt_read: bool,
    /// Rows that it has in a pass, and the passes up to where these are charged.
    pub rows: usize,
    pub charged: Passes,
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
                let too_long = error.is_too_long();
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
        Ok(Ok(Self {
            index,
            epoch,
            request,
            strategy,
            scoring,
            stage: Stage::Searching,
            tree: ChainTree::after(thought),
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
            noted: 0,
            ran_beside_others: false,
            lost_to_memory: 0,
            lost_verdicts: 0,
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

    /// Charges the passes since the last call. In each of them the problem had the number of rows
    /// that was noted then. To be called before a pass in which that number has changed.
    pub fn charge_passes(&mut self, passes: Passes) {
        let bill = &mut self.bill;
        if bill.rows > 0 {
            bill.ledger.forward_passes += passes.count - bill.charged.count;
            let seconds = passes.seconds_a_row - bill.charged.seconds_a_row;
            bill.ledger.seconds.generate += bill.rows as f64 * seconds;
        }
        bill.charged = passes;
        bill.rows = self.steps.growing + self.speculation.running;
    }

    /// Whether the strategy is to be asked.
    pub fn has_news(&self) -> bool {
        let round_is_over = self.steps.outstanding == 0 || !self.strategy.in_rounds();
        !self.steps.unreported.is_empty() && round_is_over
    }
}
