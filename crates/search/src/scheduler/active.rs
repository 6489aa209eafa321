//! The state of a problem in flight.

use std::collections::VecDeque;
use std::ops::{Index, IndexMut};
use std::time::Duration;

use super::Context;
use super::budget::TokenBudget;
use super::contents::{ContentId, Contents};
use super::policy::{Policy, Votes};
use super::values::Rollouts;
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
    /// The strategy is done and complete chains wait for their scores.
    FinalScoring,
    Done,
}

/// A problem in flight: its request, its tree and its unfinished work.
pub(super) struct ActiveProblem {
    pub index: usize,
    /// Distinguishes this start of the problem from an earlier start that was set back.
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
    /// The values by rollouts, if the search has them.
    pub rollouts: Option<Rollouts>,
    /// A bit set of the lists of changed problems ([`Look`](super::live::Look)) that contain this
    /// problem.
    pub noted: u8,
    /// Whether another problem was in flight at any time since this problem started.
    pub ran_with_others: bool,
    pub outcome: Outcome,
}

/// The losses of a search, and the reason if it ended early.
#[derive(Default)]
pub(super) struct Outcome {
    /// The number of chains that ended because memory ran out, whatever the strategy did with them.
    pub lost_to_memory: usize,
    /// The number of steps whose verdict was lost because a checker failed.
    pub lost_verdicts: usize,
    /// The reason why the search ended before its strategy was done.
    pub stopped: Option<Stopped>,
    /// The number of chains that a stop at a verified chain left unfinished; `None` without a stop.
    pub spared_chains: Option<usize>,
    /// The reason why the problem failed.
    pub error: Option<String>,
}

/// The steps that a strategy asked for, by how far they have come.
#[derive(Default)]
pub(super) struct Steps {
    /// Steps to start or resume, in this order.
    pub queue: VecDeque<NodeId>,
    /// The number of steps that are being decoded and were asked for.
    pub growing: usize,
    /// Closed or paused steps, or complete chains after the search, that wait for the scorer.
    pub ready: Vec<NodeId>,
    /// Steps that are done, for the strategy's next wake-up.
    pub unreported: Vec<NodeId>,
    /// Complete chains that the verifier has to judge before they are scored or reported.
    pub unverified: Vec<NodeId>,
    /// The number of batches that the verifier has not answered yet.
    pub verifying: usize,
    /// The number of steps that were asked for and are not in `unreported` yet.
    pub outstanding: usize,
    /// The number of speculative steps, decoded before the strategy asks for them.
    pub ahead: usize,
    /// Speculative steps that had closed when the strategy asked for them, by their new nodes.
    pub arrived: Vec<(NodeId, StepOutput)>,
    /// Chains of speculative steps that a node took over, for the scheduler's table of owners.
    pub adopted: Vec<(ChainId, NodeId)>,
    /// Chains released in the middle of a step, to be removed from the scheduler's table of owners.
    pub dropped: Vec<ChainId>,
}

impl Steps {
    /// Returns the number of chains that the problem has in a forward pass, speculative ones
    /// included.
    pub(super) fn rows(&self) -> usize {
        self.growing + self.ahead
    }

    /// Queues a step that is done for the strategy's next wake-up.
    pub(super) fn report(&mut self, node: NodeId) {
        self.outstanding -= 1;
        self.unreported.push(node);
    }
}

/// The costs of a problem, and the part of them that the run's ledger does not contain yet.
#[derive(Default)]
pub(super) struct Bill {
    pub ledger: Ledger,
    /// Sampled tokens that the run's ledger does not contain yet.
    pub generated: u64,
    /// Tokens that closed thoughts and that the run's ledger does not contain yet.
    pub forced: u64,
    /// Sampled tokens of thoughts that the run's ledger does not contain yet.
    pub thought: u64,
    /// Reused tokens that the run's ledger does not contain yet.
    pub reused: u64,
    /// Operations of the generator that the run's ledger does not contain yet.
    pub flops: u64,
    /// The generator's part of [`Ledger::least`] that the run's ledger does not contain yet.
    pub least: u64,
    pub prompt_tokens: usize,
    pub prompt_read: bool,
    /// The number of chains of the problem in each pass after `charged`.
    pub rows: usize,
    /// The generator's passes up to the last charge.
    pub charged: Passes,
    pub started: Duration,
}

/// Running totals over the generator's forward passes.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Passes {
    pub count: u64,
    /// The sum over all passes of the seconds of a pass divided by its rows.
    pub seconds_a_row: f64,
    /// The sum over all passes of the operations of a pass divided by its rows.
    pub flops_a_row: f64,
}

impl ActiveProblem {
    /// Opens the problem in both models. The inner error is the result of a problem that is
    /// refused.
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
        let rollouts = Rollouts::of(&request.settings.search);
        let scoring = strategy.scoring();
        let scoring = rollouts
            .as_ref()
            .map_or(scoring, |rollouts| rollouts.scoring(scoring));
        if scoring == Scoring::EveryStep && !has_scorer {
            let what = "a strategy that scores every step";
            let error = ConfigError::NeedsScorer { what };
            return refuse(request, error.to_string(), false);
        }
        let settings = &request.settings;
        let verifier = cx.models.verifier.as_deref();
        let verifier = verifier.filter(|verifier| verifier.name_for(&request.problem).is_some());
        let is_open = verifier.is_some_and(|verifier| verifier.is_open(&request.problem));
        if settings.search.uses_outcomes() && !is_open {
            let name = verifier.and_then(|verifier| verifier.name_for(&request.problem));
            let name = name.unwrap_or("math").to_owned();
            let error = ConfigError::NeedsOpenVerifier { name };
            return refuse(request, error.to_string(), false);
        }
        let asks_verifier =
            settings.search.uses_outcomes() || (verifier.is_some() && strategy.asks_verifier());
        let generator = &mut cx.models.generator;
        let opened = match generator.open(&request.problem, key, &settings.effective_generator()) {
            Ok(opened) => opened,
            Err(error @ GenError::Lost(_)) => return Err(error.into()),
            Err(error) => {
                let too_long = error.is_too_long();
                return refuse(request, error.to_string(), too_long);
            }
        };
        // A generator that cannot continue given steps returns none of them. Searching from the
        // bare problem would answer another question.
        if let Err(what) = opened.check_given(&request.problem) {
            cx.models.generator.release(opened.chain);
            let error = GenError::Failed(format!("it cannot continue from {what}").into());
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
        // A prompt may open a thought: text counts as a stated answer only after that thought.
        let thought = opened.thought.clone().unwrap_or_default();
        let root = NodeResources {
            chain: Some(opened.chain),
            content: Some(ContentId::ROOT),
            unsettled: thought.clone(),
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
                asks_verifier,
                is_verified: false,
            },
            stage: Stage::Searching,
            tree: ChainTree::after(&thought),
            resources: Resources::new(root),
            contents: Contents::new(handle),
            steps: Steps::default(),
            bill: Bill {
                prompt_tokens: opened.prompt_tokens,
                started,
                ..Bill::default()
            },
            budget,
            rollouts,
            noted: 0,
            ran_with_others: false,
            outcome: Outcome::default(),
        };
        live.take_given(opened.given, opened.begun.is_empty(), cx);
        Ok(Ok(live))
    }

    pub(super) fn config(&self) -> &SearchConfig {
        &self.request.settings.search
    }

    /// Charges the passes since the last call to the problem, each with `bill.rows` rows. Must be
    /// called before the first pass with another number of rows.
    pub(super) fn charge_passes(&mut self, passes: Passes) {
        let bill = &mut self.bill;
        if bill.rows > 0 {
            // Differences of running totals: the cost of this update does not grow with the number
            // of passes.
            bill.ledger.forward_passes += passes.count - bill.charged.count;
            let seconds = passes.seconds_a_row - bill.charged.seconds_a_row;
            bill.ledger.seconds.generate += bill.rows as f64 * seconds;
            let flops = passes.flops_a_row - bill.charged.flops_a_row;
            bill.ledger.executed.generate += (bill.rows as f64 * flops) as u64;
        }
        bill.charged = passes;
        bill.rows = self.steps.rows();
    }

    /// Returns the seconds from one pass to the next since the problem has been in flight; `None`
    /// before the first pass. `passes` is the number of all passes.
    pub(super) fn seconds_a_pass(&self, now: Duration, passes: u64) -> Option<f64> {
        let bill = &self.bill;
        let uncharged = if bill.rows > 0 {
            passes - bill.charged.count
        } else {
            0
        };
        let own = bill.ledger.forward_passes + uncharged;
        (own > 0).then(|| self.seconds(now) / own as f64)
    }

    /// Returns the seconds for which the problem has been in flight.
    pub(super) fn seconds(&self, now: Duration) -> f64 {
        now.saturating_sub(self.bill.started).as_secs_f64()
    }

    /// Whether the strategy has to be woken. A strategy in rounds waits for the last step of the
    /// round.
    pub(super) fn has_news(&self) -> bool {
        let round_is_over = self.steps.outstanding == 0 || !self.policy.strategy.in_rounds();
        !self.steps.unreported.is_empty() && round_is_over
    }
}

/// The resources of all nodes of a tree, by node number.
pub(super) struct Resources(Vec<NodeResources>);

impl Resources {
    pub(super) fn new(root: NodeResources) -> Self {
        Self(vec![root])
    }

    /// Adds the resources of the next node. Nodes are added in the order of the tree, which numbers
    /// both.
    pub(super) fn push(&mut self, node: NodeResources) {
        self.0.push(node);
    }

    /// Returns all nodes in order of age, the root first. The iterator borrows nothing, so a loop
    /// over it may change the resources.
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

/// The resources that a node holds in the models.
#[derive(Debug, Default)]
pub(super) struct NodeResources {
    pub chain: Option<ChainId>,
    /// The text of the chain up to this node, once its step closed or paused.
    pub content: Option<ContentId>,
    /// Bytes of the step's last token that belong to the next step.
    pub leftover: Vec<u8>,
    /// The tail of the chain's text in which an answer or a thought may have begun. It is read again
    /// with the next step.
    pub unsettled: String,
    /// Whether the step's tokens decode to exactly the step's text.
    pub tokens_match_text: bool,
    pub mode: DecodeMode,
    /// The most tokens of the step; after the step closed, the tokens left for its descendants.
    pub token_limit: usize,
    /// The number of steps down to this node that are thoughts and nothing else.
    pub thought_steps: u32,
    /// Whether a child's step has closed, for which the generator had to read this step's last token.
    pub continued: bool,
    /// The number of children that are still to be started from `chain`.
    pub unstarted: usize,
    /// The number of children whose steps have neither closed nor paused.
    pub unclosed: usize,
    /// The step whose rollout this step belongs to; `None` for a step of the strategy.
    pub rollout: Option<NodeId>,
    /// Whether the step is done and waits for its siblings, to be merged with equal ones.
    pub waits: bool,
    /// The step of the first child, begun before the strategy asked for that child.
    pub speculative: Option<SpeculativeStep>,
}

/// A step that is decoded before the strategy asks for it.
#[derive(Debug)]
pub(super) struct SpeculativeStep {
    pub chain: ChainId,
    pub mode: DecodeMode,
    /// The finished step; `None` while it is being decoded.
    pub step: Option<StepOutput>,
}
