//! The queue between the threads that submit requests and the engine's thread.

use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::time::Duration;

use beamgen_search::{CancelToken, Clock, GivenChain, Intake, Next, ProblemResult, Stopped};

use super::outcome::TicketState;
use super::{ServiceError, ServiceOptions, ServiceStats, lock, wait};
use crate::config::Defaults;
use crate::request::Request;
use crate::solver::WallClock;

/// The state that all handles of a service share with its thread.
pub(super) struct Shared {
    pub(super) clock: WallClock,
    options: ServiceOptions,
    state: Mutex<QueueState>,
    /// Notified when a request arrives or the queue is closed.
    arrived: Condvar,
    next_ticket: AtomicU64,
    pub(super) stats: Mutex<ServiceStats>,
}

/// The waiting requests, and the tickets of requests in flight.
#[derive(Default)]
pub(super) struct QueueState {
    pub(super) queue: VecDeque<Waiting>,
    /// Given chains to score between the passes of searches, those of each call together.
    scoring: VecDeque<Scoring>,
    /// The tickets of problems in flight, by their index in the run.
    pub(super) in_flight: BTreeMap<usize, Arc<TicketState>>,
    /// The index in the run of the next request.
    next: usize,
    closed: bool,
    /// The reason why the service takes no more requests, once it has ended.
    pub(super) ended: Option<ServiceError>,
}

pub(super) struct Waiting {
    request: Request,
    deadline: Option<Duration>,
    ticket: Arc<TicketState>,
}

/// The given chains of a call that are not scored yet.
pub(super) struct Scoring {
    chains: VecDeque<GivenChain>,
    cancel: CancelToken,
}

impl Scoring {
    pub(super) fn new(chains: VecDeque<GivenChain>, cancel: CancelToken) -> Self {
        Self { chains, cancel }
    }
}

impl QueueState {
    /// Fails if the service has ended, or if `most` requests wait already.
    pub(super) fn admit(&self, waiting: usize, most: usize) -> Result<(), ServiceError> {
        match &self.ended {
            Some(ended) => Err(ended.clone()),
            None if self.closed => Err(ServiceError::Closed),
            None if waiting >= most => Err(ServiceError::Full { waiting }),
            None => Ok(()),
        }
    }

    /// Ends the requests whose deadline passed while they waited.
    fn give_up_overdue(&mut self, now: Duration) {
        // The queue is in the order of arrival, not of deadlines, so an overdue request may be
        // anywhere.
        let overdue = |w: &Waiting| w.deadline.is_some_and(|deadline| deadline <= now);
        while let Some(at) = self.queue.iter().position(overdue) {
            if let Some(waiting) = self.queue.remove(at) {
                waiting.give_up(Stopped::Deadline);
            }
        }
    }
}

impl Shared {
    pub(super) fn new(options: ServiceOptions) -> Self {
        Self {
            clock: WallClock::start(),
            options,
            state: Mutex::default(),
            arrived: Condvar::new(),
            next_ticket: AtomicU64::new(0),
            stats: Mutex::default(),
        }
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, QueueState> {
        lock(&self.state)
    }

    fn ticket(&self, request: &mut Request) -> Arc<TicketState> {
        let number = self.next_ticket.fetch_add(1, Ordering::Relaxed);
        Arc::new(TicketState::new(number, request, self.options.events))
    }

    /// Returns a ticket whose result is known already; it is not queued.
    pub(super) fn answer(
        &self,
        mut request: Request,
        result: ProblemResult,
    ) -> Result<Arc<TicketState>, ServiceError> {
        // Only a service that has ended refuses: a full queue does not matter to a request that is
        // not queued.
        self.lock().admit(0, usize::MAX)?;
        let state = self.ticket(&mut request);
        state.finish(Ok(result));
        Ok(state)
    }

    pub(super) fn submit(&self, mut request: Request) -> Result<Arc<TicketState>, ServiceError> {
        let mut queued = self.lock();
        queued.admit(queued.queue.len(), self.options.queue)?;
        let state = self.ticket(&mut request);
        let now = self.clock.now();
        let deadline = request.timeout.map(|timeout| now.saturating_add(timeout));
        queued.queue.push_back(Waiting {
            request,
            deadline,
            ticket: Arc::clone(&state),
        });
        drop(queued);
        self.arrived.notify_one();
        Ok(state)
    }

    pub(super) fn queue_scoring(&self, scoring: Scoring) -> Result<(), ServiceError> {
        let mut state = self.lock();
        if scoring.chains.is_empty() {
            // Nothing is queued, so a full queue does not matter.
            return state.admit(0, usize::MAX);
        }
        state.admit(state.scoring.len(), self.options.queue)?;
        state.scoring.push_back(scoring);
        drop(state);
        self.arrived.notify_one();
        Ok(())
    }

    pub(super) fn close(&self) {
        self.lock().closed = true;
        self.arrived.notify_all();
    }

    /// Fails every queued and running request with `why`.
    pub(super) fn end(&self, why: &ServiceError) {
        let mut state = self.lock();
        state.closed = true;
        // The first reason stays: the guard of the engine's thread calls this a second time.
        state.ended.get_or_insert_with(|| why.clone());
        let queued = std::mem::take(&mut state.queue);
        let scoring = std::mem::take(&mut state.scoring);
        let in_flight = std::mem::take(&mut state.in_flight);
        drop(state);
        // Dropping given steps drops their `reply` closures, which is how their callers learn that
        // the service ended. Closures may run code of the caller, so the lock is released before.
        drop(scoring);
        let queued = queued.into_iter().map(|waiting| waiting.ticket);
        for ticket in queued.chain(in_flight.into_values()) {
            ticket.finish(Err(why.clone()));
        }
    }

    /// Ends a request, if it still waits in the queue.
    pub(super) fn withdraw(&self, ticket: u64) {
        let mut state = self.lock();
        // A request in flight is not in the queue; its cancel token ends it.
        let at = state.queue.iter().position(|w| w.ticket.number == ticket);
        let waiting = at.and_then(|at| state.queue.remove(at));
        drop(state);
        if let Some(waiting) = waiting {
            waiting.give_up(Stopped::Cancelled);
        }
    }
}

impl Waiting {
    /// Ends a request that was not started.
    fn give_up(self, stopped: Stopped) {
        let mut result = ProblemResult::unsearched(0, self.request.problem);
        result.stopped = Some(stopped);
        self.ticket.finish(Ok(result));
    }
}

/// The search's end of the queue.
pub(super) struct QueueIntake {
    pub(super) shared: Arc<Shared>,
    pub(super) solver: Defaults,
}

impl Intake for QueueIntake {
    fn next(&mut self, idle: bool) -> Next {
        let mut state = self.shared.lock();
        loop {
            let now = self.shared.clock.now();
            state.give_up_overdue(now);
            if let Some(waiting) = state.queue.pop_front() {
                let index = state.next;
                state.next += 1;
                state.in_flight.insert(index, waiting.ticket);
                drop(state);
                // Resolved after the lock is released, since it copies all settings.
                let settings = self.solver.resolve(waiting.request.settings.clone());
                let mut request = waiting.request.for_search(Arc::new(settings), now);
                request.deadline = waiting.deadline;
                return Next::Request(Box::new(request));
            }
            // With given steps to score, the search must not sleep until the next request: the steps
            // are taken before its next turn.
            let busy = !idle || !state.scoring.is_empty();
            if state.closed && state.scoring.is_empty() {
                return Next::Closed;
            }
            if busy {
                return Next::Waiting;
            }
            state = wait(&self.shared.arrived, state);
        }
    }

    fn given(&mut self) -> Option<GivenChain> {
        let mut state = self.shared.lock();
        state.give_up_overdue(self.shared.clock.now());
        let mut cancelled = Vec::new();
        let given = loop {
            let Some(mut scoring) = state.scoring.pop_front() else {
                break None;
            };
            if scoring.cancel.is_cancelled() {
                cancelled.push(scoring);
                continue;
            }
            let given = scoring.chains.pop_front();
            // Calls take turns, so that a small one does not wait for all chains of a large one.
            if !scoring.chains.is_empty() {
                state.scoring.push_back(scoring);
            }
            if given.is_some() {
                break given;
            }
        };
        // Dropping chains drops their `reply` closures, which are the caller's: not under the lock.
        drop(state);
        drop(cancelled);
        given
    }
}
