//! An external checker as a scorer that does not make the search wait for the program.
//!
//! A separate thread drives the program. It receives all operations on chains in order, so a chain
//! has all earlier steps when a new step is judged.

use std::collections::{BTreeSet, HashMap};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SendError, Sender, TryRecvError, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use beamgen_search::{
    BatchId, Memory, Problem, ScoreError, ScoreId, ScoreItem, ScoreResult, Scorer, Submitted,
};

use super::{External, Waker};
use crate::scorer::scored;
use crate::{CheckItem, Checker, Lost, Verdict};

/// The maximum time that a call waits for verdicts before the search checks for other work.
const A_WHILE: Duration = Duration::from_millis(50);

/// The batch number of a blocking call. The search counts from 0 and never reaches this number.
const AT_ONCE: BatchId = BatchId(u64::MAX);

/// An [`External`] as a [`Scorer`] that answers batches later. Meanwhile the search does work that
/// needs no verdicts.
#[derive(Debug)]
pub struct ExternalScorer {
    /// The channel to the thread; `None` makes the thread end.
    to_thread: Option<Sender<Told>>,
    answers: Receiver<Answer>,
    thread: Option<JoinHandle<()>>,
    waker: Waker,
    lost: LostSoFar,
    next_chain: u64,
    pending: BTreeSet<BatchId>,
    /// The answers to submitted batches that arrived during a blocking call.
    early: Vec<Answer>,
}

type Answer = (BatchId, Vec<Vec<Verdict>>);

/// A shared handle to the counts of lost verdicts, which other threads may read.
#[derive(Clone, Debug, Default)]
pub struct LostSoFar(Arc<Mutex<Lost>>);

impl LostSoFar {
    /// Returns the counts, which are updated with every batch of answers.
    #[must_use]
    pub fn get(&self) -> Lost {
        self.0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    pub(crate) fn set(&self, lost: Lost) {
        self.update(|counts| *counts = lost);
    }

    pub(crate) fn update(&self, change: impl FnOnce(&mut Lost)) {
        change(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner));
    }
}

/// An operation for the thread. Chains have the ids of [`ExternalScorer`].
enum Told {
    Open(ScoreId, String),
    /// The id of a chain and the id of its new copy.
    Fork(ScoreId, ScoreId),
    Release(ScoreId),
    Check(BatchId, Vec<(ScoreId, Vec<String>)>),
}

impl ExternalScorer {
    /// Hands the program to a thread.
    #[must_use]
    pub fn new(external: External) -> Self {
        let (to_thread, told) = channel();
        let (to_scorer, answers) = channel();
        let lost = LostSoFar::default();
        let waker = external.processes.waker.clone();
        let losses = lost.clone();
        let driver = Driver {
            external,
            chains: HashMap::new(),
            batches: HashMap::new(),
            to_scorer,
            lost: losses,
        };
        let thread = thread::spawn(move || driver.run(&told));
        Self {
            to_thread: Some(to_thread),
            answers,
            thread: Some(thread),
            waker,
            lost,
            next_chain: 0,
            pending: BTreeSet::new(),
            early: Vec::new(),
        }
    }

    /// Returns a handle that stays valid after the scorer was moved into a search.
    #[must_use]
    pub fn lost(&self) -> LostSoFar {
        self.lost.clone()
    }

    /// Sends an operation to the thread. If the thread has ended, the missing answer is found
    /// later.
    fn tell(&self, told: Told) {
        if let Some(thread) = &self.to_thread {
            let _ = thread.send(told);
        }
    }

    fn new_chain(&mut self) -> ScoreId {
        self.next_chain += 1;
        ScoreId(self.next_chain)
    }

    fn check(&self, batch: BatchId, items: &[ScoreItem<'_>]) {
        let items = items.iter().map(|item| {
            let steps = item.steps.iter().map(|step| step.text.to_owned());
            (item.id, steps.collect())
        });
        self.tell(Told::Check(batch, items.collect()));
        // The thread may be waiting for an event of a process instead of an operation.
        self.waker.wake();
    }
}

fn gone() -> ScoreError {
    ScoreError::Lost("the checker's thread ended".into())
}

impl Scorer for ExternalScorer {
    fn open(&mut self, problem: &Problem, _key: u64) -> Result<ScoreId, ScoreError> {
        let id = self.new_chain();
        self.tell(Told::Open(id, problem.with_context().into_owned()));
        Ok(id)
    }

    fn fork(&mut self, id: ScoreId) -> ScoreId {
        let copy = self.new_chain();
        self.tell(Told::Fork(id, copy));
        copy
    }

    fn release(&mut self, id: ScoreId) {
        self.tell(Told::Release(id));
    }

    fn score(&mut self, items: &[ScoreItem<'_>]) -> ScoreResult {
        self.check(AT_ONCE, items);
        loop {
            match self.answers.recv() {
                Ok((AT_ONCE, verdicts)) => return scored(verdicts),
                Ok(other) => self.early.push(other),
                Err(_) => return Err(gone()),
            }
        }
    }

    fn submit(&mut self, batch: BatchId, items: &[ScoreItem<'_>]) -> Submitted {
        self.check(batch, items);
        self.pending.insert(batch);
        Submitted::Pending
    }

    fn collect(&mut self, wait: bool) -> Vec<(BatchId, ScoreResult)> {
        let mut answers = std::mem::take(&mut self.early);
        let wait = wait && answers.is_empty() && !self.pending.is_empty();
        let mut patience = if wait { A_WHILE } else { Duration::ZERO };
        let is_gone = loop {
            match self.answers.recv_timeout(patience) {
                Ok(answer) => answers.push(answer),
                Err(RecvTimeoutError::Timeout) => break false,
                Err(RecvTimeoutError::Disconnected) => break true,
            }
            // After the first answer only answers that are ready are taken: the search has work
            // again.
            patience = Duration::ZERO;
        };
        let mut done: Vec<(BatchId, ScoreResult)> = answers
            .into_iter()
            .map(|(batch, verdicts)| (batch, scored(verdicts)))
            .collect();
        for (batch, _) in &done {
            self.pending.remove(batch);
        }
        if is_gone {
            let missed = std::mem::take(&mut self.pending).into_iter();
            done.extend(missed.map(|batch| (batch, Err(gone()))));
        }
        done
    }

    fn memory(&self) -> Memory {
        Memory::default()
    }
}

impl Drop for ExternalScorer {
    /// Ends the thread and the program's processes without waiting for unanswered steps.
    fn drop(&mut self) {
        self.waker.stop();
        self.to_thread = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// The thread that drives the program.
struct Driver {
    external: External,
    /// The chains of [`External`] by the ids of [`ExternalScorer`].
    chains: HashMap<ScoreId, ScoreId>,
    /// The batch numbers of the search by those of [`External`].
    batches: HashMap<u64, BatchId>,
    to_scorer: Sender<Answer>,
    lost: LostSoFar,
}

impl Driver {
    /// Carries out operations until the scorer is dropped. All submitted batches are in progress at
    /// the same time.
    fn run(mut self, told: &Receiver<Told>) {
        loop {
            // Without unanswered batches there are no events to wait for, so the thread waits for
            // operations. Otherwise operations come first, since they may give idle processes work.
            let next = if self.batches.is_empty() {
                told.recv().map_err(|_| TryRecvError::Disconnected)
            } else {
                told.try_recv()
            };
            match next {
                Ok(told) => self.obey(told),
                Err(TryRecvError::Empty) => self.external.processes.turn(),
                Err(TryRecvError::Disconnected) => return,
            }
            if self.external.processes.waker.is_stopped() || self.answer().is_err() {
                return;
            }
        }
    }

    fn obey(&mut self, told: Told) {
        match told {
            Told::Open(id, problem) => {
                let opened = self.external.open(&problem);
                self.chains.insert(id, opened);
            }
            Told::Fork(id, copy) => {
                let forked = self.external.fork(self.chains[&id]);
                self.chains.insert(copy, forked);
            }
            Told::Release(id) => {
                if let Some(id) = self.chains.remove(&id) {
                    self.external.release(id);
                }
            }
            Told::Check(batch, items) => {
                let own = items.iter();
                let items = own.map(|(id, steps)| CheckItem {
                    id: self.chains[id],
                    steps: steps.iter().map(String::as_str).collect(),
                });
                let items: Vec<CheckItem<'_>> = items.collect();
                let asked = self.external.ask(&items);
                self.batches.insert(asked, batch);
            }
        }
    }

    /// Sends the verdicts of finished batches to the scorer.
    fn answer(&mut self) -> Result<(), SendError<Answer>> {
        for (asked, verdicts) in self.external.settled() {
            self.lost.set(self.external.processes.lost.clone());
            if let Some(batch) = self.batches.remove(&asked) {
                self.to_scorer.send((batch, verdicts))?;
            }
        }
        Ok(())
    }
}
