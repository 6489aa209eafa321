//! One loop for all problems in flight.

mod budget;
mod conclude;
mod consensus;
mod contents;
mod live;
mod pruning;
mod resources;
mod scoring;
mod speculative;

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::ops::ControlFlow;
use std::time::Duration;

use crate::choose::Answers;
use crate::config::SearchConfig;
use crate::error::{ConfigError, GenError, ScoreError, SearchError};
use crate::event::Event;
use crate::generator::{ChainId, Generator};
use crate::ledger::{Clock, Ledger};
use crate::problem::Problem;
use crate::result::{ProblemResult, RunSummary};
use crate::scorer::Scorer;
use crate::strategy::Strategy;
use crate::tree::NodeId;
use live::{Live, Stage};

/// What a run works with.
#[allow(missing_debug_implementations, reason = "trait objects")]
pub struct Models<'a> {
    /// Proposes steps.
    pub generator: &'a mut dyn Generator,
    /// Judges them; without one nothing is scored, and most strategies are refused.
    pub scorer: Option<&'a mut dyn Scorer>,
    /// Finds and compares final answers.
    pub answers: &'a dyn Answers,
    /// Where the seconds in the ledger come from.
    pub clock: &'a dyn Clock,
}

/// Makes the strategy for a problem.
pub type Factory<'a> = dyn Fn(&Problem) -> Result<Box<dyn Strategy>, ConfigError> + 'a;

/// Solves `problems` as `config` says, up to `config.in_flight` at once; they are pulled from the
/// iterator when there is room. `observe` sees everything as it happens, `deliver` takes each
/// result as soon as its problem is done (not always in input order) and may stop the run.
///
/// # Errors
/// The configuration is invalid or needs a scorer that is not there, or a model failed. What is
/// wrong with one problem alone is in its result instead.
pub fn run(
    models: Models<'_>,
    config: &SearchConfig,
    problems: impl IntoIterator<Item = Problem>,
    observe: &mut dyn FnMut(Event<'_>),
    deliver: &mut dyn FnMut(ProblemResult) -> ControlFlow<()>,
) -> Result<RunSummary, SearchError> {
    let has_scorer = models.scorer.is_some();
    let factory = |_: &Problem| config.build(has_scorer);
    run_with(models, config, &factory, problems, observe, deliver)
}

/// [`run`] with strategies of one's own. Of `config`, everything but the choice of strategy holds.
///
/// # Errors
/// As [`run`], and if a strategy asks for the impossible.
pub fn run_with(
    models: Models<'_>,
    config: &SearchConfig,
    factory: &Factory<'_>,
    problems: impl IntoIterator<Item = Problem>,
    observe: &mut dyn FnMut(Event<'_>),
    deliver: &mut dyn FnMut(ProblemResult) -> ControlFlow<()>,
) -> Result<RunSummary, SearchError> {
    config.validate()?;
    let started = models.clock.now();
    Scheduler {
        models,
        config,
        factory,
        observe,
        deliver,
        live: BTreeMap::new(),
        owners: HashMap::new(),
        set_back: VecDeque::new(),
        limit: config.in_flight,
        calm: 0,
        exclusive: None,
        blocked: false,
        stopped: false,
        next_index: 0,
        summary: RunSummary::default(),
        started,
    }
    .drive(&mut problems.into_iter())
}

/// Whose step a chain in the middle of a step is.
#[derive(Debug, Clone, Copy)]
struct Owner {
    index: usize,
    /// The step's node or, if it is written ahead, the one that it follows.
    node: NodeId,
    speculative: bool,
}

impl Owner {
    fn step(index: usize, node: NodeId) -> Self {
        Self {
            index,
            node,
            speculative: false,
        }
    }

    fn speculative(index: usize, node: NodeId) -> Self {
        Self {
            index,
            node,
            speculative: true,
        }
    }
}

struct Scheduler<'m, 'a> {
    models: Models<'m>,
    config: &'a SearchConfig,
    factory: &'a Factory<'a>,
    observe: &'a mut dyn FnMut(Event<'_>),
    deliver: &'a mut dyn FnMut(ProblemResult) -> ControlFlow<()>,
    /// Problems in flight by their position in the input; the first is the oldest.
    live: BTreeMap<usize, Live>,
    /// Whose step each active chain is.
    owners: HashMap<ChainId, Owner>,
    /// Problems to begin again, before any new one.
    set_back: VecDeque<(usize, Problem)>,
    /// Problems that memory is believed to hold at once; never above `config.in_flight`.
    limit: usize,
    /// Problems done since the limit was last changed.
    calm: usize,
    /// A problem that must be alone until it is done.
    exclusive: Option<usize>,
    /// Whether a step is waiting for memory.
    blocked: bool,
    stopped: bool,
    next_index: usize,
    summary: RunSummary,
    started: Duration,
}

impl Scheduler<'_, '_> {
    fn drive(
        mut self,
        problems: &mut dyn Iterator<Item = Problem>,
    ) -> Result<RunSummary, SearchError> {
        let mut outcome = Ok(true);
        while matches!(outcome, Ok(true)) && !self.stopped {
            outcome = self.turn(problems);
        }
        // Stopped or failed: nothing stays behind in the models.
        for (_, mut live) in std::mem::take(&mut self.live) {
            live.release_all(&mut self.models);
            live.bill_run(&mut self.summary.ledger);
        }
        self.update_clock();
        outcome.map(|_| self.summary)
    }

    /// One turn of the loop. Returns whether there may be more to do.
    fn turn(&mut self, problems: &mut dyn Iterator<Item = Problem>) -> Result<bool, SearchError> {
        let admitted = self.admit(problems)?;
        if self.live.is_empty() {
            return Ok(admitted);
        }
        let started = self.start_steps();
        let passed = self.pass()?;
        let scored = self.score_ready()?;
        let woken = self.wake()?;
        if !(admitted || started || passed || scored || woken) {
            self.break_deadlock();
        }
        Ok(true)
    }

    /// Lets problems in while there is room. Returns whether one came.
    fn admit(&mut self, problems: &mut dyn Iterator<Item = Problem>) -> Result<bool, SearchError> {
        let mut admitted = false;
        while !self.stopped && self.has_room() {
            let (index, problem) = match self.set_back.pop_front() {
                Some(again) => again,
                None => match problems.next() {
                    Some(problem) => {
                        self.next_index += 1;
                        (self.next_index - 1, problem)
                    }
                    None => break,
                },
            };
            admitted = true;
            self.begin(index, problem)?;
        }
        if self.live.len() > 1 {
            for live in self.live.values_mut() {
                live.ran_beside_others = true;
            }
        }
        Ok(admitted)
    }

    fn has_room(&self) -> bool {
        self.live.is_empty()
            || (self.live.len() < self.limit && !self.blocked && self.exclusive.is_none())
    }

    fn begin(&mut self, index: usize, problem: Problem) -> Result<(), SearchError> {
        let now = self.models.clock.now();
        let strategy = (self.factory)(&problem)?;
        (self.observe)(Event::ProblemStarted {
            index,
            problem: &problem,
        });
        match Live::open(index, problem, strategy, self.config, &mut self.models, now)? {
            Ok(live) => {
                let live = self.live.entry(index).or_insert(live);
                let start = live.start;
                let actions = live.strategy.begin(start);
                live.apply(actions, self.config, &mut self.models, self.observe)?;
                self.conclude_idle(index);
            }
            Err(refused) => self.hand_over(*refused),
        }
        Ok(())
    }

    /// Starts queued steps while memory lasts, oldest problem first. Returns whether one started.
    ///
    /// Within a problem, steps start strictly in order: none overtakes one that waits for memory,
    /// so that what a problem gets does not depend on timing. Steps written ahead never make
    /// another one wait.
    fn start_steps(&mut self) -> bool {
        let mut started = self.start_queued();
        if self.blocked && self.drop_all_speculative() {
            started |= self.start_queued();
        }
        if self.config.speculate && !self.blocked {
            for (&index, live) in &mut self.live {
                for (chain, node) in live.start_speculative(&mut self.models) {
                    self.owners.insert(chain, Owner::speculative(index, node));
                }
            }
        }
        started
    }

    fn start_queued(&mut self) -> bool {
        let mut started = false;
        self.blocked = false;
        for (&index, live) in &mut self.live {
            loop {
                match live.start_next(&mut self.models, &mut self.summary.ledger) {
                    live::Start::Started(chain, node) => {
                        self.owners.insert(chain, Owner::step(index, node));
                        started = true;
                    }
                    live::Start::NoMemory => {
                        self.blocked = true;
                        break;
                    }
                    live::Start::NothingQueued => break,
                }
            }
        }
        started
    }

    /// Throws away all that is written ahead. Returns whether there was something.
    fn drop_all_speculative(&mut self) -> bool {
        let mut dropped = false;
        for live in self.live.values_mut() {
            for at in 0..live.resources.len() {
                if live.resources[at].speculative.is_some() {
                    live.drop_speculative(NodeId(at as u32), &mut self.models);
                    dropped = true;
                }
            }
        }
        self.book();
        dropped
    }

    /// Takes over from the problems what concerns the run: tokens sampled, chains that changed
    /// hands or were dropped.
    fn book(&mut self) {
        for (&index, live) in &mut self.live {
            live.bill_run(&mut self.summary.ledger);
            for (chain, node) in live.adopted.drain(..) {
                self.owners.insert(chain, Owner::step(index, node));
            }
            for chain in live.dropped.drain(..) {
                self.owners.remove(&chain);
            }
        }
    }

    /// One forward pass over everything that grows. Returns whether there was one.
    fn pass(&mut self) -> Result<bool, SearchError> {
        let rows = self.models.generator.active();
        if rows == 0 {
            return Ok(false);
        }
        if let Some(scorer) = self.models.scorer.as_deref_mut() {
            scorer.evict_borrowed();
        }
        let before = self.models.clock.now();
        let mut closed = self.models.generator.pass()?;
        let seconds = self.seconds_since(before);

        for live in self.live.values_mut() {
            let own = live.growing + live.speculative_running;
            if own > 0 {
                live.ledger.forward_passes += 1;
                live.ledger.seconds.generate += seconds * own as f64 / rows as f64;
            }
        }
        self.summary.ledger.forward_passes += 1;
        self.summary.ledger.seconds.generate += seconds;
        self.note_memory();

        // Steps written ahead first: what closes after them may throw them away.
        let owners = &self.owners;
        closed.sort_by_key(|step| {
            !owners
                .get(&step.chain)
                .is_some_and(|owner| owner.speculative)
        });
        for step in closed {
            let owner = self.owners.remove(&step.chain);
            let found = owner.and_then(|owner| Some((self.live.get_mut(&owner.index)?, owner)));
            let Some((live, owner)) = found else {
                let what = format!("a step closed for {:?}, which was not growing", step.chain);
                return Err(SearchError::BadStep(what));
            };
            if owner.speculative {
                live.close_speculative(owner.node, step);
                continue;
            }
            live.growing -= 1;
            live.close(
                owner.node,
                step,
                self.config.max_steps,
                &mut self.models,
                self.observe,
            );
        }
        self.book();

        self.update_clock();
        (self.observe)(Event::Pass {
            rows,
            in_flight: self.live.len(),
            ledger: &self.summary.ledger,
        });
        Ok(true)
    }

    /// Asks the strategies of problems with news. Returns whether there was one.
    fn wake(&mut self) -> Result<bool, SearchError> {
        let news: Vec<usize> = self
            .live
            .iter()
            .filter(|(_, live)| live.has_news() || live.stage == Stage::Done)
            .map(|(&index, _)| index)
            .collect();
        for &index in &news {
            let before = self.models.clock.now();
            if let Some(live) = self.live.get_mut(&index) {
                live.wake(self.config, &mut self.models, self.observe)?;
                live.ledger.seconds.search +=
                    self.models.clock.now().saturating_sub(before).as_secs_f64();
            }
            self.book();
            self.conclude_idle(index);
            if self.stopped {
                break;
            }
        }
        Ok(!news.is_empty())
    }

    /// Turns a problem that needs nothing more into its result.
    fn conclude_idle(&mut self, index: usize) {
        let done = |live: &Live| live.stage == Stage::Done;
        if !self.live.get(&index).is_some_and(done) {
            return;
        }
        if let Some(live) = self.live.remove(&index) {
            let result =
                conclude::result(live, self.config, self.models.answers, self.models.clock);
            self.hand_over(result);
        }
    }

    fn hand_over(&mut self, result: ProblemResult) {
        self.summary.problems += 1;
        self.summary.failed += usize::from(result.error.is_some());
        self.summary.answered += usize::from(result.answer.is_some());
        if self.exclusive == Some(result.index) {
            self.exclusive = None;
        }
        self.calm += 1;
        if self.calm >= 2 * self.limit && self.limit < self.config.in_flight {
            self.limit += 1;
            self.calm = 0;
        }
        (self.observe)(Event::ProblemDone { result: &result });
        if (self.deliver)(result).is_break() {
            self.stopped = true;
        }
    }

    /// Nothing grows, nothing can be scored, no strategy has news: every queued step waits for
    /// memory that only other waiting chains hold.
    ///
    /// The youngest problem is set back, which leaves the results of all others as they would be
    /// alone. A problem left alone, but in a state that company brought it to, begins again on its
    /// own. Only a problem that was alone from its start gives up chains.
    fn break_deadlock(&mut self) {
        let Some((&youngest, live)) = self.live.iter_mut().next_back() else {
            return;
        };
        if live.queue.is_empty() {
            // A strategy that waits for nothing has nothing more to say.
            live.conclude(&mut self.models, self.observe);
            return;
        }
        if live.ran_beside_others {
            self.set_back(youngest);
            if self.live.is_empty() {
                self.exclusive = Some(youngest);
            } else {
                self.limit = self.live.len();
                self.calm = 0;
            }
            return;
        }
        live.give_up_worst(self.config, &mut self.models, self.observe);
    }

    fn set_back(&mut self, index: usize) {
        let Some(mut live) = self.live.remove(&index) else {
            return;
        };
        live.release_all(&mut self.models);
        live.bill_run(&mut self.summary.ledger);
        self.owners.retain(|_, owner| owner.index != index);
        self.summary.restarts += 1;
        (self.observe)(Event::ProblemRestarted { index });
        self.set_back.push_front((index, live.problem));
    }

    fn note_memory(&mut self) {
        let used = self.models.generator.memory().used_bytes
            + self
                .models
                .scorer
                .as_ref()
                .map_or(0, |scorer| scorer.memory().used_bytes);
        let ledger: &mut Ledger = &mut self.summary.ledger;
        ledger.peak_kv_bytes = ledger.peak_kv_bytes.max(used);
    }

    fn seconds_since(&self, moment: Duration) -> f64 {
        self.models.clock.now().saturating_sub(moment).as_secs_f64()
    }

    fn update_clock(&mut self) {
        self.summary.elapsed = self.seconds_since(self.started);
        let seconds = &mut self.summary.ledger.seconds;
        seconds.search = (self.summary.elapsed - seconds.generate - seconds.score).max(0.0);
    }
}

/// An error that concerns one problem alone, as text; a failure of the model itself goes on.
fn refusal_of_generator(error: GenError) -> Result<String, SearchError> {
    match error {
        GenError::Failed(_) => Err(error.into()),
        GenError::PromptTooLong { .. } | GenError::Prompt(_) => Ok(error.to_string()),
    }
}

fn refusal_of_scorer(error: ScoreError) -> Result<String, SearchError> {
    match error {
        ScoreError::Failed(_) => Err(error.into()),
        ScoreError::TooLong { .. } | ScoreError::Prompt(_) | ScoreError::NoMemory { .. } => {
            Ok(error.to_string())
        }
    }
}
