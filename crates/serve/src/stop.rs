//! A handle to stop a server from any thread.

use std::fmt;
use std::sync::Arc;

use tokio::sync::watch;

/// The phases of a server, in order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Phase {
    /// The server takes requests.
    Serving,
    /// The server takes no more requests, and finishes the running ones.
    Draining,
    /// Running requests return their partial results.
    Cut,
}

/// A handle that stops a server from any thread. Handles are cheap to clone.
#[derive(Clone)]
pub struct Stop(Arc<watch::Sender<Phase>>);

impl Default for Stop {
    fn default() -> Self {
        Self(Arc::new(watch::Sender::new(Phase::Serving)))
    }
}

impl Stop {
    /// Returns a handle for a server that is not stopped.
    pub fn new() -> Self {
        Self::default()
    }

    /// Stops the server: it takes no more requests, and ends when the running ones are finished or
    /// [`drain_time`](crate::Limits::drain_time) is over.
    pub fn begin(&self) {
        self.advance(Phase::Draining);
    }

    /// Makes running requests return their partial results now.
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
        // Waiting fails only if the sender is dropped, and `self` holds it.
        let _ = receiver.wait_for(|now| *now >= phase).await;
    }
}

impl fmt::Debug for Stop {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Stop").field(&*self.0.borrow()).finish()
    }
}
