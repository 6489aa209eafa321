//! An external checker as a judge of a search that goes on while the program answers.
//!
//! A thread of its own drives the program. It is told what happens to chains in order, so that what
//! it is asked about a chain comes after that chain's earlier steps.

use std::collections::{BTreeSet, HashMap};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use beamgen_search::{
    BatchId, Memory, Problem, ScoreError, ScoreId, ScoreItem, ScoreResult, Scorer, Submitted,
};

use super::{External, Stop};
use crate::scorer::scored;
use crate::{CheckItem, Checker, Lost, Verdict};

/// As long as a call waits for a verdict before it looks at the rest of the search again.
const A_WHILE: Duration = Duration::from_millis(50);

/// The batch of a call that waits for its answer.
const AT_ONCE: BatchId = BatchId(u64::MAX);

/// An [`External`] as a [`Scorer`]. A batch that is handed over is answered later; meanwhile the
/// search does what needs no verdicts.
#[derive(Debug)]
pub struct ExternalScorer {
    /// To the thread; gone when it has to end.
    to_thread: Option<Sender<Told>>,
    answers: Receiver<Answer>,
    thread: Option<JoinHandle<()>>,
    stop: Stop,
    lost: LostSoFar,
    next_chain: u64,
    pending: BTreeSet<BatchId>,
    /// Answers that came while another one was waited for.
    early: Vec<Answer>,
}

type Answer = (BatchId, Vec<Vec<Verdict>>);

/// What an external checker lost so far, for those who do not have it.
#[derive(Clone, Debug, Default)]
pub struct LostSoFar(Arc<Mutex<Lost>>);

impl LostSoFar {
    /// As of the last answer.
    #[must_use]
    pub fn get(&self) -> Lost {
        self.0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    fn set(&self, lost: Lost) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = lost;
    }
}

/// What the thread is told, in order. Chains have the scorer's numbers.
enum Told {
    Open(ScoreId, String),
    /// Which chain, and its copy's number.
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
        let stop = external.stop.clone();
        let losses = lost.clone();
        let thread = thread::spawn(move || drive(external, &told, &to_scorer, &losses));
        Self {
            to_thread: Some(to_thread),
            answers,
            thread: Some(thread),
            stop,
            lost,
            next_chain: 0,
            pending: BTreeSet::new(),
            early: Vec::new(),
        }
    }

    /// What it loses, to be looked at later.
    #[must_use]
    pub fn lost(&self) -> LostSoFar {
        self.lost.clone()
    }

    /// That the thread is gone is seen when its answer is missed.
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
        let own = |item: &ScoreItem<'_>| {
            let steps = item.steps.iter().map(|step| step.text.to_owned());
            (item.id, steps.collect())
        };
        self.tell(Told::Check(batch, items.iter().map(own).collect()));
    }
}

fn gone() -> ScoreError {
    ScoreError::Lost("the checker's thread ended".into())
}

impl Scorer for ExternalScorer {
    fn open(&mut self, problem: &Problem, _key: u64) -> Result<ScoreId, ScoreError> {
        let id = self.new_chain();
        self.tell(Told::Open(id, problem.text.clone()));
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
    /// Ends the thread at once, and with it the program's processes.
    fn drop(&mut self) {
        self.stop.stop();
        self.to_thread = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// The thread: does what it is told until nobody can tell it any more.
fn drive(
    mut external: External,
    told: &Receiver<Told>,
    to_scorer: &Sender<Answer>,
    lost: &LostSoFar,
) {
    let mut chains: HashMap<ScoreId, ScoreId> = HashMap::new();
    for told in told {
        match told {
            Told::Open(id, problem) => {
                chains.insert(id, external.open(&problem));
            }
            Told::Fork(id, copy) => {
                let forked = external.fork(chains[&id]);
                chains.insert(copy, forked);
            }
            Told::Release(id) => {
                if let Some(id) = chains.remove(&id) {
                    external.release(id);
                }
            }
            Told::Check(batch, items) => {
                let own = items.iter();
                let items = own.map(|(id, steps)| CheckItem {
                    id: chains[id],
                    steps: steps.iter().map(String::as_str).collect(),
                });
                let items: Vec<CheckItem<'_>> = items.collect();
                let verdicts = external.check(&items);
                lost.set(external.lost.clone());
                if to_scorer.send((batch, verdicts)).is_err() {
                    return;
                }
            }
        }
    }
}
