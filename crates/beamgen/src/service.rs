//! A solver on a thread of its own, for services: any thread hands requests in and takes results.
//!
//! The engine's thread takes requests from a bounded queue between two passes, so intake never
//! blocks what is in flight. Progress is kept for a slow reader up to a bound, the oldest is
//! dropped beyond it; results are never dropped.

mod outcome;
mod queue;
mod thread;
mod ticket;

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

use beamgen_checkers::LostSoFar;
use beamgen_search::{Cause, GivenChain, Ledger, ProblemResult, RunSummary, ScoreError, Settings};

use self::queue::Shared;
use self::thread::Ended;
pub use self::ticket::Ticket;
pub use crate::error::ServiceError;
use crate::long_texts::TextLimits;
use crate::request::Request;
use crate::{Error, Solver};
pub use beamgen_search::CancelToken;

/// How a [`Service`] queues.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ServiceOptions {
    /// Requests that may wait; one more is refused with [`ServiceError::Full`].
    pub queue: usize,
    /// Events kept for a ticket's slow reader.
    pub events: usize,
}

impl Default for ServiceOptions {
    fn default() -> Self {
        Self {
            queue: 64,
            events: 256,
        }
    }
}

impl Solver {
    /// Puts the solver on a thread of its own, which any number of threads hand requests to.
    pub fn spawn(self, options: ServiceOptions) -> Service {
        let shared = Arc::new(Shared::new(options));
        Service {
            defaults: Arc::new(self.settings()),
            limits: self.limits.clone(),
            lost: self.lost.iter().map(|(_, lost)| lost.clone()).collect(),
            _open: Arc::new(Open(Arc::clone(&shared))),
            thread: Arc::new(Mutex::new(Some(thread::start(self, Arc::clone(&shared))))),
            shared,
        }
    }
}

/// Hands requests to a solver that runs on a thread of its own. Cheap to clone; the service ends
/// when the last handle is dropped and what it took is done.
#[derive(Clone)]
pub struct Service {
    shared: Arc<Shared>,
    /// Tells the engine's thread when the last handle is gone.
    _open: Arc<Open>,
    thread: Arc<Mutex<Option<JoinHandle<Ended>>>>,
    defaults: Arc<Settings>,
    limits: TextLimits,
    /// Of the checkers that are commands.
    lost: Arc<[LostSoFar]>,
}

impl Service {
    /// A problem with the settings that the solver was built with.
    pub fn request(&self, problem: impl Into<beamgen_search::Problem>) -> Request {
        Request::new(problem, (*self.defaults).clone())
    }

    /// Queues a request. Never waits for what is in flight.
    ///
    /// A problem that is longer than any that fits into the generator's context has its result at
    /// once: if the engine's thread had to count its tokens, whatever is in flight would wait. The
    /// caller's thread counts them, up to the context, where the text is long: a millisecond for
    /// about 400 tokens.
    ///
    /// # Errors
    /// The queue is full, the service has ended, or the settings cannot be run.
    pub fn submit(&self, request: Request) -> Result<Ticket, ServiceError> {
        request.settings.validate()?;
        let state = match self.limits.check_request(&request) {
            Ok(()) => self.shared.submit(request)?,
            Err(error) => {
                let mut result = ProblemResult::unsearched(0, request.problem.clone());
                (result.error, result.too_long) = (Some(error.to_string()), error.is_too_long());
                self.shared.answer(request, result)?
            }
        };
        let shared = Arc::clone(&self.shared);
        Ok(Ticket { state, shared })
    }

    /// Queues given steps of a problem to be scored by the solver's scorer, next to whatever is
    /// being solved: that continues while a scorer elsewhere has not answered. `reply` is called
    /// with their scores on the engine's thread: it should be quick. It is dropped without a call if
    /// the service ends before. Chains that are too long are refused as in
    /// [`submit`](Self::submit), with `reply` called at once.
    ///
    /// # Errors
    /// The queue is full, or the service has ended.
    pub fn score(
        &self,
        problem: impl Into<String>,
        steps: Vec<String>,
        reply: impl FnOnce(Result<Vec<f32>, ScoreError>) + Send + 'static,
    ) -> Result<(), ServiceError> {
        let problem = problem.into();
        match self.limits.check_chain(&problem, &steps) {
            Err(error) => {
                self.shared.lock().admit(0, usize::MAX)?;
                reply(Err(error));
                Ok(())
            }
            Ok(()) => self.shared.queue_scoring(GivenChain {
                problem,
                steps,
                reply: Box::new(reply),
            }),
        }
    }

    /// Requests that wait in the queue.
    pub fn waiting(&self) -> usize {
        self.shared.lock().queue.len()
    }

    /// What is at work now, and what was spent so far.
    pub fn stats(&self) -> ServiceStats {
        ServiceStats {
            lost_verdicts: self.lost.iter().map(|lost| lost.get().verdicts).sum(),
            ..lock(&self.shared.stats).clone()
        }
    }

    /// Why nothing is taken any more, if the service has ended.
    pub fn ended(&self) -> Option<ServiceError> {
        self.shared.lock().ended.clone()
    }

    /// Takes no more requests, waits until all that were taken are done, and gives the solver back
    /// with what the run spent.
    ///
    /// # Errors
    /// A model was lost, or another handle has closed the service already.
    pub fn close(self) -> Result<(Solver, RunSummary), Error> {
        self.shared.close();
        let thread = lock(&self.thread).take();
        let thread = thread.ok_or(ServiceError::Closed)?;
        let panicked = |_| ServiceError::Lost(Cause::from("the engine's thread panicked"));
        let (solver, outcome) = thread.join().map_err(panicked)?;
        Ok((solver, outcome?))
    }
}

impl std::fmt::Debug for Service {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Service")
            .field("waiting", &self.waiting())
            .finish_non_exhaustive()
    }
}

/// What a [`Service`] does: as of the last pass or result.
#[derive(Debug, Clone, PartialEq, Default)]
#[non_exhaustive]
pub struct ServiceStats {
    /// Problems at work.
    pub in_flight: usize,
    /// Bytes that their chains hold in the caches of both models.
    pub cache_bytes: u64,
    /// What was spent so far.
    pub ledger: Ledger,
    /// Verdicts that checker commands owed and lost.
    pub lost_verdicts: u64,
}

/// Closes the queue when the last handle is gone.
struct Open(Arc<Shared>);

impl Drop for Open {
    fn drop(&mut self) {
        self.0.close();
    }
}

/// Locks, also after a thread panicked with the lock: every change is whole.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Waits for a change of what is locked.
fn wait<'a, T>(changed: &Condvar, guard: MutexGuard<'a, T>) -> MutexGuard<'a, T> {
    changed.wait(guard).unwrap_or_else(PoisonError::into_inner)
}
