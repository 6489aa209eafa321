//! Tickets, by which threads wait for the results and events of their requests.

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

/// Passes the events and results of the search to the tickets.
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
                    // The lost verdicts, which `Service::stats` reads from the checkers.
                    ..ServiceStats::default()
                };
            }
            // No pass may follow, and an idle service would report the last pass's memory for ever.
            Event::ProblemDone { cache_bytes, .. } => {
                lock(&self.0.stats).cache_bytes = cache_bytes;
            }
            _ => {}
        }
        let Some(index) = Progress::index(&event) else {
            return;
        };
        // The queue's lock ends with this statement: a thread that submits a request never waits
        // for the reader of another one.
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

/// A handle to a submitted request, and a [`Future`] of its result for any async runtime. Dropping a
/// ticket does not end the search; [`cancel`](Self::cancel) does.
#[must_use = "the result is here"]
pub struct Ticket {
    pub(super) state: Arc<TicketState>,
    pub(super) shared: Arc<Shared>,
}

impl Ticket {
    /// Waits for the result.
    ///
    /// # Errors
    /// Returns an error if the service ended before the result.
    pub fn wait(self) -> Result<ProblemResult, ServiceError> {
        let mut inner = lock(&self.state.inner);
        loop {
            if let Some(result) = inner.result.take() {
                return result;
            }
            inner = wait(&self.state.changed, inner);
        }
    }

    /// Takes the result if the request is finished; later calls return `None`.
    ///
    /// # Errors
    /// Returns an error if the service ended before the result.
    pub fn try_take(&mut self) -> Option<Result<ProblemResult, ServiceError>> {
        lock(&self.state.inner).result.take()
    }

    /// Whether the request is finished.
    pub fn is_done(&self) -> bool {
        lock(&self.state.inner).done
    }

    /// Ends the search, or removes the request from the queue. The result has
    /// [`Stopped::Cancelled`](crate::result::Stopped::Cancelled), unless it was finished before. The
    /// memory is free at the next pass.
    pub fn cancel(&self) {
        self.state.cancel.cancel();
        self.shared.withdraw(self.state.number);
    }

    /// Returns an iterator of the events until the request is finished, which waits for each event. A
    /// slow reader loses the oldest events, never the result.
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

    /// Returns the events since the last call, for an async runtime. `None` after the last event: as a
    /// future, the ticket then has its result.
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

    /// Returns the number of events that were dropped because the reader was slow.
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
