//! The queue that passes requests from other threads to the engine's thread.

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
    /// Notified when a request arrives, or when the queue is closed.
    arrived: Condvar,
    next_ticket: AtomicU64,
    pub(super) stats: Mutex<ServiceStats>,
}

/// The waiting requests, and the tickets of the requests in flight.
#[derive(Default)]
pub(super) struct QueueState {
    pub(super) queue: VecDeque<Waiting>,
    /// Given chains to score between the passes of searches, grouped by call.
    scoring: VecDeque<Scoring>,
    /// The tickets of the requests in flight, by their index in the run.
    pub(super) in_flight: BTreeMap<usize, Arc<TicketState>>,
    /// The index that the next request will have in the run.
    next: usize,
    closed: bool,
    /// The reason why the service ended; `None` while it is running.
    pub(super) ended: Option<ServiceError>,
}

pub(super) struct Waiting {
    request: Request,
    deadline: Option<Duration>,
    ticket: Arc<TicketState>,
}

/// The chains of one call of `score_all` that are not scored yet.
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
    /// Fails if the service has ended, or if `most` or more requests are waiting.
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
        // The queue is ordered by arrival, not by deadline, so an overdue request may be anywhere
        // in it.
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

    /// Returns a ticket that has its result already and does not enter the queue.
    pub(super) fn answer(
        &self,
        mut request: Request,
        result: ProblemResult,
    ) -> Result<Arc<TicketState>, ServiceError> {
        // The request does not enter the queue, so a full queue is not a reason to refuse it.
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
            // No chain enters the queue, so a full queue is not a reason to refuse the call.
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

    /// Ends the service: every queued or running request fails with `why`.
    pub(super) fn end(&self, why: &ServiceError) {
        let mut state = self.lock();
        state.closed = true;
        // The guard of the engine's thread calls this a second time; the first reason is the real
        // one.
        state.ended.get_or_insert_with(|| why.clone());
        let queued = std::mem::take(&mut state.queue);
        let scoring = std::mem::take(&mut state.scoring);
        let in_flight = std::mem::take(&mut state.in_flight);
        drop(state);
        // Dropping the chains drops their `reply` closures, by which the callers learn that the
        // service ended. A closure may run the caller's code, so the lock was released before.
        drop(scoring);
        let queued = queued.into_iter().map(|waiting| waiting.ticket);
        for ticket in queued.chain(in_flight.into_values()) {
            ticket.finish(Err(why.clone()));
        }
    }

    /// Removes a request from the queue and ends it, unless it is in flight already.
    pub(super) fn withdraw(&self, ticket: u64) {
        let mut state = self.lock();
        // A request in flight has left the queue, and ends by its cancel token.
        let at = state.queue.iter().position(|w| w.ticket.number == ticket);
        let waiting = at.and_then(|at| state.queue.remove(at));
        drop(state);
        if let Some(waiting) = waiting {
            waiting.give_up(Stopped::Cancelled);
        }
    }
}

impl Waiting {
    /// Finishes a request that was never started, with an empty result.
    fn give_up(self, stopped: Stopped) {
        let mut result = ProblemResult::unsearched(0, self.request.problem);
        result.stopped = Some(stopped);
        self.ticket.finish(Ok(result));
    }
}

/// The engine's end of the queue, from which the search takes requests.
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
                // Resolving copies all settings, so the lock was released before.
                let settings = self.solver.resolve(waiting.request.settings.clone());
                let mut request = waiting.request.for_search(Arc::new(settings), now);
                request.deadline = waiting.deadline;
                return Next::Request(Box::new(request));
            }
            // While given chains wait, the search must not sleep: it takes the chains before its
            // next turn.
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
            // Calls take turns, so that a small call does not wait for all chains of a large one.
            if !scoring.chains.is_empty() {
                state.scoring.push_back(scoring);
            }
            if given.is_some() {
                break given;
            }
        };
        // Dropping chains drops their `reply` closures, which may run the caller's code, so the
        // lock is released first.
        drop(state);
        drop(cancelled);
        given
    }
}
