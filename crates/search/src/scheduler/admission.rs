//! Which problems are in flight. They are let in while there is room, ended when they are overdue,
//! and set back when memory is too short for all.

use std::collections::VecDeque;

use super::Scheduler;
use super::active::ActiveProblem;
use super::live::overdue;
use crate::error::SearchError;
use crate::event::Event;
use crate::request::{Intake, Next, Request};
use crate::result::ProblemResult;

/// Where requests come from: the intake, and the problems that were set back.
pub(super) struct Requests<'s> {
    pub intake: &'s mut dyn Intake,
    pub closed: bool,
    /// Problems to begin again, before any new one.
    set_back: VecDeque<(usize, Request)>,
    next_index: usize,
    next_epoch: u64,
}

impl<'s> Requests<'s> {
    pub(super) fn new(intake: &'s mut dyn Intake) -> Self {
        Self {
            intake,
            closed: false,
            set_back: VecDeque::new(),
            next_index: 0,
            next_epoch: 0,
        }
    }

    fn next(&mut self, idle: bool) -> Option<(usize, Request)> {
        if let Some(again) = self.set_back.pop_front() {
            return Some(again);
        }
        if self.closed {
            return None;
        }
        match self.intake.next(idle) {
            Next::Request(request) => {
                self.next_index += 1;
                Some((self.next_index - 1, *request))
            }
            Next::Waiting => None,
            Next::Closed => {
                self.closed = true;
                None
            }
        }
    }
}

/// How many problems may be in flight.
pub(super) struct Room {
    in_flight: usize,
    /// Problems that memory is believed to hold at once; never above `in_flight`.
    limit: usize,
    /// Problems done since the limit was last changed.
    results_since_change: usize,
    /// A problem that must be alone until it is done.
    exclusive: Option<usize>,
    /// Whether a step is waiting for memory.
    pub blocked: bool,
}

impl Room {
    pub(super) fn new(in_flight: usize) -> Self {
        let in_flight = in_flight.max(1);
        Self {
            in_flight,
            limit: in_flight,
            results_since_change: 0,
            exclusive: None,
            blocked: false,
        }
    }

    /// Whether another problem may join so many.
    fn has_place(&self, live: usize) -> bool {
        live == 0 || (live < self.limit && !self.blocked && self.exclusive.is_none())
    }

    /// Takes notice of a problem that is done.
    pub(super) fn note_result(&mut self, index: usize) {
        if self.exclusive == Some(index) {
            self.exclusive = None;
        }
        self.results_since_change += 1;
        if self.results_since_change >= 2 * self.limit && self.limit < self.in_flight {
            self.limit += 1;
            self.results_since_change = 0;
        }
    }

    /// Takes notice of a problem that was set back, and of the number that is left.
    fn note_set_back(&mut self, index: usize, live: usize) {
        if live == 0 {
            self.exclusive = Some(index);
        } else {
            self.limit = live;
            self.results_since_change = 0;
        }
    }
}

impl Scheduler<'_, '_> {
    /// Lets problems in while there is room. Returns whether one came.
    pub(super) fn admit(&mut self) -> Result<bool, SearchError> {
        let mut admitted = false;
        while !self.stopped && self.room.has_place(self.live.len()) {
            let is_idle = self.live.is_empty() && self.batches.given.is_empty();
            let Some((index, request)) = self.requests.next(is_idle) else {
                break;
            };
            admitted = true;
            self.begin(index, request)?;
        }
        Ok(admitted)
    }

    fn begin(&mut self, index: usize, request: Request) -> Result<(), SearchError> {
        self.cx.event(Event::ProblemStarted {
            index,
            problem: &request.problem,
        });
        let now = self.cx.models.clock.now();
        if let Some(stopped) = overdue(request.cancel.as_ref(), request.deadline, now) {
            let mut result = ProblemResult::unsearched(index, request.problem);
            result.stopped = Some(stopped);
            self.hand_over(result);
            return Ok(());
        }
        let epoch = self.requests.next_epoch;
        self.requests.next_epoch += 1;
        match ActiveProblem::open(index, epoch, request, &mut self.cx)? {
            Ok(live) => {
                let live = self.live.insert(index, live);
                live.begin(&mut self.cx);
                self.conclude_idle(index);
            }
            Err(refused) => self.hand_over(*refused),
        }
        Ok(())
    }

    /// Ends the problems that were cancelled or whose deadline is over. Their memory is free at
    /// once. Returns whether there was one.
    pub(super) fn end_overdue(&mut self) -> bool {
        let due = self.live.overdue(self.cx.models.clock.now());
        for &(index, stopped) in &due {
            self.end(index, |live, cx| live.stop(stopped, cx));
        }
        !due.is_empty()
    }

    /// Nothing grows, nothing can be scored, no strategy has news: every queued step waits for
    /// memory that only other waiting chains hold.
    ///
    /// The youngest problem is set back, which leaves the results of all others as they would be
    /// alone. A problem left alone, but in a state that company brought it to, begins again on its
    /// own. A problem that was alone from its start has the caches of its idle chains forgotten, to
    /// be read again; only where that is not enough does it give up chains.
    pub(super) fn break_deadlock(&mut self) {
        let Some((youngest, live)) = self.live.youngest_mut() else {
            return;
        };
        if live.steps.queue.is_empty() {
            // A strategy that waits for nothing has nothing more to say.
            live.conclude(&mut self.cx);
            return;
        }
        if live.ran_beside_others {
            self.set_problem_back(youngest);
            self.room.note_set_back(youngest, self.live.len());
            return;
        }
        if !live.forget_idle(&mut self.cx) {
            live.give_up_worst(&mut self.cx);
        }
    }

    fn set_problem_back(&mut self, index: usize) {
        let Some(mut live) = self.live.remove(index) else {
            return;
        };
        live.release_all(&mut self.cx);
        live.bill_run(&mut self.summary.ledger);
        self.owners.retain(|_, owner| owner.index != index);
        self.summary.restarts += 1;
        self.cx.event(Event::ProblemRestarted { index });
        self.requests.set_back.push_front((index, live.request));
    }
}
