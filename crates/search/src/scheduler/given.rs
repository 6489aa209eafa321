//! Chains that are scored beside the search: each is a batch, and nothing waits for it.

use super::Scheduler;
use super::scoring::next_batch;
use crate::error::{Cause, ScoreError};
use crate::given::{GivenChain, problem_of, steps_of, tell};
use crate::scorer::{BatchId, ScoreItem, Submitted};

impl Scheduler<'_, '_> {
    /// Hands over a chain that is to be scored beside the search. Returns whether there was one.
    pub(super) fn score_given(&mut self) -> bool {
        let Some(given) = self.intake.given() else {
            return false;
        };
        match self.submit_given(&given) {
            Ok((batch, Submitted::Pending)) => self.batches.add_given(batch, given.reply),
            Ok((_, Submitted::Done(scored))) => tell(given.reply, scored),
            Err(error) => (given.reply)(Err(error)),
        }
        true
    }

    fn submit_given(&mut self, given: &GivenChain) -> Result<(BatchId, Submitted), ScoreError> {
        let none = || ScoreError::Failed(Cause::from("there is none under these settings"));
        let scorer = self.cx.models.scorer.as_mut().ok_or_else(none)?;
        let batch = next_batch();
        let texts: Vec<&str> = given.steps.iter().map(String::as_str).collect();
        let steps = steps_of(&texts);
        if steps.is_empty() {
            return Ok((batch, Submitted::Done(Ok(Vec::new()))));
        }
        let problem = problem_of(&given.problem);
        let id = scorer.open(&problem, problem.key())?;
        let submitted = scorer.submit(batch, &[ScoreItem { id, steps }]);
        scorer.release(id);
        Ok((batch, submitted))
    }
}
