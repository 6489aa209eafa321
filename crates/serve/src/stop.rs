//! Stops a server in phases, from any thread.

use std::fmt;
use std::sync::Arc;

use tokio::sync::watch;

/// The phases of a server, in order. A server never returns to an earlier phase.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Phase {
    /// The server accepts requests.
    Serving,
    /// The server accepts no more requests, and finishes the running ones.
    Draining,
    /// Running requests return partial results at once.
    Cut,
}

/// A handle by which any thread stops a server. Clones stop the same server.
#[derive(Clone)]
pub struct Stop(Arc<watch::Sender<Phase>>);

impl Default for Stop {
    fn default() -> Self {
        Self(Arc::new(watch::Sender::new(Phase::Serving)))
    }
}

impl Stop {
    /// Returns a handle that has not stopped its server.
    pub fn new() -> Self {
        Self::default()
    }

    /// Stops the server: no more requests are accepted, and the server ends when the running ones
    /// are finished or [`drain_time`](crate::Limits::drain_time) is over.
    pub fn begin(&self) {
        self.advance(Phase::Draining);
    }

    /// Makes running requests return their partial results.
    pub(crate) fn cut(&self) {
        self.advance(Phase::Cut);
    }

    fn advance(&self, phase: Phase) {
        // A second signal must not take the server back to an earlier phase.
        self.0.send_if_modified(|now| {
            let is_later = phase > *now;
            *now = phase.max(*now);
            is_later
        });
    }

    pub(crate) fn is_serving(&self) -> bool {
        *self.0.borrow() == Phase::Serving
    }

    /// Resolves when the server is at `phase` or later.
    pub(crate) async fn reached(&self, phase: Phase) {
        let mut receiver = self.0.subscribe();
        // `wait_for` fails only after the sender was dropped, and `self` holds the sender.
        let _ = receiver.wait_for(|now| *now >= phase).await;
    }
}

impl fmt::Debug for Stop {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Stop").field(&*self.0.borrow()).finish()
    }
}
