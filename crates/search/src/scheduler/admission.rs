//! Which problems are in flight. They are let in while there is room, ended when they are overdue,
//! and set back when memory is too short for all.

use super::Scheduler;
use super::active::ActiveProblem;
use super::live::overdue;
use crate::error::SearchError;
use crate::event::Event;
use crate::request::{Next, Request};
use crate::result::ProblemResult;

impl Scheduler<'_, '_> {
    /// Lets problems in while there is room. Returns whether one came.
    pub(super) fn admit(&mut self) -> Result<bool, SearchError> {
        let mut admitted = false;
        while !self.stopped && self.has_room() {
            let (index, request) = match self.set_back.pop_front() {
                Some(again) => again,
                None if self.closed => break,
                None => match self.intake.next(self.is_idle()) {
                    Next::Request(request) => {
                        self.next_index += 1;
                        (self.next_index - 1, *request)
                    }
                    Next::Waiting => break,
                    Next::Closed => {
                        self.closed = true;
                        break;
                    }
                },
            };
            admitted = true;
            self.begin(index, request)?;
        }
        Ok(admitted)
    }

    /// Whether there is nothing to do or to wait for.
    fn is_idle(&self) -> bool {
        self.live.is_empty() && !self.batches.has_given()
    }

    pub(super) fn has_room(&self) -> bool {
        self.live.is_empty()
            || (self.live.len() < self.limit && !self.blocked && self.exclusive.is_none())
    }

    pub(super) fn begin(&mut self, index: usize, request: Request) -> Result<(), SearchError> {
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
        let epoch = self.next_epoch;
        self.next_epoch += 1;
        match ActiveProblem::open(index, epoch, request, &mut self.cx)? {
            Ok(live) => {
                let live = self.live.insert(index, live);
                let start = live.start;
                let actions = live.strategy.begin(start);
                live.follow(actions, &mut self.cx);
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
            if self.live.is_empty() {
                self.exclusive = Some(youngest);
            } else {
                self.limit = self.live.len();
                self.results_since_change = 0;
            }
            return;
        }
        if !live.forget_idle(&mut self.cx) {
            live.give_up_worst(&mut self.cx);
        }
    }

    pub(super) fn set_problem_back(&mut self, index: usize) {
        let Some(mut live) = self.live.remove(index) else {
            return;
        };
        live.release_all(&mut self.cx);
        live.bill_run(&mut self.summary.ledger);
        self.owners.retain(|_, owner| owner.index != index);
        self.summary.restarts += 1;
        self.cx.event(Event::ProblemRestarted { index });
        self.set_back.push_front((index, live.request));
    }
}
