//! A solver on a thread of its own. Any thread can submit requests to it and take the results.
//!
//! The engine's thread takes requests from a bounded queue, between two forward passes, so a new
//! request never blocks those in flight. The number of events kept for a slow reader is bounded,
//! and the oldest events are dropped beyond the bound. Results are never dropped.

mod outcome;
mod queue;
mod thread;
mod ticket;

use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

use beamgen_checkers::LostSoFar;
use beamgen_search::{
    Cause, GivenChain, GivenReply, Ledger, ProblemResult, RunSummary, ScoreError, Settings,
};

use self::queue::{Scoring, Shared};
use self::thread::Ended;
pub use self::ticket::Ticket;
pub use crate::error::ServiceError;
use crate::long_texts::TextLimits;
use crate::request::Request;
use crate::{Error, Solver};
pub use beamgen_search::{CancelToken, GivenScores};

/// Limits of a [`Service`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ServiceOptions {
    /// The maximum number of waiting requests. Further requests fail with [`ServiceError::Full`].
    pub queue: usize,
    /// The maximum number of events that a ticket keeps for a slow reader.
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
    /// Moves the solver to a thread of its own, to which other threads can submit requests.
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

/// A handle to a solver on a thread of its own. Clones refer to the same solver. The service ends
/// when its last handle is dropped and all accepted requests are finished.
#[derive(Clone)]
pub struct Service {
    shared: Arc<Shared>,
    /// A guard that closes the queue when the last handle is dropped.
    _open: Arc<Open>,
    thread: Arc<Mutex<Option<JoinHandle<Ended>>>>,
    defaults: Arc<Settings>,
    limits: TextLimits,
    /// For each checker command, the counter of verdicts that the command failed to give.
    lost: Arc<[LostSoFar]>,
}

impl Service {
    /// Returns a request with the settings that the solver was built with.
    pub fn request(&self, problem: impl Into<beamgen_search::Problem>) -> Request {
        Request::new(problem, (*self.defaults).clone())
    }

    /// Queues a request, without waiting for requests in flight.
    ///
    /// A problem that cannot fit into the generator's context gets its result at once. Therefore
    /// this call counts the tokens of a long text, at about 400 tokens per millisecond and up to
    /// the context. On the engine's thread, the count would delay all problems in flight.
    ///
    /// # Errors
    /// Returns an error if the queue is full, if the service has ended, or if a setting is invalid.
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

    /// Queues the given steps of a problem to be scored. Searches continue meanwhile, even while a
    /// remote scorer has not answered. `reply` gets the scores on the engine's thread, so it must
    /// be quick. If the service ends first, `reply` is dropped without a call. If the chain is too
    /// long, `reply` is called before this function returns.
    ///
    /// # Errors
    /// Returns an error if the queue is full, or if the service has ended.
    pub fn score(
        &self,
        problem: impl Into<String>,
        steps: Vec<String>,
        reply: impl FnOnce(Result<Vec<f32>, ScoreError>) + Send + 'static,
    ) -> Result<(), ServiceError> {
        let reply = |scored: Result<GivenScores, _>| reply(scored.map(|scored| scored.scores));
        let chains = [(problem.into(), steps, Box::new(reply) as GivenReply)];
        self.queue_chains(chains, CancelToken::new())
    }

    /// Queues many chains, each a problem and its given steps. Chains share batches with those of
    /// other calls, which does not change their scores. `each` is called once for every chain, with
    /// the chain's index, in any order; for chains that are too long, before this function returns.
    /// If `cancel` is cancelled, the remaining chains are dropped without a call.
    ///
    /// # Errors
    /// Returns an error if the queue is full, in which a call counts as one request, or if the
    /// service has ended.
    pub fn score_all(
        &self,
        chains: Vec<(String, Vec<String>)>,
        cancel: CancelToken,
        each: impl FnMut(usize, Result<GivenScores, ScoreError>) + Send + 'static,
    ) -> Result<(), ServiceError> {
        let each = Arc::new(Mutex::new(each));
        let chains = chains.into_iter().enumerate();
        let chains = chains.map(|(index, (problem, steps))| {
            let each = Arc::clone(&each);
            let reply = move |scored| (*lock(&each))(index, scored);
            (problem, steps, Box::new(reply) as GivenReply)
        });
        self.queue_chains(chains, cancel)
    }

    fn queue_chains(
        &self,
        chains: impl IntoIterator<Item = (String, Vec<String>, GivenReply)>,
        cancel: CancelToken,
    ) -> Result<(), ServiceError> {
        let (mut fitting, mut refused) = (VecDeque::new(), Vec::new());
        for (problem, steps, reply) in chains {
            match self.limits.check_chain(&problem, &steps) {
                Err(error) => refused.push((reply, error)),
                Ok(()) => fitting.push_back(GivenChain {
                    problem,
                    steps,
                    reply,
                }),
            }
        }
        self.shared.queue_scoring(Scoring::new(fitting, cancel))?;
        // If the queue refuses the call, the caller gets that error only, so no reply is called before.
        for (reply, error) in refused {
            reply(Err(error));
        }
        Ok(())
    }

    /// Returns the number of requests in the queue. Calls of [`score`](Self::score) are not
    /// included.
    pub fn waiting(&self) -> usize {
        self.shared.lock().queue.len()
    }

    /// Returns the state of the solver after its last pass, and the costs so far.
    pub fn stats(&self) -> ServiceStats {
        ServiceStats {
            lost_verdicts: self.lost.iter().map(|lost| lost.get().verdicts).sum(),
            ..lock(&self.shared.stats).clone()
        }
    }

    /// Returns the reason why the service ended; `None` while it is running.
    pub fn ended(&self) -> Option<ServiceError> {
        self.shared.lock().ended.clone()
    }

    /// Closes the queue, waits until all requests are finished, and returns the solver with a
    /// summary of the run.
    ///
    /// # Errors
    /// Returns an error if a model was lost, or if another handle has already closed the service.
    pub fn close(self) -> Result<(Solver, RunSummary), Error> {
        self.shared.close();
        let thread = lock(&self.thread).take();
        let thread = thread.ok_or(ServiceError::Closed)?;
        let (solver, outcome) = thread
            .join()
            .map_err(|_| ServiceError::Lost(Cause::from("the engine's thread panicked")))?;
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

/// The state of a [`Service`] after its last pass or its last result.
#[derive(Debug, Clone, PartialEq, Default)]
#[non_exhaustive]
pub struct ServiceStats {
    /// The number of problems in flight.
    pub in_flight: usize,
    /// The KV cache that chains in flight hold in generator and scorer together, in bytes.
    pub cache_bytes: u64,
    /// The costs of all searches since the start of the service.
    pub ledger: Ledger,
    /// The number of verdicts that checker commands failed to give.
    pub lost_verdicts: u64,
}

/// Closes the queue when the last handle is gone.
struct Open(Arc<Shared>);

impl Drop for Open {
    fn drop(&mut self) {
        self.0.close();
    }
}

/// Locks a mutex, even if a thread panicked with the lock: no change under a lock is ever partial.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Waits for a notification. Ignores the panic of another thread, for the reason given at [`lock`].
fn wait<'a, T>(changed: &Condvar, guard: MutexGuard<'a, T>) -> MutexGuard<'a, T> {
    changed.wait(guard).unwrap_or_else(PoisonError::into_inner)
}
