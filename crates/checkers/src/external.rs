//! A checker that is a program of the user's, asked in JSON lines (docs/checkers.md).
//!
//! Several processes of it answer, each with several steps in flight. Whatever such a process does,
//! the cost is its verdicts: a step that it does not answer in time, dies on or babbles at is
//! abstained from and counted, the process is started anew, and the other steps are asked again.

mod process;
mod protocol;
mod scorer;

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::time::{Duration, Instant};

use beamgen_search::ScoreId;

use self::process::{Event, Process, Source};
pub use self::scorer::{ExternalScorer, LostSoFar};
use crate::{CheckItem, Checker, Lost, Verdict};

/// A process that ends so often without an answer in between is not started again.
const MAX_FAILURES: u32 = 3;

/// Lines that are no answers, between two answers, at which a process counts as broken.
const MAX_NOISE: u32 = 1000;

/// Events that wait to be looked at; a process that writes more has to wait.
const QUEUE: usize = 256;

/// How an external checker is run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExternalConfig {
    /// For `sh -c`.
    pub command: String,
    /// Processes.
    pub workers: usize,
    /// Steps that a process is given before it has answered.
    pub in_flight: usize,
    /// The longest time in which a process with steps to answer may answer none.
    pub timeout: Duration,
}

impl ExternalConfig {
    /// The defaults for a command.
    #[must_use]
    pub fn new(command: impl Into<String>) -> Self {
        Self {
            command: command.into(),
            workers: 2,
            in_flight: 16,
            timeout: Duration::from_secs(10),
        }
    }
}

/// A checker's program cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ExternalError {
    /// The shell cannot be started.
    #[error("the checker {command:?} cannot be started: {source}")]
    Start {
        /// The command.
        command: String,
        /// Why.
        source: std::io::Error,
    },
}

/// A chain: its problem and its steps.
#[derive(Clone, Debug)]
struct Given {
    problem: Arc<str>,
    steps: Vec<Arc<str>>,
}

/// A checker that is another program.
#[derive(Debug)]
pub struct External {
    config: ExternalConfig,
    chains: HashMap<ScoreId, Given>,
    next_chain: u64,
    next_request: u64,
    workers: Vec<Worker>,
    starts: u64,
    events: Receiver<(Source, Event)>,
    stop: Stop,
    lost: Lost,
}

/// Ends a call for verdicts from another thread.
#[derive(Clone, Debug)]
struct Stop {
    stopped: Arc<AtomicBool>,
    to_events: SyncSender<(Source, Event)>,
}

impl Stop {
    fn stop(&self) {
        self.stopped.store(true, Ordering::Release);
        // Whoever waits for an event has one. If there is no room, there are some.
        let _ = self.to_events.try_send((Source::default(), Event::Stop));
    }

    fn is_stopped(&self) -> bool {
        self.stopped.load(Ordering::Acquire)
    }
}

#[derive(Debug, Default)]
struct Worker {
    process: Option<Process>,
    /// Requests that it was given, oldest first.
    given: VecDeque<Request>,
    /// When it last answered, or was given something while it had nothing to do.
    since: Option<Instant>,
    /// Ends without an answer in between.
    failures: u32,
    noise: u32,
    given_up: bool,
}

/// A step to be judged.
#[derive(Debug, Clone)]
struct Request {
    id: u64,
    /// Item and step.
    place: (usize, usize),
    line: Arc<str>,
}

impl External {
    /// Starts the program.
    ///
    /// # Errors
    /// There is no shell. What else is wrong with the command is seen when it is asked.
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
            starts: 0,
            events,
            stop: Stop {
                stopped: Arc::default(),
                to_events,
            },
            lost: Lost::default(),
        };
        let started = external.spawn(0);
        let command = external.config.command.clone();
        started.map_err(|source| ExternalError::Start { command, source })?;
        Ok(external)
    }

    fn spawn(&mut self, worker: usize) -> std::io::Result<()> {
        self.starts += 1;
        let source = Source {
            worker,
            start: self.starts,
        };
        let process = Process::start(&self.config.command, source, self.stop.to_events.clone())?;
        self.workers[worker].process = Some(process);
        Ok(())
    }

    fn add(&mut self, chain: Given) -> ScoreId {
        self.next_chain += 1;
        let id = ScoreId(self.next_chain);
        self.chains.insert(id, chain);
        id
    }

    /// Asks for all requests, and puts what is answered into `verdicts`; stopped, it leaves the rest.
    fn ask(&mut self, mut waiting: VecDeque<Request>, verdicts: &mut [Vec<Verdict>]) {
        let mut open = waiting.len();
        while open > 0 && !self.stop.is_stopped() {
            open -= self.hand_out(&mut waiting);
            let timeout = self.config.timeout;
            let deadlines = self
                .workers
                .iter()
                .filter_map(|worker| worker.deadline(timeout));
            let Some(deadline) = deadlines.min() else {
                continue;
            };
            let left = deadline.saturating_duration_since(Instant::now());
            match self.events.recv_timeout(left) {
                Ok((source, event)) => {
                    open -= self.take(source, event, &mut waiting, verdicts);
                }
                Err(RecvTimeoutError::Timeout) => {
                    open -= self.end_late(&mut waiting);
                }
                // `self.stop` has a sender.
                Err(RecvTimeoutError::Disconnected) => return,
            }
        }
    }

    /// Gives requests to the workers that can take some. How many were given up, as there is none.
    fn hand_out(&mut self, waiting: &mut VecDeque<Request>) -> usize {
        for index in 0..self.workers.len() {
            let most = self.config.in_flight.max(1);
            while !self.workers[index].given_up
                && self.workers[index].given.len() < most
                && !waiting.is_empty()
            {
                if self.workers[index].process.is_none() && self.spawn(index).is_err() {
                    self.lost.crashes += 1;
                    self.workers[index].given_up = true;
                    break;
                }
                let Some(request) = waiting.pop_front() else {
                    break;
                };
                let worker = &mut self.workers[index];
                if worker.given.is_empty() {
                    worker.since = Some(Instant::now());
                }
                if let Some(process) = &worker.process {
                    process.write(Arc::clone(&request.line));
                }
                worker.given.push_back(request);
            }
        }
        if self.workers.iter().all(|worker| worker.given_up) {
            let left = waiting.len();
            waiting.clear();
            self.lost.verdicts += left as u64;
            return left;
        }
        0
    }

    /// Takes an event; how many requests it settled.
    fn take(
        &mut self,
        source: Source,
        event: Event,
        waiting: &mut VecDeque<Request>,
        verdicts: &mut [Vec<Verdict>],
    ) -> usize {
        let worker = &mut self.workers[source.worker];
        if worker
            .process
            .as_ref()
            .is_none_or(|process| process.source() != source)
        {
            return 0;
        }
        match event {
            Event::Line(line) => {
                let answer = protocol::answer(&line).and_then(|answer| {
                    let at = worker.given.iter().position(|r| r.id == answer.id)?;
                    Some((worker.given.remove(at)?, answer.verdict))
                });
                if let Some((request, verdict)) = answer {
                    let (item, step) = request.place;
                    verdicts[item][step] = verdict;
                    worker.since = Some(Instant::now());
                    (worker.failures, worker.noise) = (0, 0);
                    return 1;
                }
                self.noise(source.worker, waiting)
            }
            Event::TooLong => self.noise(source.worker, waiting),
            Event::Stop => 0,
            Event::Ended => {
                if worker.given.is_empty() {
                    worker.process = None;
                    return 0;
                }
                self.lost.crashes += 1;
                self.restart(source.worker, waiting)
            }
        }
    }

    fn noise(&mut self, index: usize, waiting: &mut VecDeque<Request>) -> usize {
        self.lost.noise += 1;
        self.workers[index].noise += 1;
        if self.workers[index].noise < MAX_NOISE || self.workers[index].given.is_empty() {
            return 0;
        }
        self.lost.crashes += 1;
        self.restart(index, waiting)
    }

    /// Ends the workers that did not answer in time; how many requests that settled.
    fn end_late(&mut self, waiting: &mut VecDeque<Request>) -> usize {
        let now = Instant::now();
        let mut settled = 0;
        for index in 0..self.workers.len() {
            let deadline = self.workers[index].deadline(self.config.timeout);
            if deadline.is_some_and(|deadline| deadline <= now) {
                self.lost.timeouts += 1;
                settled += self.restart(index, waiting);
            }
        }
        settled
    }

    /// Ends a worker's process. The request that waited longest has lost its verdict; the others
    /// are asked again. How many requests that settled.
    fn restart(&mut self, index: usize, waiting: &mut VecDeque<Request>) -> usize {
        let worker = &mut self.workers[index];
        let end = worker.process.take().map(Process::end);
        let culprit = worker.given.pop_front();
        while let Some(request) = worker.given.pop_back() {
            waiting.push_front(request);
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
        let settled = usize::from(culprit.is_some());
        self.lost.verdicts += settled as u64;
        settled
    }
}

impl Worker {
    /// When it has to have answered something.
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

    fn release(&mut self, id: ScoreId) {
        self.chains.remove(&id);
    }

    fn check(&mut self, items: &[CheckItem<'_>]) -> Vec<Vec<Verdict>> {
        let mut verdicts: Vec<Vec<Verdict>> = items
            .iter()
            .map(|item| vec![Verdict::Abstain; item.steps.len()])
            .collect();
        let mut waiting = VecDeque::new();
        for (i, item) in items.iter().enumerate() {
            let chain = self.chains.get_mut(&item.id).expect("an open chain");
            for (j, step) in item.steps.iter().enumerate() {
                chain.steps.push((*step).into());
                self.next_request += 1;
                let id = self.next_request;
                match protocol::request(id, &chain.problem, &chain.steps) {
                    Some(line) => waiting.push_back(Request {
                        id,
                        place: (i, j),
                        line: line.into(),
                    }),
                    None => self.lost.verdicts += 1,
                }
            }
        }
        self.ask(waiting, &mut verdicts);
        verdicts
    }

    fn lost(&self) -> Option<Lost> {
        Some(self.lost.clone())
    }
}
