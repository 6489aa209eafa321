//! A solver on a thread of its own, for services: any thread hands requests in and takes results.
//!
//! The engine's thread takes requests from a bounded queue between two passes, so intake never
//! blocks what is in flight. Progress is kept for a slow reader up to a bound, the oldest is
//! dropped beyond it; results are never dropped.

use std::cell::RefCell;
use std::collections::{BTreeMap, VecDeque};
use std::future::Future;
use std::ops::ControlFlow;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use std::thread::JoinHandle;
use std::time::Duration;

use beamgen_checkers::LostSoFar;
use beamgen_search::{
    CancelToken, Cause, ConfigError, Event, GenError, GivenChain, Intake, Ledger, Next,
    ProblemResult, RunSummary, ScoreError, Settings, Sink, Stopped,
};

use crate::config::Defaults;
use crate::long_texts::TextLimits;
use crate::progress::Progress;
use crate::request::{OnProgress, Request};
use crate::solver::WallClock;
use crate::{Error, Solver};

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

/// Why a request was not taken, or has no result.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum ServiceError {
    /// The queue is full: try again later.
    #[error("the queue is full: {waiting} requests wait")]
    Full {
        /// Requests that wait.
        waiting: usize,
    },
    /// The service was closed.
    #[error("the service is closed")]
    Closed,
    /// Settings that cannot be run.
    #[error(transparent)]
    Setting(#[from] ConfigError),
    /// A model is lost, and the service with it.
    #[error("the service ended: {0}")]
    Lost(Cause),
}

impl Solver {
    /// Puts the solver on a thread of its own, which any number of threads hand requests to.
    pub fn spawn(self, options: ServiceOptions) -> Service {
        Service::start(self, options)
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

/// What the engine's thread leaves behind.
type Ended = (Solver, Result<RunSummary, Error>);

impl Service {
    pub(crate) fn start(mut solver: Solver, options: ServiceOptions) -> Self {
        let clock = WallClock::start();
        let shared = Arc::new(Shared {
            clock,
            options,
            state: Mutex::default(),
            arrived: Condvar::new(),
            next_ticket: AtomicU64::new(0),
            stats: Mutex::default(),
        });
        let defaults = Arc::new(solver.settings());
        let limits = solver.limits.clone();
        let lost = solver.lost.iter().map(|(_, lost)| lost.clone()).collect();
        let engine = Arc::clone(&shared);
        let thread = std::thread::spawn(move || {
            let guard = EndGuard(Arc::clone(&engine));
            let running = Rc::new(RefCell::new(Running::default()));
            let mut intake = QueueIntake {
                shared: Arc::clone(&engine),
                running: Rc::clone(&running),
                solver: solver.defaults(),
            };
            let mut sink = TicketSink {
                shared: Arc::clone(&engine),
                running,
            };
            let outcome = solver.serve(clock, &mut intake, &mut sink);
            let lost = match &outcome {
                Ok(_) => ServiceError::Closed,
                Err(error) => ServiceError::Lost(Cause::from(error.to_string())),
            };
            engine.end(&lost);
            sink.running.borrow_mut().end(&lost);
            drop(guard);
            (solver, outcome)
        });
        Self {
            _open: Arc::new(Open(Arc::clone(&shared))),
            shared,
            thread: Arc::new(Mutex::new(Some(thread))),
            defaults,
            limits,
            lost,
        }
    }

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
        match self.limits.check_request(&request) {
            Err(error) => self.shared.refuse(request, &error),
            Ok(()) => self.shared.submit(request),
        }
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
        let gone = || Error::Refused("the service was closed already".to_owned());
        let (solver, outcome) = thread
            .ok_or_else(gone)?
            .join()
            .map_err(|_| Error::Refused("the engine's thread panicked".to_owned()))?;
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

/// Ends all tickets if the engine's thread ends in a panic.
struct EndGuard(Arc<Shared>);

impl Drop for EndGuard {
    fn drop(&mut self) {
        let lost = ServiceError::Lost(Cause::from("the engine's thread panicked"));
        self.0.end(&lost);
    }
}

struct Shared {
    clock: WallClock,
    options: ServiceOptions,
    state: Mutex<QueueState>,
    /// A request came, or the queue was closed.
    arrived: Condvar,
    next_ticket: AtomicU64,
    stats: Mutex<ServiceStats>,
}

#[derive(Default)]
struct QueueState {
    queue: VecDeque<Waiting>,
    /// Steps to be scored beside the search.
    scoring: VecDeque<GivenChain>,
    /// Tickets whose problems are in flight, for the end of the service.
    in_flight: Vec<Arc<TicketState>>,
    closed: bool,
    /// Why nothing is taken any more.
    ended: Option<ServiceError>,
}

struct Waiting {
    request: Request,
    deadline: Option<Duration>,
    ticket: Arc<TicketState>,
}

impl QueueState {
    /// Whether one more is taken where so many wait.
    fn admit(&self, waiting: usize, most: usize) -> Result<(), ServiceError> {
        match &self.ended {
            Some(ended) => Err(ended.clone()),
            None if self.closed => Err(ServiceError::Closed),
            None if waiting >= most => Err(ServiceError::Full { waiting }),
            None => Ok(()),
        }
    }
}

impl QueueState {
    /// Ends the requests whose deadline passed while they waited.
    fn give_up_overdue(&mut self, now: Duration) {
        let overdue = |w: &Waiting| w.deadline.is_some_and(|deadline| deadline <= now);
        while let Some(at) = self.queue.iter().position(overdue) {
            if let Some(waiting) = self.queue.remove(at) {
                waiting.give_up(Stopped::Deadline);
            }
        }
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, QueueState> {
        lock(&self.state)
    }

    fn ticket(&self, request: &mut Request) -> Arc<TicketState> {
        let cancel = request.cancel.get_or_insert_default().clone();
        Arc::new(TicketState {
            number: self.next_ticket.fetch_add(1, Ordering::Relaxed),
            cancel,
            most_events: request.most_events.unwrap_or(self.options.events),
            has_callback: request.on_progress.is_some(),
            on_progress: Mutex::new(request.on_progress.take()),
            inner: Mutex::default(),
            changed: Condvar::new(),
        })
    }

    /// A ticket whose problem is refused already. It takes no place in the queue.
    fn refuse(
        self: &Arc<Self>,
        mut request: Request,
        error: &GenError,
    ) -> Result<Ticket, ServiceError> {
        self.lock().admit(0, usize::MAX)?;
        let ticket = self.ticket(&mut request);
        let mut result = ProblemResult::unsearched(0, request.problem);
        (result.error, result.too_long) = (Some(error.to_string()), error.is_too_long());
        ticket.finish(Ok(result));
        Ok(Ticket {
            state: ticket,
            shared: Arc::clone(self),
        })
    }

    fn submit(self: &Arc<Self>, mut request: Request) -> Result<Ticket, ServiceError> {
        let mut state = self.lock();
        state.admit(state.queue.len(), self.options.queue)?;
        let ticket = self.ticket(&mut request);
        let now = self.clock.elapsed();
        let deadline = request.timeout.map(|timeout| now.saturating_add(timeout));
        state.queue.push_back(Waiting {
            request,
            deadline,
            ticket: Arc::clone(&ticket),
        });
        drop(state);
        self.arrived.notify_one();
        Ok(Ticket {
            state: ticket,
            shared: Arc::clone(self),
        })
    }

    fn queue_scoring(&self, given: GivenChain) -> Result<(), ServiceError> {
        let mut state = self.lock();
        state.admit(state.scoring.len(), self.options.queue)?;
        state.scoring.push_back(given);
        drop(state);
        self.arrived.notify_one();
        Ok(())
    }

    fn close(&self) {
        self.lock().closed = true;
        self.arrived.notify_all();
    }

    /// Nothing more is solved.
    fn end(&self, why: &ServiceError) {
        let mut state = self.lock();
        state.closed = true;
        state.ended.get_or_insert_with(|| why.clone());
        let queued = std::mem::take(&mut state.queue);
        let scoring = std::mem::take(&mut state.scoring);
        let in_flight = std::mem::take(&mut state.in_flight);
        drop(state);
        drop(scoring);
        for ticket in queued.into_iter().map(|w| w.ticket).chain(in_flight) {
            ticket.finish(Err(why.clone()));
        }
    }

    /// Takes a request that waits out of the queue, if it does.
    fn withdraw(&self, ticket: u64) -> Option<Waiting> {
        let mut state = self.lock();
        let at = state.queue.iter().position(|w| w.ticket.number == ticket)?;
        state.queue.remove(at)
    }
}

/// Tickets of the problems in flight by their place in the run.
#[derive(Default)]
struct Running {
    tickets: BTreeMap<usize, Arc<TicketState>>,
    next: usize,
}

impl Running {
    fn end(&mut self, why: &ServiceError) {
        for (_, ticket) in std::mem::take(&mut self.tickets) {
            ticket.finish(Err(why.clone()));
        }
    }
}

struct QueueIntake {
    shared: Arc<Shared>,
    running: Rc<RefCell<Running>>,
    solver: Defaults,
}

impl Intake for QueueIntake {
    fn next(&mut self, idle: bool) -> Next {
        let mut state = self.shared.lock();
        loop {
            let now = self.shared.clock.elapsed();
            state.give_up_overdue(now);
            if let Some(waiting) = state.queue.pop_front() {
                state.in_flight.retain(|ticket| !ticket.is_done());
                state.in_flight.push(Arc::clone(&waiting.ticket));
                drop(state);
                let mut running = self.running.borrow_mut();
                let index = running.next;
                running.next += 1;
                running.tickets.insert(index, waiting.ticket);
                let settings = self.solver.resolve(waiting.request.settings.clone());
                let mut request = waiting.request.for_search(Arc::new(settings), now);
                request.deadline = waiting.deadline;
                return Next::Request(Box::new(request));
            }
            // They are taken before the next turn.
            let busy = !idle || !state.scoring.is_empty();
            match (busy, state.closed) {
                (_, true) if state.scoring.is_empty() => return Next::Closed,
                (true, _) => return Next::Waiting,
                (false, _) => {}
            }
            let woken = self.shared.arrived.wait(state);
            state = woken.unwrap_or_else(PoisonError::into_inner);
        }
    }

    fn given(&mut self) -> Option<GivenChain> {
        let mut state = self.shared.lock();
        state.give_up_overdue(self.shared.clock.elapsed());
        state.scoring.pop_front()
    }
}

impl Waiting {
    /// Ends a request that was never begun.
    fn give_up(self, stopped: Stopped) {
        let mut result = ProblemResult::unsearched(0, self.request.problem);
        result.stopped = Some(stopped);
        self.ticket.finish(Ok(result));
    }
}

struct TicketSink {
    shared: Arc<Shared>,
    running: Rc<RefCell<Running>>,
}

impl Sink for TicketSink {
    fn event(&mut self, event: Event<'_>) {
        match event {
            Event::Pass {
                in_flight,
                cache_bytes,
                ledger,
                ..
            } => {
                let mut stats = lock(&self.shared.stats);
                *stats = ServiceStats {
                    in_flight,
                    cache_bytes,
                    ledger: ledger.clone(),
                    ..ServiceStats::default()
                };
            }
            Event::ProblemDone { cache_bytes, .. } => {
                lock(&self.shared.stats).cache_bytes = cache_bytes;
            }
            _ => {}
        }
        let running = self.running.borrow();
        let ticket = Progress::index(&event).and_then(|index| running.tickets.get(&index));
        if let Some(ticket) = ticket.filter(|ticket| ticket.has_reader())
            && let Some(progress) = Progress::of(&event)
        {
            ticket.tell(progress);
        }
    }

    fn result(&mut self, result: ProblemResult) -> ControlFlow<()> {
        let mut running = self.running.borrow_mut();
        let ticket = running.tickets.remove(&result.index);
        lock(&self.shared.stats).in_flight = running.tickets.len();
        drop(running);
        if let Some(ticket) = ticket {
            ticket.finish(Ok(result));
        }
        ControlFlow::Continue(())
    }
}

struct TicketState {
    number: u64,
    cancel: CancelToken,
    most_events: usize,
    has_callback: bool,
    on_progress: Mutex<Option<OnProgress>>,
    inner: Mutex<Outcome>,
    changed: Condvar,
}

#[derive(Default)]
struct Outcome {
    events: VecDeque<Progress>,
    /// Events dropped because nobody took them in time.
    missed: u64,
    result: Option<Result<ProblemResult, ServiceError>>,
    done: bool,
    waker: Option<Waker>,
}

impl TicketState {
    fn is_done(&self) -> bool {
        lock(&self.inner).done
    }

    /// Whether anybody is told what happens.
    fn has_reader(&self) -> bool {
        self.most_events > 0 || self.has_callback
    }

    fn tell(&self, progress: Progress) {
        if let Some(observe) = &mut *lock(&self.on_progress) {
            observe(&progress);
        }
        let mut inner = lock(&self.inner);
        if inner.events.len() >= self.most_events {
            inner.events.pop_front();
            inner.missed += 1;
        }
        if self.most_events > 0 {
            inner.events.push_back(progress);
        }
        let waker = inner.waker.take();
        drop(inner);
        self.changed.notify_all();
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    fn finish(&self, result: Result<ProblemResult, ServiceError>) {
        let mut inner = lock(&self.inner);
        if inner.done {
            return;
        }
        inner.done = true;
        inner.result = Some(result);
        let waker = inner.waker.take();
        drop(inner);
        self.changed.notify_all();
        if let Some(waker) = waker {
            waker.wake();
        }
    }
}

/// A request that was taken. It is also a [`Future`] of its result, for any async runtime.
/// Dropping it changes nothing: the search goes on unless it is [cancelled](Self::cancel).
#[must_use = "the result is here"]
pub struct Ticket {
    state: Arc<TicketState>,
    shared: Arc<Shared>,
}

impl Ticket {
    /// Waits for the result.
    ///
    /// # Errors
    /// The service ended before.
    pub fn wait(self) -> Result<ProblemResult, ServiceError> {
        let mut inner = lock(&self.state.inner);
        loop {
            if let Some(result) = inner.result.take() {
                return result;
            }
            let woken = self.state.changed.wait(inner);
            inner = woken.unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// The result if it is there; the first call that finds it takes it.
    ///
    /// # Errors
    /// The service ended before.
    pub fn try_take(&mut self) -> Option<Result<ProblemResult, ServiceError>> {
        lock(&self.state.inner).result.take()
    }

    /// Whether the problem is done.
    pub fn is_done(&self) -> bool {
        self.state.is_done()
    }

    /// Ends the search, or takes the request out of the queue. The result says
    /// [`Stopped::Cancelled`], unless it was done before. Memory is free at the next pass.
    pub fn cancel(&self) {
        self.state.cancel.cancel();
        if let Some(waiting) = self.shared.withdraw(self.state.number) {
            waiting.give_up(Stopped::Cancelled);
        }
    }

    /// What happens, until the problem is done; waits for it. A slow reader misses the oldest
    /// events, never the result.
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
                let woken = self.state.changed.wait(inner);
                inner = woken.unwrap_or_else(PoisonError::into_inner);
            }
        })
    }

    /// [`events`](Self::events) for an async runtime: what happened since the last call, `None` once
    /// the problem is done and all was taken. As a future, the ticket then has its result.
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

    /// Events that were dropped because nobody took them in time.
    pub fn missed(&self) -> u64 {
        lock(&self.state.inner).missed
    }
}

impl Future for Ticket {
    type Output = Result<ProblemResult, ServiceError>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let mut inner = lock(&self.state.inner);
        match inner.result.take() {
            Some(result) => Poll::Ready(result),
            None => {
                inner.waker = Some(cx.waker().clone());
                Poll::Pending
            }
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

/// What is behind these locks stays usable if a thread panicked with one: every change is whole.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
