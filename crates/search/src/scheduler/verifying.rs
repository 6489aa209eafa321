//! Outcomes: the finished chains of a problem go to the verifier, and its result waits for them.

use std::collections::BTreeMap;

use super::Scheduler;
use super::scoring::next_batch;
use crate::outcome::OutcomeKind;
use crate::result::ProblemResult;
use crate::scorer::BatchId;
use crate::verifier::WholeChain;

/// The most results that wait for outcomes. With more of them the run waits for the verifier, so
/// that their trees do not fill the memory.
const MOST_WAITING: usize = 256;

/// The results whose chains the verifier judges now, each with the indices of these chains.
pub(super) type Waiting = BTreeMap<BatchId, (ProblemResult, Vec<usize>)>;

impl Scheduler<'_, '_> {
    /// Hands a result over: at once, or when the verifier of its problem has judged all complete
    /// chains.
    pub(super) fn verify(&mut self, mut result: ProblemResult) {
        let Some(verifier) = self.cx.models.verifier.as_deref_mut() else {
            return self.hand_over(result);
        };
        let Some(name) = verifier.name_for(&result.problem) else {
            return self.hand_over(result);
        };
        result.verifier = Some(name.to_owned());
        let complete = |&i: &usize| result.finished[i].finish.is_complete();
        let judged: Vec<usize> = (0..result.finished.len()).filter(complete).collect();
        if judged.is_empty() {
            return self.hand_over(result);
        }
        let chains: Vec<WholeChain<'_>> = judged
            .iter()
            .map(|&i| {
                let chain = &result.finished[i];
                let steps = result.tree.steps(chain.node);
                WholeChain {
                    steps: steps.map(|step| step.text.as_str()).collect(),
                    answer: chain.answer.as_deref(),
                }
            })
            .collect();
        let batch = next_batch();
        verifier.submit(batch, &result.problem, &chains);
        self.unverified.insert(batch, (result, judged));
        while self.unverified.len() > MOST_WAITING && !self.stopped {
            self.collect_outcomes(true);
        }
    }

    /// Hands over the results whose outcomes have arrived. Returns whether there was one.
    pub(super) fn collect_outcomes(&mut self, wait: bool) -> bool {
        if self.unverified.is_empty() {
            return false;
        }
        let Some(verifier) = self.cx.models.verifier.as_deref_mut() else {
            return false;
        };
        let mut any = false;
        for (batch, outcomes) in verifier.collect(wait) {
            // Batches of an earlier run, which ended without them, are ignored.
            let Some((mut result, judged)) = self.unverified.remove(&batch) else {
                continue;
            };
            for (i, outcome) in judged.into_iter().zip(outcomes) {
                result.lost_verdicts += usize::from(outcome.kind == OutcomeKind::Lost);
                let chain = &mut result.finished[i];
                let mut votes = result.answers.iter_mut();
                if let Some(votes) = votes.find(|votes| votes.node == chain.node) {
                    votes.outcome = Some(outcome.kind);
                }
                chain.outcome = Some(outcome);
            }
            any = true;
            if !self.stopped {
                self.hand_over(result);
            }
        }
        any
    }
}
