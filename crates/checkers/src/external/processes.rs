//! The processes of a program, and the requests that they have not answered.
//!
//! If a process dies, is late or writes nonsense, only the request that waited longest is lost. The
//! process is then started again, and its other requests are sent again.

use std::cmp::Reverse;
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::time::{Duration, Instant};

use beamgen_launcher::LaunchError;

use super::process::{Event, Process, Source};
use super::protocol::{self, Answer};
use super::{ExternalConfig, ExternalError};
use crate::Lost;

/// The number of times in a row that a process may end without an answer before it is given up.
const MAX_FAILURES: u32 = 3;

/// The number of lines without an answer, since the last answer, at which a process is restarted.
const MAX_NOISE: u32 = 1000;

/// The capacity of the event queue. Threads that read output block while the queue is full.
const QUEUE: usize = 256;

/// The processes that run one program. `K` is the caller's name for a request.
#[derive(Debug)]
pub(crate) struct Processes<K> {
    config: ExternalConfig,
    next_request: u64,
    /// The requests that no process has received yet.
    waiting: VecDeque<Request<K>>,
    workers: Vec<Worker<K>>,
    starts: u64,
    events: Receiver<(Source, Event)>,
    pub(crate) waker: Waker,
    pub(crate) lost: Lost,
    /// The requests that were answered or, without an answer, lost.
    settled: Vec<(K, Option<Answer>)>,
}

/// Ends a wait for events from another thread.
#[derive(Clone, Debug)]
pub(crate) struct Waker {
    stopped: Arc<AtomicBool>,
    to_events: SyncSender<(Source, Event)>,
}

impl Waker {
    pub(crate) fn wake(&self) {
        // If the channel is full, the reader has an event to read already.
        let _ = self.to_events.try_send((Source::default(), Event::Wake));
    }

    /// Makes the thread that drives the processes end; their unanswered requests get no answers.
    pub(crate) fn stop(&self) {
        self.stopped.store(true, Ordering::Release);
        self.wake();
    }

    pub(crate) fn is_stopped(&self) -> bool {
        self.stopped.load(Ordering::Acquire)
    }
}

#[derive(Debug)]
struct Worker<K> {
    process: Option<Process>,
    /// The unanswered requests, oldest first.
    given: VecDeque<Request<K>>,
    /// The time since which the oldest wait counts: the last answer or, after idling, the first
    /// request.
    since: Option<Instant>,
    /// The number of times in a row that the process ended without an answer.
    failures: u32,
    noise: u32,
    given_up: bool,
}

/// A request that waits for an answer.
#[derive(Debug)]
struct Request<K> {
    id: u64,
    key: K,
    line: Arc<str>,
}

impl<K> Default for Worker<K> {
    fn default() -> Self {
        Self {
            process: None,
            given: VecDeque::new(),
            since: None,
            failures: 0,
            noise: 0,
            given_up: false,
        }
    }
}

impl<K> Processes<K> {
    /// Starts the program.
    ///
    /// # Errors
    /// Returns an error if the launcher cannot be started. An invalid command does not fail here,
    /// but loses answers later.
    pub(crate) fn start(config: ExternalConfig) -> Result<Self, ExternalError> {
        let (to_events, events) = sync_channel(QUEUE);
        let mut processes = Self {
            workers: (0..config.workers.max(1))
                .map(|_| Worker::default())
                .collect(),
            config,
            next_request: 0,
            waiting: VecDeque::new(),
            starts: 0,
            events,
            waker: Waker {
                stopped: Arc::default(),
                to_events,
            },
            lost: Lost::default(),
            settled: Vec::new(),
        };
        // One process is started now, so that an error of the launcher is found at the start of a
        // run. The others are started when there is work for them.
        let started = processes.spawn(0);
        let command = processes.config.command.clone();
        started.map_err(|source| ExternalError { command, source })?;
        Ok(processes)
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

    /// Queues a request with this [content](protocol::content). `None` means that it is too long, and
    /// lost at once.
    pub(crate) fn ask(&mut self, key: K, content: Option<&str>) {
        self.next_request += 1;
        let id = self.next_request;
        match content {
            Some(content) => self.waiting.push_back(Request {
                id,
                key,
                line: protocol::line(id, content).into(),
            }),
            None => self.lose(key),
        }
    }

    /// Takes the requests that were answered or lost since the last call.
    pub(crate) fn settled(&mut self) -> Vec<(K, Option<Answer>)> {
        std::mem::take(&mut self.settled)
    }

    /// Removes the requests that no process has received and for which `is_dead` holds.
    pub(crate) fn withdraw(&mut self, is_dead: impl Fn(&K) -> bool) -> Vec<K> {
        let waiting = std::mem::take(&mut self.waiting).into_iter();
        let (dead, waiting): (VecDeque<_>, _) = waiting.partition(|request| is_dead(&request.key));
        self.waiting = waiting;
        dead.into_iter().map(|request| request.key).collect()
    }

    /// Counts a request as lost.
    fn lose(&mut self, key: K) {
        self.lost.verdicts += 1;
        self.settled.push((key, None));
    }

    /// Sends queued requests and waits for the next event, but not if all processes are idle.
    pub(crate) fn turn(&mut self) {
        self.poll(Duration::MAX);
    }

    /// Does the same, but waits for the event for at most `patience`. Returns whether there was an
    /// event.
    pub(crate) fn poll(&mut self, patience: Duration) -> bool {
        self.hand_out();
        let timeout = self.config.timeout;
        // Idle processes send no events, so waiting for one could last forever.
        let deadlines = self.workers.iter();
        let Some(deadline) = deadlines
            .filter_map(|worker| worker.deadline(timeout))
            .min()
        else {
            return false;
        };
        let left = deadline.saturating_duration_since(Instant::now());
        match self.events.recv_timeout(left.min(patience)) {
            Ok((source, event)) => {
                self.take(source, event);
                return true;
            }
            Err(RecvTimeoutError::Timeout) => self.end_late(),
            // Cannot happen: `self.waker` holds a sender.
            Err(RecvTimeoutError::Disconnected) => {}
        }
        false
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
                self.lose(request.key);
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
                let answer = protocol::answer(&line).and_then(|(id, answer)| {
                    let at = worker.given.iter().position(|r| r.id == id)?;
                    Some((worker.given.remove(at)?, answer))
                });
                let Some((request, answer)) = answer else {
                    return self.noise(source.worker);
                };
                worker.since = Some(Instant::now());
                // Only failures in a row count: a program that crashes on one step in a thousand is
                // useful.
                (worker.failures, worker.noise) = (0, 0);
                self.settled.push((request.key, Some(answer)));
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

    /// Ends a process. The oldest request is lost, all other requests are queued again.
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
            self.lose(culprit.key);
        }
    }
}

impl<K> Worker<K> {
    /// Returns the time at which the process is too late; `None` while the process is idle.
    fn deadline(&self, timeout: Duration) -> Option<Instant> {
        let since = self.since.filter(|_| !self.given.is_empty())?;
        Some(since + timeout)
    }
}
