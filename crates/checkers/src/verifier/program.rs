//! A verifier that runs the user's program; both talk in JSON lines (docs/rewards/verifiers.md).

use std::sync::Arc;
use std::time::Duration;

use beamgen_search::{BatchId, Outcome, OutcomeKind, Problem, Verifier, WholeChain};

use super::batches::{Batches, Place, lost};
use crate::external::{
    Answer, ExternalConfig, ExternalError, LostSoFar, Outcomes, Processes, Word, content,
};

/// The longest time that a call waits for outcomes before the search checks for other work.
const A_WHILE: Duration = Duration::from_millis(50);

/// The most events that a call takes in one go, since a program may write without end.
const MOST_EVENTS: usize = 1024;

/// A program that judges finished chains. A chain that was judged before is not sent again.
#[derive(Debug)]
pub struct ProgramVerifier {
    name: String,
    is_open: bool,
    processes: Processes<Place>,
    batches: Batches,
    lost: LostSoFar,
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
            batches: Batches::default(),
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
            self.batches
                .settle(&place, answer.map_or_else(lost, outcome));
        }
        self.lost.set(self.processes.lost.clone());
    }

    fn take_events(&mut self) {
        for _ in 0..MOST_EVENTS {
            if !self.processes.poll(Duration::ZERO) {
                break;
            }
        }
        self.settle();
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
        let contents = chains.iter().map(|chain| self.content(problem, chain));
        let contents: Vec<Option<Arc<str>>> = contents.collect();
        for place in self.batches.open(batch, contents) {
            let content = Some(place.content.clone()).filter(|content| !content.is_empty());
            self.processes.ask(place, content.as_deref());
        }
        // The program begins now, while the search continues with other problems.
        self.take_events();
    }

    fn collect(&mut self, wait: bool) -> Vec<(BatchId, Vec<Outcome>)> {
        self.take_events();
        let mut done = self.batches.done();
        if wait && done.is_empty() && self.batches.waits() {
            self.processes.poll(A_WHILE);
            self.take_events();
            done = self.batches.done();
        }
        done
    }
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
