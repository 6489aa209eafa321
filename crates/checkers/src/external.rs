//! A checker that runs the user's program; both talk in JSON lines (docs/rewards/checkers.md).
//!
//! The program runs in several processes, and each process may have several unanswered steps. If a
//! process dies, is late or writes nonsense, only the step that waited longest loses its verdict.
//! The process is then started again, and its other steps are sent again.

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

/// The number of times in a row that a process may end without an answer before it is given up.
const MAX_FAILURES: u32 = 3;

/// The number of lines without an answer, since the last answer, at which a process is restarted.
const MAX_NOISE: u32 = 1000;

/// The capacity of the event queue. Threads that read output block while the queue is full.
const QUEUE: usize = 256;

/// The settings for running a checker's program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExternalConfig {
    /// The command line, which `sh -c` runs.
    pub command: String,
    /// The number of processes that run the program; 0 counts as 1.
    pub workers: usize,
    /// The maximum number of unanswered steps per process; 0 counts as 1.
    pub in_flight: usize,
    /// The time after which a process with unanswered steps is stopped if it has not answered any.
    pub timeout: Duration,
    /// The helper process that starts the program's processes.
    pub launcher: Launcher,
}

impl ExternalConfig {
    /// Returns settings for a command: 2 processes, 16 unanswered steps each, and 10 seconds.
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

/// The error if the helper process that starts programs cannot be started itself.
#[derive(Debug, thiserror::Error)]
#[error("the checker {command:?} cannot be started: {source}")]
pub struct ExternalError {
    command: String,
    source: LaunchError,
}

/// The texts of a chain, which every request about the chain repeats.
#[derive(Clone, Debug)]
struct Given {
    problem: Arc<str>,
    steps: Vec<Arc<str>>,
}

/// A checker whose verdicts come from the user's program.
#[derive(Debug)]
pub struct External {
    config: ExternalConfig,
    chains: HashMap<ScoreId, Given>,
    next_chain: u64,
    next_request: u64,
    next_batch: u64,
    /// The requests that no process has received yet.
    waiting: VecDeque<Request>,
    /// The batches with their numbers, oldest first, until their verdicts are returned.
    batches: BTreeMap<u64, Batch>,
    workers: Vec<Worker>,
    starts: u64,
    events: Receiver<(Source, Event)>,
    waker: Waker,
    lost: Lost,
}

/// The verdicts of one call.
#[derive(Debug)]
struct Batch {
    /// The verdicts by item and step; [`Verdict::Lost`] before the answer.
    verdicts: Vec<Vec<Verdict>>,
    /// The number of steps in the batch that wait for an answer.
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
        // If the channel is full, the reader has an event to read already.
        let _ = self.to_events.try_send((Source::default(), Event::Wake));
    }

    /// Makes the thread that drives this checker end; its unanswered steps get no verdicts.
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
    /// The unanswered requests, oldest first.
    given: VecDeque<Request>,
    /// The time since which the oldest wait counts: the last answer or, after idling, the first
    /// request.
    since: Option<Instant>,
    /// The number of times in a row that the process ended without an answer.
    failures: u32,
    noise: u32,
    given_up: bool,
}

/// A request for one step's verdict.
#[derive(Debug, Clone)]
struct Request {
    id: u64,
    batch: u64,
    chain: ScoreId,
    /// The index of the item in its batch, and of the step in its item.
    place: (usize, usize),
    line: Arc<str>,
}

impl External {
    /// Starts the program.
    ///
    /// # Errors
    /// Returns an error if the launcher cannot be started. An invalid command does not fail here,
    /// but loses verdicts later.
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
        // One process is started now, so that an error of the launcher is found at the start of a
        // run. The others are started when there is work for them.
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

    /// Appends each item's steps to its chain and queues a request per step. Returns the batch's
    /// number.
    fn ask(&mut self, items: &[CheckItem<'_>]) -> u64 {
        self.next_batch += 1;
        let batch = self.next_batch;
        let mut open = 0;
        for (i, item) in items.iter().enumerate() {
            let chain = self.chains.get_mut(&item.id).expect("an open chain");
            for (j, step) in item.steps.iter().enumerate() {
                // Appended first, since the request contains the step that is to be judged.
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

    /// Removes and returns the batches that have all their verdicts.
    fn settled(&mut self) -> Vec<(u64, Vec<Vec<Verdict>>)> {
        let open = std::mem::take(&mut self.batches).into_iter();
        let (done, open): (BTreeMap<_, _>, _) = open.partition(|(_, batch)| batch.open == 0);
        self.batches = open;
        let done = done.into_iter();
        done.map(|(number, batch)| (number, batch.verdicts))
            .collect()
    }

    /// Stores the verdict of a request in its batch.
    fn settle(&mut self, request: &Request, verdict: Verdict) {
        // The batch always exists: it is removed only after all its requests were settled.
        if let Some(batch) = self.batches.get_mut(&request.batch) {
            let (item, step) = request.place;
            batch.verdicts[item][step] = verdict;
            batch.open -= 1;
        }
    }

    /// Counts a request as lost.
    fn lose(&mut self, request: &Request) {
        self.lost.verdicts += 1;
        self.settle(request, Verdict::Lost);
    }

    /// Sends queued requests and waits for the next event, but not if all processes are idle.
    fn turn(&mut self) {
        self.hand_out();
        let timeout = self.config.timeout;
        // Idle processes send no events, so waiting for one could last forever.
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
            // Cannot happen: `self.waker` holds a sender.
            Err(RecvTimeoutError::Disconnected) => {}
        }
    }

    /// Sends queued requests to processes that have room. If all processes are given up, the
    /// requests lose their verdicts.
    fn hand_out(&mut self) {
        let most = self.config.in_flight.max(1);
        while !self.waiting.is_empty() {
            // The process with the fewest requests is chosen and, among equals, the one that
            // answered last, so that few requests wait behind a slow step.
            let workers = self.workers.iter().enumerate();
            let free = workers.filter(|(_, w)| !w.given_up && w.given.len() < most);
            let Some((index, _)) = free.min_by_key(|(_, w)| (w.given.len(), Reverse(w.since)))
            else {
                break;
            };
            // A process that ended while idle is restarted only now, because there is work for it.
            if self.workers[index].process.is_none() && self.spawn(index).is_err() {
                self.lost.crashes += 1;
                self.workers[index].given_up = true;
                continue;
            }
            let Some(request) = self.waiting.pop_front() else {
                break;
            };
            let worker = &mut self.workers[index];
            // The time limit of an idle process starts with this request, not with its last answer.
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
        // The event is from a process that was replaced; its requests are queued again already.
        if worker.process.as_ref().is_none_or(|of| of.source != source) {
            return;
        }
        match event {
            Event::Line(line) => {
                // Answers may come in any order. An unknown id, or one that was answered before, is
                // noise.
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
            // An idle process may exit: nothing is lost.
            Event::Ended if worker.given.is_empty() => worker.process = None,
            Event::Ended => self.crashed(source.worker),
            Event::Wake => {}
        }
    }

    fn noise(&mut self, index: usize) {
        self.lost.noise += 1;
        self.workers[index].noise += 1;
        // Otherwise a program that prints without end would block its requests until the time
        // limit.
        if self.workers[index].noise >= MAX_NOISE && !self.workers[index].given.is_empty() {
            self.crashed(index);
        }
    }

    fn crashed(&mut self, index: usize) {
        self.lost.crashes += 1;
        self.restart(index);
    }

    /// Restarts every process that did not answer in time.
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

    /// Ends a process. The oldest request loses its verdict, all other requests are queued again.
    fn restart(&mut self, index: usize) {
        let worker = &mut self.workers[index];
        let end = worker.process.take().map(Process::end);
        // Most programs answer in order, so the oldest request is the likeliest cause. If it were
        // sent again, it could end one process after another.
        let culprit = worker.given.pop_front();
        // Taken from the back and put at the front, so that the order of the requests is kept.
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
    /// Returns the time at which the process is too late; `None` while the process is idle.
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

    /// Forgets a chain. Requests about the chain that were not sent are dropped as abstentions.
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
