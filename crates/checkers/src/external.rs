//! A checker that is a program of the user's, asked in JSON lines (docs/rewards/checkers.md).
//!
//! Several processes of the program answer, each with several steps in flight. A process that dies,
//! is late or writes nonsense costs only verdicts: the verdict on the step that waited longest is
//! lost and counted, the process is started again, and the other steps are sent again.

mod process;
mod protocol;
mod scorer;

use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::time::{Duration, Instant};

use beamgen_launcher::{LaunchError, Launcher};
use beamgen_search::ScoreId;

use self::process::{Event, Process, Source};
pub use self::scorer::{ExternalScorer, LostSoFar};
use crate::{CheckItem, Checker, Lost, Verdict};

/// The number of ends in a row without an answer after which a process is not started again.
const MAX_FAILURES: u32 = 3;

/// The number of lines that are not answers, between two answers, at which a process counts as
/// broken.
const MAX_NOISE: u32 = 1000;

/// The most events in the queue. A process that writes more has to wait.
const QUEUE: usize = 256;

/// The settings of an external checker.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExternalConfig {
    /// The command line, run by `sh -c`.
    pub command: String,
    /// The number of processes.
    pub workers: usize,
    /// The most unanswered steps of a process.
    pub in_flight: usize,
    /// The longest time in which a process with unanswered steps may answer none.
    pub timeout: Duration,
    /// The helper process that starts the program.
    pub launcher: Launcher,
}

impl ExternalConfig {
    /// Returns the default settings for a command.
    #[must_use]
    pub fn new(command: impl Into<String>) -> Self {
        Self {
            command: command.into(),
            workers: 2,
            in_flight: 16,
            timeout: Duration::from_secs(10),
            launcher: Launcher::default(),
        }
    }
}

/// The error if the launcher, which starts the checker's program, cannot be started.
#[derive(Debug, thiserror::Error)]
#[error("the checker {command:?} cannot be started: {source}")]
pub struct ExternalError {
    command: String,
    source: LaunchError,
}

/// The text of a chain.
#[derive(Clone, Debug)]
struct Given {
    problem: Arc<str>,
    steps: Vec<Arc<str>>,
}

/// A checker that runs a program of the user's.
#[derive(Debug)]
pub struct External {
    config: ExternalConfig,
    chains: HashMap<ScoreId, Given>,
    next_chain: u64,
    next_request: u64,
    next_batch: u64,
    /// Requests that no worker has yet.
    waiting: VecDeque<Request>,
    /// Unsettled batches by number, in the order of submission.
    batches: BTreeMap<u64, Batch>,
    workers: Vec<Worker>,
    starts: u64,
    events: Receiver<(Source, Event)>,
    waker: Waker,
    lost: Lost,
}

/// Verdicts that are requested together.
#[derive(Debug)]
struct Batch {
    /// Verdicts by item and step, [`Verdict::Lost`] until the answer arrives.
    verdicts: Vec<Vec<Verdict>>,
    /// The number of requests that are not settled.
    open: usize,
}

/// Ends a wait for events from another thread.
#[derive(Clone, Debug)]
struct Waker {
    stopped: Arc<AtomicBool>,
    to_events: SyncSender<(Source, Event)>,
}

impl Waker {
    fn wake(&self) {
        // A full channel means that the reader already has an event.
        let _ = self.to_events.try_send((Source::default(), Event::Wake));
    }

    /// Stops the checker for good: no further step is sent.
    fn stop(&self) {
        self.stopped.store(true, Ordering::Release);
        self.wake();
    }

    fn is_stopped(&self) -> bool {
        self.stopped.load(Ordering::Acquire)
    }
}

#[derive(Debug, Default)]
struct Worker {
    process: Option<Process>,
    /// Unanswered requests, oldest first.
    given: VecDeque<Request>,
    /// The time of the last answer, or of the first request after an idle time.
    since: Option<Instant>,
    /// Ends of the process in a row without an answer.
    failures: u32,
    noise: u32,
    given_up: bool,
}

/// A request for the verdict on one step.
#[derive(Debug, Clone)]
struct Request {
    id: u64,
    batch: u64,
    chain: ScoreId,
    /// The indices of the item and the step in the batch.
    place: (usize, usize),
    line: Arc<str>,
}

impl External {
    /// Starts the program.
    ///
    /// # Errors
    /// [`ExternalError`] if the launcher cannot be started. A faulty command is found only at the
    /// first request.
    pub fn start(config: ExternalConfig) -> Result<Self, ExternalError> {
        let (to_events, events) = sync_channel(QUEUE);
        let mut external = Self {
            workers: (0..config.workers.max(1))
                .map(|_| Worker::default())
                .collect(),
            config,
            chains: HashMap::new(),
            next_chain: 0,
            next_request: 0,
            next_batch: 0,
            waiting: VecDeque::new(),
            batches: BTreeMap::new(),
            starts: 0,
            events,
            waker: Waker {
                stopped: Arc::default(),
                to_events,
            },
            lost: Lost::default(),
        };
        // One process now, the others when they have work: an error of the launcher is found at the
        // start of a run and not in the middle.
        let started = external.spawn(0);
        let command = external.config.command.clone();
        started.map_err(|source| ExternalError { command, source })?;
        Ok(external)
    }

    fn spawn(&mut self, worker: usize) -> Result<(), LaunchError> {
        self.starts += 1;
        let source = Source {
            worker,
            start: self.starts,
        };
        let ExternalConfig {
            launcher, command, ..
        } = &self.config;
        let events = self.waker.to_events.clone();
        let process = Process::start(launcher, command, source, events)?;
        self.workers[worker].process = Some(process);
        Ok(())
    }

    fn add(&mut self, chain: Given) -> ScoreId {
        self.next_chain += 1;
        let id = ScoreId(self.next_chain);
        self.chains.insert(id, chain);
        id
    }

    /// Appends each item's steps to its chain and requests verdicts. Returns the batch's number.
    fn ask(&mut self, items: &[CheckItem<'_>]) -> u64 {
        self.next_batch += 1;
        let batch = self.next_batch;
        let mut open = 0;
        for (i, item) in items.iter().enumerate() {
            let chain = self.chains.get_mut(&item.id).expect("an open chain");
            for (j, step) in item.steps.iter().enumerate() {
                // Pushed before the request is made: a request has the step that it asks about,
                // too.
                chain.steps.push((*step).into());
                self.next_request += 1;
                let id = self.next_request;
                match protocol::request(id, &chain.problem, &chain.steps) {
                    Some(line) => {
                        open += 1;
                        self.waiting.push_back(Request {
                            id,
                            batch,
                            chain: item.id,
                            place: (i, j),
                            line: line.into(),
                        });
                    }
                    None => self.lost.verdicts += 1,
                }
            }
        }
        let items = items.iter();
        let verdicts = items
            .map(|item| vec![Verdict::Lost; item.steps.len()])
            .collect();
        self.batches.insert(batch, Batch { verdicts, open });
        batch
    }

    /// Returns the batches that are settled since the last call.
    fn settled(&mut self) -> Vec<(u64, Vec<Vec<Verdict>>)> {
        let open = std::mem::take(&mut self.batches).into_iter();
        let (done, open): (BTreeMap<_, _>, _) = open.partition(|(_, batch)| batch.open == 0);
        self.batches = open;
        let done = done.into_iter();
        done.map(|(number, batch)| (number, batch.verdicts))
            .collect()
    }

    /// Records the verdict of a request.
    fn settle(&mut self, request: &Request, verdict: Verdict) {
        // Never missing in practice: a batch leaves the map only when all its requests are settled.
        if let Some(batch) = self.batches.get_mut(&request.batch) {
            let (item, step) = request.place;
            batch.verdicts[item][step] = verdict;
            batch.open -= 1;
        }
    }

    /// Records that the verdict of a request is lost.
    fn lose(&mut self, request: &Request) {
        self.lost.verdicts += 1;
        self.settle(request, Verdict::Lost);
    }

    /// Sends requests to workers, and handles the next event if one can come.
    fn turn(&mut self) {
        self.hand_out();
        let timeout = self.config.timeout;
        // Without an unanswered request no event is owed, and waiting for one would never end.
        let deadlines = self.workers.iter();
        let Some(deadline) = deadlines
            .filter_map(|worker| worker.deadline(timeout))
            .min()
        else {
            return;
        };
        let left = deadline.saturating_duration_since(Instant::now());
        match self.events.recv_timeout(left) {
            Ok((source, event)) => self.take(source, event),
            Err(RecvTimeoutError::Timeout) => self.end_late(),
            // Cannot happen: `self.waker` has a sender.
            Err(RecvTimeoutError::Disconnected) => {}
        }
    }

    /// Sends requests to workers with room. Requests that no worker can ever take lose their
    /// verdicts.
    fn hand_out(&mut self) {
        let most = self.config.in_flight.max(1);
        while !self.waiting.is_empty() {
            // The worker with the fewest requests; among several the one that answered last, so
            // that few requests wait after a slow step.
            let workers = self.workers.iter().enumerate();
            let free = workers.filter(|(_, w)| !w.given_up && w.given.len() < most);
            let Some((index, _)) = free.min_by_key(|(_, w)| (w.given.len(), Reverse(w.since)))
            else {
                break;
            };
            // Started only when it has work: a process that ended while idle may never be needed
            // again.
            if self.workers[index].process.is_none() && self.spawn(index).is_err() {
                self.lost.crashes += 1;
                self.workers[index].given_up = true;
                continue;
            }
            let Some(request) = self.waiting.pop_front() else {
                break;
            };
            let worker = &mut self.workers[index];
            // An idle worker's clock starts now: the time since its last answer was no delay.
            if worker.given.is_empty() {
                worker.since = Some(Instant::now());
            }
            if let Some(process) = &worker.process {
                process.write(Arc::clone(&request.line));
            }
            worker.given.push_back(request);
        }
        if self.workers.iter().all(|worker| worker.given_up) {
            for request in std::mem::take(&mut self.waiting) {
                self.lose(&request);
            }
        }
    }

    fn take(&mut self, source: Source, event: Event) {
        let worker = &mut self.workers[source.worker];
        // An event of a process that was ended: its requests were already sent to others.
        if worker.process.as_ref().is_none_or(|of| of.source != source) {
            return;
        }
        match event {
            Event::Line(line) => {
                // Answers may come in any order. An id that was not sent, or was answered before,
                // is noise.
                let answer = protocol::answer(&line).and_then(|(id, verdict)| {
                    let at = worker.given.iter().position(|r| r.id == id)?;
                    Some((worker.given.remove(at)?, verdict))
                });
                let Some((request, verdict)) = answer else {
                    return self.noise(source.worker);
                };
                worker.since = Some(Instant::now());
                // Only failures in a row count: a program that crashes on one step in a thousand is
                // useful.
                (worker.failures, worker.noise) = (0, 0);
                self.settle(&request, verdict);
            }
            Event::TooLong => self.noise(source.worker),
            // A program may exit when it is idle, without a loss.
            Event::Ended if worker.given.is_empty() => worker.process = None,
            Event::Ended => self.crashed(source.worker),
            Event::Wake => {}
        }
    }

    fn noise(&mut self, index: usize) {
        self.lost.noise += 1;
        self.workers[index].noise += 1;
        // A program that prints without end would otherwise keep its worker busy until the timeout.
        if self.workers[index].noise >= MAX_NOISE && !self.workers[index].given.is_empty() {
            self.crashed(index);
        }
    }

    fn crashed(&mut self, index: usize) {
        self.lost.crashes += 1;
        self.restart(index);
    }

    /// Restarts the workers that did not answer in time.
    fn end_late(&mut self) {
        let now = Instant::now();
        for index in 0..self.workers.len() {
            let deadline = self.workers[index].deadline(self.config.timeout);
            if deadline.is_some_and(|deadline| deadline <= now) {
                self.lost.timeouts += 1;
                self.restart(index);
            }
        }
    }

    /// Ends a worker's process. The request that waited longest loses its verdict; the others are
    /// sent again.
    fn restart(&mut self, index: usize) {
        let worker = &mut self.workers[index];
        let end = worker.process.take().map(Process::end);
        // Programs answer mostly in order, so the oldest request is the likeliest cause. Without a
        // culprit the same step would kill every process that it is sent to.
        let culprit = worker.given.pop_front();
        // From the back to the front of the queue, so the order of the requests stays.
        while let Some(request) = worker.given.pop_back() {
            self.waiting.push_front(request);
        }
        worker.since = None;
        worker.noise = 0;
        worker.failures += 1;
        if worker.failures >= MAX_FAILURES {
            worker.given_up = true;
            let how = end.unwrap_or_default();
            self.lost.given_up.get_or_insert(format!(
                "it ended {MAX_FAILURES} times in a row without an answer; the last time {how}"
            ));
        }
        if let Some(culprit) = culprit {
            self.lose(&culprit);
        }
    }
}

impl Worker {
    /// Returns the time of the worker's next answer at the latest; `None` while the worker is idle.
    fn deadline(&self, timeout: Duration) -> Option<Instant> {
        let since = self.since.filter(|_| !self.given.is_empty())?;
        Some(since + timeout)
    }
}

impl Checker for External {
    fn open(&mut self, problem: &str) -> ScoreId {
        self.add(Given {
            problem: problem.into(),
            steps: Vec::new(),
        })
    }

    fn fork(&mut self, id: ScoreId) -> ScoreId {
        let copy = self.chains[&id].clone();
        self.add(copy)
    }

    /// Forgets a chain. Requests about its steps that no worker has yet are not sent.
    fn release(&mut self, id: ScoreId) {
        self.chains.remove(&id);
        let waiting = std::mem::take(&mut self.waiting).into_iter();
        let (dead, waiting): (VecDeque<_>, _) = waiting.partition(|request| request.chain == id);
        self.waiting = waiting;
        for request in dead {
            self.settle(&request, Verdict::Abstain);
        }
    }

    fn check(&mut self, items: &[CheckItem<'_>]) -> Vec<Vec<Verdict>> {
        let batch = self.ask(items);
        while self.batches[&batch].open > 0 {
            self.turn();
        }
        let settled = self.batches.remove(&batch);
        settled.map_or(Vec::new(), |batch| batch.verdicts)
    }

    fn lost(&self) -> Option<Lost> {
        Some(self.lost.clone())
    }
}
