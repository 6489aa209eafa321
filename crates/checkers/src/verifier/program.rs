//! A verifier that runs the user's program; both talk in JSON lines (docs/rewards/verifiers.md).

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Duration;

use beamgen_search::{BatchId, Outcome, OutcomeKind, Problem, Verifier, WholeChain};

use crate::external::{
    Answer, ExternalConfig, ExternalError, LostSoFar, Outcomes, Processes, Word, content,
};

/// The longest time that a call waits for outcomes before the search checks for other work.
const A_WHILE: Duration = Duration::from_millis(50);

/// The most events that a call takes in one go, since a program may write without end.
const MOST_EVENTS: usize = 1024;

/// The bytes of requests whose outcomes are kept. When there are more, all are forgotten.
const KEPT_BYTES: usize = 64 << 20;

/// A program that judges finished chains. A chain that was judged before is not sent again.
#[derive(Debug)]
pub struct ProgramVerifier {
    name: String,
    is_open: bool,
    processes: Processes<Place>,
    /// The batches that wait for outcomes.
    batches: BTreeMap<BatchId, Batch>,
    /// The outcomes of earlier requests by their contents. Lost ones are not among them.
    known: HashMap<Arc<str>, Outcome>,
    known_bytes: usize,
    lost: LostSoFar,
}

/// The place of an outcome.
#[derive(Debug)]
struct Place {
    batch: BatchId,
    /// The index of the chain in its batch.
    chain: usize,
    content: Arc<str>,
}

#[derive(Debug)]
struct Batch {
    outcomes: Vec<Outcome>,
    /// The number of outcomes that have not arrived.
    open: usize,
}

impl ProgramVerifier {
    /// Starts the program. If `is_open` holds, it gets neither the reference answer nor the tests of
    /// a problem.
    ///
    /// # Errors
    /// Returns an error if the launcher cannot be started. An invalid command does not fail here,
    /// but loses outcomes later.
    pub fn start(
        name: impl Into<String>,
        config: ExternalConfig,
        is_open: bool,
    ) -> Result<Self, ExternalError> {
        Ok(Self {
            name: name.into(),
            is_open,
            processes: Processes::start(config)?,
            batches: BTreeMap::new(),
            known: HashMap::new(),
            known_bytes: 0,
            lost: LostSoFar::default(),
        })
    }

    /// Returns a handle on the counts of lost outcomes, which stays valid when the verifier moves.
    #[must_use]
    pub fn lost(&self) -> LostSoFar {
        self.lost.clone()
    }

    fn content(&self, problem: &Problem, chain: &WholeChain<'_>) -> Option<Arc<str>> {
        let closed = !self.is_open;
        let fields = Outcomes {
            answer: chain.answer,
            reference: problem.answer.as_deref().filter(|_| closed),
            tests: problem.tests.as_ref().filter(|_| closed),
        };
        // The boundary of a step is no part of what it says.
        let steps = chain.steps.iter();
        let steps = steps.map(|step| step.trim_start_matches('\n').trim_end());
        content(&problem.with_context(), steps.collect(), Some(fields)).map(Arc::from)
    }

    fn settle(&mut self) {
        for (place, answer) in self.processes.settled() {
            let outcome = answer.map_or_else(lost, outcome);
            if outcome.kind != OutcomeKind::Lost {
                self.keep(&place.content, &outcome);
            }
            if let Some(batch) = self.batches.get_mut(&place.batch) {
                batch.outcomes[place.chain] = outcome;
                batch.open -= 1;
            }
        }
        self.lost.set(self.processes.lost.clone());
    }

    fn keep(&mut self, content: &Arc<str>, outcome: &Outcome) {
        if self.known_bytes > KEPT_BYTES {
            self.known.clear();
            self.known_bytes = 0;
        }
        self.known_bytes += content.len();
        self.known.insert(Arc::clone(content), outcome.clone());
    }

    fn take_events(&mut self) {
        for _ in 0..MOST_EVENTS {
            if !self.processes.poll(Duration::ZERO) {
                break;
            }
        }
        self.settle();
    }

    fn done(&mut self) -> Vec<(BatchId, Vec<Outcome>)> {
        let batches = self.batches.iter();
        let done = batches.filter(|(_, batch)| batch.open == 0);
        let done: Vec<BatchId> = done.map(|(&id, _)| id).collect();
        let batch = |id| Some((id, self.batches.remove(&id)?.outcomes));
        done.into_iter().filter_map(batch).collect()
    }
}

impl Verifier for ProgramVerifier {
    fn name_for(&self, _problem: &Problem) -> Option<&str> {
        Some(&self.name)
    }

    fn is_open(&self, _: &Problem) -> bool {
        self.is_open
    }

    fn submit(&mut self, batch: BatchId, problem: &Problem, chains: &[WholeChain<'_>]) {
        let mut outcomes = vec![lost(); chains.len()];
        let mut open = 0;
        for (i, chain) in chains.iter().enumerate() {
            let content = self.content(problem, chain);
            let known = content.as_ref().and_then(|content| self.known.get(content));
            if let Some(known) = known {
                outcomes[i] = known.clone();
                continue;
            }
            open += 1;
            let place = Place {
                batch,
                chain: i,
                content: content.clone().unwrap_or_else(|| "".into()),
            };
            self.processes.ask(place, content.as_deref());
        }
        self.batches.insert(batch, Batch { outcomes, open });
        // The program begins now, while the search continues with other problems.
        self.take_events();
    }

    fn collect(&mut self, wait: bool) -> Vec<(BatchId, Vec<Outcome>)> {
        self.take_events();
        let mut done = self.done();
        if wait && done.is_empty() && !self.batches.is_empty() {
            self.processes.poll(A_WHILE);
            self.take_events();
            done = self.done();
        }
        done
    }
}

fn lost() -> Outcome {
    Outcome::new(OutcomeKind::Lost, "the verifier gave no outcome")
}

fn outcome(answer: Answer) -> Outcome {
    let kind = match answer.word {
        Word::Pass => OutcomeKind::Right,
        Word::Fail => OutcomeKind::Wrong,
        Word::Abstain => OutcomeKind::Unknown,
    };
    Outcome {
        kind,
        reason: answer.reason.unwrap_or_default(),
        parts: answer.parts,
    }
}
