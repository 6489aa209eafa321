//! The outcome of a request, which its ticket and the engine's thread share.

use std::collections::VecDeque;
use std::sync::{Condvar, Mutex, MutexGuard};
use std::task::Waker;

use beamgen_search::{CancelToken, ProblemResult};

use super::{ServiceError, lock};
use crate::progress::Progress;
use crate::request::{OnProgress, Request};

/// The state of a request that its ticket shares with the engine's thread.
pub(super) struct TicketState {
    pub(super) number: u64,
    pub(super) cancel: CancelToken,
    most_events: usize,
    on_progress: Mutex<Option<OnProgress>>,
    pub(super) inner: Mutex<Outcome>,
    pub(super) changed: Condvar,
}

/// The result of a request, and the events that its reader has not taken yet.
#[derive(Default)]
pub(super) struct Outcome {
    pub(super) events: VecDeque<Progress>,
    /// The number of events that were dropped because the reader was too slow.
    pub(super) dropped_events: u64,
    pub(super) result: Option<Result<ProblemResult, ServiceError>>,
    pub(super) done: bool,
    pub(super) waker: Option<Waker>,
}

impl TicketState {
    pub(super) fn new(number: u64, request: &mut Request, events: usize) -> Self {
        Self {
            number,
            cancel: request.cancel.get_or_insert_default().clone(),
            most_events: request.most_events.unwrap_or(events),
            on_progress: Mutex::new(request.on_progress.take()),
            inner: Mutex::default(),
            changed: Condvar::new(),
        }
    }

    /// Whether anybody reads the request's events. Without a reader, no events are made.
    pub(super) fn has_reader(&self) -> bool {
        self.most_events > 0 || lock(&self.on_progress).is_some()
    }

    pub(super) fn tell(&self, progress: Progress) {
        // The callback may use its own ticket, so the lock of `inner` must not be held here.
        if let Some(observe) = &mut *lock(&self.on_progress) {
            observe(&progress);
        }
        // The ticket keeps no events, so none are counted as dropped.
        if self.most_events == 0 {
            return;
        }
        let mut inner = lock(&self.inner);
        if inner.events.len() == self.most_events {
            inner.events.pop_front();
            inner.dropped_events += 1;
        }
        inner.events.push_back(progress);
        self.wake(inner);
    }

    /// Sets the result, unless the request has one already.
    pub(super) fn finish(&self, result: Result<ProblemResult, ServiceError>) {
        let mut inner = lock(&self.inner);
        if !inner.done {
            inner.done = true;
            inner.result = Some(result);
            self.wake(inner);
        }
    }

    /// Wakes the thread or task that waits for an event or the result.
    fn wake(&self, mut inner: MutexGuard<'_, Outcome>) {
        let waker = inner.waker.take();
        // A woken task may run at once, even on this thread, and takes the lock.
        drop(inner);
        self.changed.notify_all();
        if let Some(waker) = waker {
            waker.wake();
        }
    }
}
