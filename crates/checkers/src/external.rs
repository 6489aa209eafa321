//! A checker that runs the user's program; both talk in JSON lines (docs/rewards/checkers.md).
//!
//! The program runs in several processes, and each process may have several unanswered steps.

mod process;
mod processes;
mod protocol;
mod scorer;

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Duration;

use beamgen_launcher::{LaunchError, Launcher};
use beamgen_search::ScoreId;

pub(crate) use self::processes::{Processes, Waker};
pub(crate) use self::protocol::{Answer, Outcomes, Word, content};
pub use self::scorer::{ExternalScorer, LostSoFar};
use crate::{CheckItem, Checker, Lost, Verdict};

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
    chains: HashMap<ScoreId, Given>,
    next_chain: u64,
    next_batch: u64,
    /// The batches with their numbers, oldest first, until their verdicts are returned.
    batches: BTreeMap<u64, Batch>,
    processes: Processes<Place>,
}

/// The place of a verdict.
#[derive(Debug)]
struct Place {
    batch: u64,
    chain: ScoreId,
    /// The index of the item in its batch, and of the step in its item.
    step: (usize, usize),
}

/// The verdicts of one call.
#[derive(Debug)]
struct Batch {
    /// The verdicts by item and step; [`Verdict::Lost`] before the answer.
    verdicts: Vec<Vec<Verdict>>,
    /// The number of steps in the batch that wait for an answer.
    open: usize,
}

impl External {
    /// Starts the program.
    ///
    /// # Errors
    /// Returns an error if the launcher cannot be started. An invalid command does not fail here,
    /// but loses verdicts later.
    pub fn start(config: ExternalConfig) -> Result<Self, ExternalError> {
        Ok(Self {
            chains: HashMap::new(),
            next_chain: 0,
            next_batch: 0,
            batches: BTreeMap::new(),
            processes: Processes::start(config)?,
        })
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
                open += 1;
                let place = Place {
                    batch,
                    chain: item.id,
                    step: (i, j),
                };
                let steps = chain.steps.iter().map(|step| &**step).collect();
                let content = protocol::content(&chain.problem, steps, None);
                self.processes.ask(place, content.as_deref());
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
        for (place, answer) in self.processes.settled() {
            let verdict = answer.map_or(Verdict::Lost, Verdict::from);
            self.settle(&place, verdict);
        }
        let open = std::mem::take(&mut self.batches).into_iter();
        let (done, open): (BTreeMap<_, _>, _) = open.partition(|(_, batch)| batch.open == 0);
        self.batches = open;
        let done = done.into_iter();
        done.map(|(number, batch)| (number, batch.verdicts))
            .collect()
    }

    /// Stores a verdict in its batch.
    fn settle(&mut self, place: &Place, verdict: Verdict) {
        // The batch always exists: it is removed only after all its requests were settled.
        if let Some(batch) = self.batches.get_mut(&place.batch) {
            let (item, step) = place.step;
            batch.verdicts[item][step] = verdict;
            batch.open -= 1;
        }
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
        for place in self.processes.withdraw(|place| place.chain == id) {
            self.settle(&place, Verdict::Abstain);
        }
    }

    fn check(&mut self, items: &[CheckItem<'_>]) -> Vec<Vec<Verdict>> {
        let batch = self.ask(items);
        loop {
            // A blocking caller has no other batches.
            if let Some((_, verdicts)) = self.settled().into_iter().find(|done| done.0 == batch) {
                return verdicts;
            }
            self.processes.turn();
        }
    }

    fn lost(&self) -> Option<Lost> {
        Some(self.processes.lost.clone())
    }
}
