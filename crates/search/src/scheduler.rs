//! The scheduler: one loop that drives all problems in flight.

mod actions;
mod active;
mod admission;
mod budget;
mod contents;
mod ending;
mod given;
mod live;
mod policy;
mod problem_result;
mod resources;
mod rollouts;
mod scoring;
mod speculative;
mod stating;
mod steps;
mod values;
mod verifying;

use std::collections::HashMap;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::Duration;

use crate::choose::Answers;
use crate::error::SearchError;
use crate::event::Event;
use crate::generator::{ChainId, Generator};
use crate::ledger::{Clock, Executed};
use crate::problem::Problem;
use crate::request::{Intake, Request, RequestList, Settings, StrategyFactory};
use crate::result::{ProblemResult, RunSummary};
use crate::scorer::Scorer;
use crate::tree::NodeId;
use crate::verifier::Verifier;

use active::{ActiveProblem, Passes, Stage};
use admission::{Requests, Room};
use live::{Live, Look};
use scoring::PendingBatches;
use verifying::Waiting;

/// The parts that a run is given: models, answer matching and a clock.
#[allow(missing_debug_implementations, reason = "trait objects")]
pub struct Models<'a> {
    /// The language model that writes steps.
    pub generator: &'a mut dyn Generator,
    /// The source of scores. Without a scorer nothing is scored, and strategies that need scores
    /// are refused.
    pub scorer: Option<&'a mut dyn Scorer>,
    /// The verifier of finished chains. Without one, and for problems that it does not judge, whoever
    /// gets the result compares answers with references.
    pub verifier: Option<&'a mut dyn Verifier>,
    /// Extracts final answers from texts and decides which of them are equal.
    pub answers: &'a dyn Answers,
    /// The source of the ledger's seconds and of the time that deadlines are compared with.
    pub clock: &'a dyn Clock,
}

impl Models<'_> {
    /// Returns the bytes that chains hold in the caches of both models now.
    fn cache_bytes(&self) -> u64 {
        let scorer = self.scorer.as_ref().map(|scorer| scorer.memory());
        self.generator.memory().used_bytes + scorer.map_or(0, |memory| memory.used_bytes)
    }
}

/// The receiver of a run's events and results.
pub trait Sink {
    /// Receives an event, in the order in which events occur.
    fn event(&mut self, event: Event<'_>);

    /// Receives the result of a problem, not always in input order. [`ControlFlow::Break`] ends the
    /// run.
    fn result(&mut self, result: ProblemResult) -> ControlFlow<()>;
}

/// A [`Sink`] that passes events and results to two closures.
pub struct Callbacks<'a> {
    /// Called with every event, in the order in which events occur.
    pub observe: &'a mut dyn FnMut(Event<'_>),
    /// Called with every result; [`ControlFlow::Break`] ends the run.
    pub deliver: &'a mut dyn FnMut(ProblemResult) -> ControlFlow<()>,
}

impl std::fmt::Debug for Callbacks<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Callbacks")
    }
}

impl Sink for Callbacks<'_> {
    fn event(&mut self, event: Event<'_>) {
        (self.observe)(event);
    }

    fn result(&mut self, result: ProblemResult) -> ControlFlow<()> {
        (self.deliver)(result)
    }
}

/// Solves `problems` under `settings`, up to `search.in_flight` at once. Problems are pulled from
/// the iterator when there is room.
///
/// `observe` is called with every event, `deliver` with each result as soon as its problem is done
/// (not always in input order). `deliver` may stop the run.
///
/// # Errors
/// The configuration is invalid or needs a scorer that is missing, or a model is lost. Errors that
/// concern a single problem are in its result instead.
pub fn run(
    models: Models<'_>,
    settings: impl Into<Settings>,
    problems: impl IntoIterator<Item = Problem>,
    observe: &mut dyn FnMut(Event<'_>),
    deliver: &mut dyn FnMut(ProblemResult) -> ControlFlow<()>,
) -> Result<RunSummary, SearchError> {
    let settings = settings.into();
    settings.validate()?;
    let (search, has_scorer) = (settings.search.clone(), models.scorer.is_some());
    // Built once in advance: an invalid configuration fails the run, not each of its problems.
    search.build(has_scorer)?;
    let strategy: StrategyFactory = Arc::new(move |_| search.build(has_scorer));
    run_with(models, settings, strategy, problems, observe, deliver)
}

/// Solves `problems` like [`run`], with a strategy from `strategy` for each of them. All settings
/// apply except the choice of a strategy.
///
/// # Errors
/// The configuration is invalid or a model is lost; errors of a single problem are in its result.
pub fn run_with(
    models: Models<'_>,
    settings: impl Into<Settings>,
    strategy: StrategyFactory,
    problems: impl IntoIterator<Item = Problem>,
    observe: &mut dyn FnMut(Event<'_>),
    deliver: &mut dyn FnMut(ProblemResult) -> ControlFlow<()>,
) -> Result<RunSummary, SearchError> {
    let settings = settings.into();
    settings.validate()?;
    let in_flight = settings.search.in_flight;
    let settings = Arc::new(settings);
    let requests = problems.into_iter().map(move |problem| Request {
        strategy: Some(Arc::clone(&strategy)),
        ..Request::new(problem, Arc::clone(&settings))
    });
    let mut intake = RequestList(requests);
    let mut sink = Callbacks { observe, deliver };
    serve(models, in_flight, &mut intake, &mut sink)
}

/// Solves the requests of `intake` until it is closed, up to `in_flight` problems at once, each
/// under its own settings. The result of a problem does not depend on the other problems in flight.
///
/// # Errors
/// A model is lost or broke its contract. Errors that concern a single problem, invalid settings
/// included, are in its result instead.
pub fn serve<'s>(
    models: Models<'_>,
    in_flight: usize,
    intake: &'s mut dyn Intake,
    sink: &'s mut dyn Sink,
) -> Result<RunSummary, SearchError> {
    let started = models.clock.now();
    let scorer = models.scorer.as_deref();
    let scorer_charged = scorer.map(Scorer::executed).unwrap_or_default();
    Scheduler {
        cx: Context { models, sink },
        requests: Requests::new(intake),
        room: Room::new(in_flight),
        live: Live::default(),
        passes: Passes::default(),
        scorer_charged,
        owners: HashMap::new(),
        batches: PendingBatches::new(),
        unverified: Waiting::new(),
        stopped: false,
        summary: RunSummary::default(),
        started,
    }
    .drive()
}

/// The models and the sink of the run; methods of a problem borrow both together.
struct Context<'m, 's> {
    models: Models<'m>,
    sink: &'s mut dyn Sink,
}

impl Context<'_, '_> {
    fn event(&mut self, event: Event<'_>) {
        self.sink.event(event);
    }

    fn seconds_since(&self, moment: Duration) -> f64 {
        let now = self.models.clock.now();
        now.saturating_sub(moment).as_secs_f64()
    }
}

/// The step that a growing chain belongs to.
#[derive(Debug, Clone, Copy)]
struct Owner {
    index: usize,
    /// The step's node or, if the step is speculative, the node that it follows.
    node: NodeId,
    speculative: bool,
}

impl Owner {
    fn new(index: usize, node: NodeId, speculative: bool) -> Self {
        Self {
            index,
            node,
            speculative,
        }
    }
}

struct Scheduler<'m, 's> {
    cx: Context<'m, 's>,
    requests: Requests<'s>,
    room: Room,
    live: Live,
    passes: Passes,
    /// The scorer's work that was charged, and all work before the run.
    scorer_charged: Executed,
    /// The owner of each growing chain, to route closed steps to their problems.
    owners: HashMap<ChainId, Owner>,
    batches: PendingBatches,
    /// The results and the chains of problems in flight that wait for outcomes.
    unverified: Waiting,
    stopped: bool,
    summary: RunSummary,
    started: Duration,
}

impl Scheduler<'_, '_> {
    fn drive(mut self) -> Result<RunSummary, SearchError> {
        let mut outcome = Ok(true);
        while matches!(outcome, Ok(true)) && !self.stopped {
            outcome = self.turn();
        }
        // After a stop or an error problems may still be in flight. Their chains are released in
        // the models, and their sampled tokens are added to the total.
        for (_, live) in std::mem::take(&mut self.live).iter_mut() {
            live.release_all(&mut self.cx);
            live.bill_run(&mut self.summary.ledger);
        }
        self.update_clock();
        outcome.map(|_| self.summary)
    }

    /// Runs one turn of the loop. Returns whether there may be more to do.
    fn turn(&mut self) -> Result<bool, SearchError> {
        let given = self.score_given();
        let admitted = self.admit()?;
        // Before new steps start: the steps can then use the memory of the problems that end here.
        let ended = self.end_overdue();
        self.close_late_thoughts();
        let verified = self.collect_outcomes(false);
        // Without a problem in flight only scores of given chains and outcomes are pending. Blocking
        // for them is right only if nothing else happened in this turn.
        if self.live.is_empty() {
            let moved = given || admitted || ended || verified;
            let scores = !self.batches.given.is_empty();
            if scores {
                self.collect_scores(!moved)?;
            } else if !moved {
                self.collect_outcomes(true);
            }
            let waits = scores || !self.unverified.is_empty();
            return Ok(moved || waits || !self.requests.closed);
        }
        let started = self.start_steps();
        let passed = self.pass()?;
        let asked = self.verify_ends();
        let scored = self.score_ready()?;
        let woken = self.wake()?;
        // Nothing moved in this turn. Pending scores or outcomes may unblock a problem, so wait for
        // them; without any, all queued steps wait for memory that other waiting chains hold.
        let moved = given || admitted || ended || verified || started || passed || asked;
        if !(moved || scored || woken) {
            if !self.batches.is_empty() {
                self.collect_scores(true)?;
            } else if self.live.iter().any(|(_, live)| live.steps.verifying > 0) {
                self.collect_outcomes(true);
            } else {
                self.break_deadlock();
            }
        }
        Ok(true)
    }

    /// Ends a problem before its strategy is done, and hands its result over.
    fn end(&mut self, index: usize, how: impl FnOnce(&mut ActiveProblem, &mut Context<'_, '_>)) {
        if let Some(live) = self.live.get_mut(index) {
            how(live, &mut self.cx);
        }
        self.book();
        self.conclude_idle(index);
    }

    /// Updates the scheduler's tables from the changed problems: adds sampled tokens to the total,
    /// and follows chains that changed their owner or were dropped.
    fn book(&mut self) {
        for index in self.live.changed(Look::Book) {
            let Some(live) = self.live.get_mut_quietly(index) else {
                continue;
            };
            live.bill_run(&mut self.summary.ledger);
            for (chain, node) in live.steps.adopted.drain(..) {
                self.owners.insert(chain, Owner::new(index, node, false));
            }
            for chain in live.steps.dropped.drain(..) {
                self.owners.remove(&chain);
            }
        }
    }

    /// Wakes the strategies of problems that have steps to report. Returns whether there was such a
    /// problem.
    fn wake(&mut self) -> Result<bool, SearchError> {
        let mut news = self.live.changed(Look::Wake);
        // A problem that is `Done` is due as well: its final scores arrive without news for its
        // strategy.
        news.retain(|&index| {
            let live = self.live.get(index);
            live.is_some_and(|live| live.has_news() || live.stage == Stage::Done)
        });
        for &index in &news {
            let before = self.cx.models.clock.now();
            if let Some(live) = self.live.get_mut(index) {
                live.wake(&mut self.cx);
                live.bill.ledger.seconds.search += self.cx.seconds_since(before);
            }
            self.book();
            self.conclude_idle(index);
            if self.stopped {
                break;
            }
        }
        Ok(!news.is_empty())
    }

    /// Removes a problem that is done, and hands over its result.
    fn conclude_idle(&mut self, index: usize) {
        let stage = self.live.get(index).map(|live| live.stage);
        if stage != Some(Stage::Done) {
            return;
        }
        // Passes are charged lazily: the last ones have to be in the ledger before it is handed
        // over.
        if let Some(mut live) = self.live.remove(index) {
            live.charge_passes(self.passes);
            let result = problem_result::result(live, &self.cx);
            self.verify(result);
        }
    }

    fn hand_over(&mut self, result: ProblemResult) {
        self.summary.problems += 1;
        self.summary.failed += usize::from(result.error.is_some());
        self.summary.stopped += usize::from(result.stopped.is_some());
        self.summary.ledger.width += result.ledger.width;
        self.summary.memory_limited += usize::from(result.lost_to_memory > 0);
        self.summary.checker_limited += usize::from(result.lost_verdicts > 0);
        self.summary.answered += usize::from(result.answer.is_some());
        self.room.note_result(result.index);
        let cache_bytes = self.cx.models.cache_bytes();
        self.cx.event(Event::ProblemDone {
            result: &result,
            cache_bytes,
        });
        if self.cx.sink.result(result).is_break() {
            self.stopped = true;
        }
    }

    fn note_memory(&mut self) {
        let peak = &mut self.summary.ledger.peak_kv_bytes;
        *peak = self.cx.models.cache_bytes().max(*peak);
    }

    fn update_clock(&mut self) {
        self.summary.elapsed = self.cx.seconds_since(self.started);
        let seconds = &mut self.summary.ledger.seconds;
        // A scorer that answers later works while the generator does: the two phases may overlap
        // and together exceed the time that elapsed.
        seconds.search = (self.summary.elapsed - seconds.generate - seconds.score).max(0.0);
    }
}
