//! Telling a server to stop, from any thread.

use std::fmt;
use std::sync::Arc;

use tokio::sync::watch;

/// How far a server is with stopping.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Phase {
    /// It takes requests.
    Serving,
    /// It takes none, and ends those that it has.
    Draining,
    /// Those that it still has end with what they have.
    Cut,
}

/// Stops a server, from any thread. Cheap to clone.
#[derive(Clone)]
pub struct Stop(Arc<watch::Sender<Phase>>);

impl Default for Stop {
    fn default() -> Self {
        Self(Arc::new(watch::Sender::new(Phase::Serving)))
    }
}

impl Stop {
    /// Nobody has stopped it yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// The server takes no more requests, and ends when those at work are done or their time is
    /// over.
    pub fn begin(&self) {
        self.advance(Phase::Draining);
    }

    /// What is at work ends now.
    pub(crate) fn cut(&self) {
        self.advance(Phase::Cut);
    }

    fn advance(&self, phase: Phase) {
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
        // The sender is here, so it is not gone.
        let _ = receiver.wait_for(|now| *now >= phase).await;
    }
}

impl fmt::Debug for Stop {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Stop").field(&*self.0.borrow()).finish()
    }
}
