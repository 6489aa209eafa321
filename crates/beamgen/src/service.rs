//! A solver on its own thread, for services: any thread can submit requests and take results.
//!
//! The engine's thread takes requests from a bounded queue between two forward passes, so a new
//! request never blocks those in flight. A slow reader's events are kept up to a bound, beyond which
//! the oldest events are dropped. Results are never dropped.

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

/// The limits of a [`Service`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ServiceOptions {
    /// The most waiting requests; a further request fails with [`ServiceError::Full`].
    pub queue: usize,
    /// The most events that are kept for a ticket's slow reader.
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
    /// Moves the solver to its own thread, to which any number of threads can submit requests.
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

/// A handle to a solver on its own thread. Handles are cheap to clone. The service ends when the last
/// handle is dropped and all requests that it took are finished.
#[derive(Clone)]
pub struct Service {
    shared: Arc<Shared>,
    /// Closes the queue when the last handle is dropped.
    _open: Arc<Open>,
    thread: Arc<Mutex<Option<JoinHandle<Ended>>>>,
    defaults: Arc<Settings>,
    limits: TextLimits,
    /// The verdicts lost so far, for each checker that is a command.
    lost: Arc<[LostSoFar]>,
}

impl Service {
    /// Returns a request for a problem with the settings that the solver was built with.
    pub fn request(&self, problem: impl Into<beamgen_search::Problem>) -> Request {
        Request::new(problem, (*self.defaults).clone())
    }

    /// Queues a request. Never waits for requests in flight.
    ///
    /// A problem that cannot fit into the generator's context gets its result at once. The caller's
    /// thread counts the tokens of a long text, at about 400 tokens per millisecond and up to the
    /// context: on the engine's thread, all problems in flight would wait for the count.
    ///
    /// # Errors
    /// Returns an error if the queue is full, if the service has ended, or if the settings are invalid.
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

    /// Queues given steps of a problem to be scored by the solver's scorer. Searches continue
    /// meanwhile, also while a remote scorer has not answered. `reply` is called with the scores on
    /// the engine's thread, so it should be quick; it is dropped without a call if the service ends
    /// before. For a chain that is too long, `reply` is called at once, as for
    /// [`submit`](Self::submit).
    ///
    /// # Errors
    /// Returns an error if the queue is full or the service has ended.
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

    /// Queues many chains, each a problem and given steps, as [`score`](Self::score) does for one. They
    /// are scored in batches with the chains of other calls, which does not change their scores. `each`
    /// is called once for a chain, with its index: at once for those that are too long, in any order.
    /// Cancelling drops the chains that are not scored yet, and `each` with the last of them.
    ///
    /// # Errors
    /// The queue, in which a call counts as one request, is full, or the service has ended.
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
        for (reply, error) in refused {
            reply(Err(error));
        }
        Ok(())
    }

    /// Returns the number of requests that wait in the queue.
    pub fn waiting(&self) -> usize {
        self.shared.lock().queue.len()
    }

    /// Returns the number of running problems, and the costs so far.
    pub fn stats(&self) -> ServiceStats {
        ServiceStats {
            lost_verdicts: self.lost.iter().map(|lost| lost.get().verdicts).sum(),
            ..lock(&self.shared.stats).clone()
        }
    }

    /// Returns the reason why the service ended; `None` while it takes requests.
    pub fn ended(&self) -> Option<ServiceError> {
        self.shared.lock().ended.clone()
    }

    /// Closes the queue, waits until all requests are finished, and returns the solver with the run's
    /// summary.
    ///
    /// # Errors
    /// Returns an error if a model was lost, or if another handle has closed the service already.
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

/// The state of a [`Service`] after its last pass or result.
#[derive(Debug, Clone, PartialEq, Default)]
#[non_exhaustive]
pub struct ServiceStats {
    /// The number of running problems.
    pub in_flight: usize,
    /// The bytes of KV cache that the running problems' chains hold in both models.
    pub cache_bytes: u64,
    /// The costs so far.
    pub ledger: Ledger,
    /// The number of verdicts that checker commands did not give.
    pub lost_verdicts: u64,
}

/// Closes the queue when the last handle is gone.
struct Open(Arc<Shared>);

impl Drop for Open {
    fn drop(&mut self) {
        self.0.close();
    }
}

/// Locks a mutex, also after a thread panicked with the lock: changes under it are never partial.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Waits for a notification, as [`lock`] does for poisoned mutexes.
fn wait<'a, T>(changed: &Condvar, guard: MutexGuard<'a, T>) -> MutexGuard<'a, T> {
    changed.wait(guard).unwrap_or_else(PoisonError::into_inner)
}
