//! Admission: problems start while there is room, end when they are overdue, and are set back when
//! memory is too short for all of them.

use std::collections::VecDeque;

use super::Scheduler;
use super::active::ActiveProblem;
use super::live::overdue;
use crate::error::SearchError;
use crate::event::Event;
use crate::generator::ChainId;
use crate::request::{Intake, Next, Request};
use crate::result::ProblemResult;

/// The source of requests: the intake, and the problems that were set back.
pub(super) struct Requests<'s> {
    pub intake: &'s mut dyn Intake,
    pub closed: bool,
    /// Problems to start again, before any new problem.
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
        // Problems that were set back come first: if new problems came before them, they might
        // never run.
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

/// The number of problems that may be in flight, adapted to memory.
pub(super) struct Room {
    in_flight: usize,
    /// The number of problems for which memory is expected to suffice; at most `in_flight`.
    limit: usize,
    /// The number of results since `limit` changed.
    results_since_change: usize,
    /// The index of a problem that must run without others until it is done.
    exclusive: Option<usize>,
    /// Whether a queued step waits for memory.
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

    /// Whether another problem may start while `live` problems are in flight.
    fn has_place(&self, live: usize) -> bool {
        // With no problem in flight nothing would free memory later, so the first problem always
        // starts.
        live == 0 || (live < self.limit && !self.blocked && self.exclusive.is_none())
    }

    /// Records that a problem is done. Enough results without a problem set back raise the limit.
    pub(super) fn note_result(&mut self, index: usize) {
        if self.exclusive == Some(index) {
            self.exclusive = None;
        }
        self.results_since_change += 1;
        // The limit grows slowly: if it is too high, a problem is set back and all its work is
        // lost.
        if self.results_since_change >= 2 * self.limit && self.limit < self.in_flight {
            self.limit += 1;
            self.results_since_change = 0;
        }
    }

    /// Records that a problem was set back while `live` others stayed in flight.
    fn note_set_back(&mut self, index: usize, live: usize) {
        // No other problem can free memory for this one. It starts again and no other problem may
        // join, so that it ends as it would by itself.
        if live == 0 {
            self.exclusive = Some(index);
        } else {
            self.limit = live;
            self.results_since_change = 0;
        }
    }
}

impl Scheduler<'_, '_> {
    /// Admits problems while there is room. Returns whether any was admitted.
    pub(super) fn admit(&mut self) -> Result<bool, SearchError> {
        let mut admitted = false;
        while !self.stopped && self.room.has_place(self.live.len()) {
            // Only an idle run may block in the intake: blocking would stall the problems in
            // flight.
            let is_idle =
                self.live.is_empty() && self.batches.given.is_empty() && self.unverified.is_empty();
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
        // A request may have expired while it was queued; opening it would read its prompt in vain.
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

    /// Ends the problems that were cancelled or are past their deadline, which frees their memory
    /// at once. Returns whether any was ended.
    pub(super) fn end_overdue(&mut self) -> bool {
        let due = self.live.overdue(self.cx.models.clock.now());
        for &(index, stopped) in &due {
            self.end(index, |live, cx| live.stop(stopped, cx));
        }
        !due.is_empty()
    }

    /// Closes the thoughts of problems that have no more time than their answers need.
    pub(super) fn close_late_thoughts(&mut self) {
        let now = self.cx.models.clock.now();
        let late = self.live.in_a_hurry(now, self.passes.count);
        for index in late {
            let owned = self.owners.iter().filter(|(_, owner)| owner.index == index);
            let chains: Vec<ChainId> = owned.map(|(&chain, _)| chain).collect();
            self.cx.models.generator.close_thoughts(&chains);
        }
    }

    /// Frees memory when nothing grows, nothing can be scored and no strategy has news: every
    /// queued step then waits for memory that other waiting chains hold.
    /// The youngest problem is set back, which does not change the results of the others. If it was
    /// the only one left but had shared the memory with others before, it starts again and runs
    /// without others. If it never shared the memory, its idle caches are evicted, to be read again
    /// later. Only if that frees no memory, a chain is given up.
    pub(super) fn break_deadlock(&mut self) {
        let Some((youngest, live)) = self.live.youngest_mut() else {
            return;
        };
        if live.steps.queue.is_empty() {
            // The strategy waits for no step and asked for none when it was last woken: the search
            // is over.
            live.conclude(&mut self.cx);
            return;
        }
        if live.ran_with_others {
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
        // The youngest problem is set back first, so pushing to the front keeps the order of input.
        self.requests.set_back.push_front((index, live.request));
    }
}
