//! The thread that drives the models.

use std::sync::Arc;
use std::thread::JoinHandle;

use beamgen_search::{Cause, RunSummary};

use super::ServiceError;
use super::queue::{QueueIntake, Shared};
use super::ticket::TicketSink;
use crate::{Error, Solver};

/// The result of the thread: the solver, and how its run ended.
pub(super) type Ended = (Solver, Result<RunSummary, Error>);

/// Starts the engine's thread, which solves queued requests until the queue is closed.
pub(super) fn start(mut solver: Solver, shared: Arc<Shared>) -> JoinHandle<Ended> {
    std::thread::spawn(move || {
        // The guard matters only after a panic; otherwise the call of `end` below has already set
        // the reason.
        let guard = EndGuard(Arc::clone(&shared));
        let mut intake = QueueIntake {
            shared: Arc::clone(&shared),
            solver: solver.defaults(),
        };
        let mut sink = TicketSink(Arc::clone(&shared));
        let outcome = solver.serve(shared.clock, &mut intake, &mut sink);
        let why = match &outcome {
            Ok(_) => ServiceError::Closed,
            Err(error) => ServiceError::Lost(Cause::from(error.to_string())),
        };
        shared.end(&why);
        drop(guard);
        (solver, outcome)
    })
}

/// Ends the service if the engine's thread panics, so that no caller waits forever.
struct EndGuard(Arc<Shared>);

impl Drop for EndGuard {
    fn drop(&mut self) {
        let lost = ServiceError::Lost(Cause::from("the engine's thread panicked"));
        self.0.end(&lost);
    }
}
