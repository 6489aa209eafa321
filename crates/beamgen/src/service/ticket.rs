//! Tickets, by which callers wait for events and results of their requests.

use std::future::Future;
use std::ops::ControlFlow;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use beamgen_search::{Event, ProblemResult, Sink};

use super::outcome::TicketState;
use super::queue::Shared;
use super::{ServiceError, ServiceStats, lock, wait};
use crate::progress::Progress;

/// Passes the events and results of the search to the tickets of their requests.
pub(super) struct TicketSink(pub(super) Arc<Shared>);

impl Sink for TicketSink {
    fn event(&mut self, event: Event<'_>) {
        match event {
            Event::Pass {
                in_flight,
                cache_bytes,
                ledger,
                ..
            } => {
                *lock(&self.0.stats) = ServiceStats {
                    in_flight,
                    cache_bytes,
                    ledger: ledger.clone(),
                    // `Service::stats` fills in the lost verdicts, which only the checkers know.
                    ..ServiceStats::default()
                };
            }
            // Another pass may not follow, and then an idle service would report the memory of the
            // last pass.
            Event::ProblemDone { cache_bytes, .. } => {
                lock(&self.0.stats).cache_bytes = cache_bytes;
            }
            _ => {}
        }
        let Some(index) = Progress::index(&event) else {
            return;
        };
        // The queue's lock is released at the end of this statement, so a thread that submits a
        // request never waits for another request's reader.
        let ticket = self.0.lock().in_flight.get(&index).cloned();
        if let Some(ticket) = ticket.filter(|ticket| ticket.has_reader())
            && let Some(progress) = Progress::of(&event)
        {
            ticket.tell(progress);
        }
    }

    fn result(&mut self, result: ProblemResult) -> ControlFlow<()> {
        let mut state = self.0.lock();
        let ticket = state.in_flight.remove(&result.index);
        let in_flight = state.in_flight.len();
        drop(state);
        lock(&self.0.stats).in_flight = in_flight;
        if let Some(ticket) = ticket {
            ticket.finish(Ok(result));
        }
        ControlFlow::Continue(())
    }
}

/// A handle to a submitted request. It is also a [`Future`] of the result, for any async runtime.
/// Dropping a ticket does not end the search; [`cancel`](Self::cancel) does.
#[must_use = "the result is here"]
pub struct Ticket {
    pub(super) state: Arc<TicketState>,
    pub(super) shared: Arc<Shared>,
}

impl Ticket {
    /// Blocks until the request is finished, and returns the result.
    ///
    /// # Errors
    /// Returns an error if the service ended before the request was finished.
    pub fn wait(self) -> Result<ProblemResult, ServiceError> {
        let mut inner = lock(&self.state.inner);
        loop {
            if let Some(result) = inner.result.take() {
                return result;
            }
            inner = wait(&self.state.changed, inner);
        }
    }

    /// Returns the result if the request is finished, once. Otherwise, and in later calls, returns
    /// `None`.
    ///
    /// # Errors
    /// Returns an error if the service ended before the request was finished.
    pub fn try_take(&mut self) -> Option<Result<ProblemResult, ServiceError>> {
        lock(&self.state.inner).result.take()
    }

    /// Whether the request is finished, with a result or an error.
    pub fn is_done(&self) -> bool {
        lock(&self.state.inner).done
    }

    /// Removes the request from the queue, or ends its search. The result then has
    /// [`Stopped::Cancelled`](crate::result::Stopped::Cancelled), unless the request was finished
    /// before. The search's memory is free at the next pass.
    pub fn cancel(&self) {
        self.state.cancel.cancel();
        self.shared.withdraw(self.state.number);
    }

    /// Returns an iterator that waits for each event, and ends when the request is finished. If the
    /// reader is slow, the oldest events are dropped, but never the result.
    pub fn events(&self) -> impl Iterator<Item = Progress> + '_ {
        std::iter::from_fn(|| {
            let mut inner = lock(&self.state.inner);
            loop {
                if let Some(event) = inner.events.pop_front() {
                    return Some(event);
                }
                if inner.done {
                    return None;
                }
                inner = wait(&self.state.changed, inner);
            }
        })
    }

    /// Returns the events since the last call, for an async runtime. `None` after the last event;
    /// then the ticket's future is ready.
    pub fn poll_events(&mut self, cx: &mut Context<'_>) -> Poll<Option<Vec<Progress>>> {
        let mut inner = lock(&self.state.inner);
        if !inner.events.is_empty() {
            return Poll::Ready(Some(inner.events.drain(..).collect()));
        }
        if inner.done {
            return Poll::Ready(None);
        }
        inner.waker = Some(cx.waker().clone());
        Poll::Pending
    }

    /// Returns the number of events that were dropped because the reader was too slow.
    pub fn dropped_events(&self) -> u64 {
        lock(&self.state.inner).dropped_events
    }
}

impl Future for Ticket {
    type Output = Result<ProblemResult, ServiceError>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let mut inner = lock(&self.state.inner);
        if let Some(result) = inner.result.take() {
            Poll::Ready(result)
        } else {
            inner.waker = Some(cx.waker().clone());
            Poll::Pending
        }
    }
}

impl std::fmt::Debug for Ticket {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Ticket")
            .field("number", &self.state.number)
            .field("done", &self.is_done())
            .finish_non_exhaustive()
    }
}
