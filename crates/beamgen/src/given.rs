//! Given steps that a [`Service`](crate::Service) scores beside what it solves.

use beamgen_search::{Cause, ScoreError, Scorer, score_chains};

type Reply = Box<dyn FnOnce(Result<Vec<f32>, ScoreError>) + Send>;

/// Steps of a problem, and who wants their scores.
pub(crate) struct GivenSteps {
    problem: String,
    steps: Vec<String>,
    reply: Reply,
}

impl GivenSteps {
    pub(crate) fn new(
        problem: String,
        steps: Vec<String>,
        reply: impl FnOnce(Result<Vec<f32>, ScoreError>) + Send + 'static,
    ) -> Self {
        Self {
            problem,
            steps,
            reply: Box::new(reply),
        }
    }

    /// Scores them, and tells.
    pub(crate) fn score(self, scorer: Option<&mut dyn Scorer>) {
        let steps: Vec<&str> = self.steps.iter().map(String::as_str).collect();
        let scored = match scorer {
            Some(scorer) => score_chains(scorer, &[(&self.problem, &steps)])
                .and_then(|mut scored| scored.pop().unwrap_or_else(|| Ok(Vec::new()))),
            None => Err(ScoreError::Failed(Cause::from(
                "there is none under these settings",
            ))),
        };
        (self.reply)(scored);
    }
}
