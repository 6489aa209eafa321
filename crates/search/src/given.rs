//! Chains that are there already, scored outside of a search or beside one.

use std::fmt;

use crate::error::ScoreError;
use crate::problem::Problem;
use crate::scorer::{ScoreItem, ScoreResult, Scored, Scorer, StepRef, is_probability};

/// Steps that somebody gives to be scored beside a search, and who wants their scores.
pub struct GivenChain {
    /// The problem's text.
    pub problem: String,
    /// With or without their boundaries. Empty ones get no score.
    pub steps: Vec<String>,
    /// Called with the scores on the thread that runs the search, so it should be quick; dropped
    /// without a call if the search ends before.
    pub reply: GivenReply,
}

impl fmt::Debug for GivenChain {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("GivenChain")
            .field("problem", &self.problem)
            .field("steps", &self.steps)
            .finish_non_exhaustive()
    }
}

/// Takes the scores of a [`GivenChain`].
pub type GivenReply = Box<dyn FnOnce(Result<Vec<f32>, ScoreError>) + Send>;

/// Probabilities of all steps of many chains, each a problem's text and its steps, with or without
/// their boundaries. Empty steps are no steps and get no score.
///
/// # Errors
/// The inner error concerns one chain alone, the outer one the model itself. A chain has scores for
/// all of its steps or for none.
pub fn score_chains(
    scorer: &mut dyn Scorer,
    chains: &[(&str, &[&str])],
) -> Result<Vec<Result<Vec<f32>, ScoreError>>, ScoreError> {
    let mut results: Vec<Result<Vec<f32>, ScoreError>> = Vec::with_capacity(chains.len());
    let mut items = Vec::new();
    let mut places = Vec::new();
    for &(text, steps) in chains {
        let problem = problem_of(text);
        let steps = steps_of(steps);
        let result = scorer.open(&problem, problem.key()).map(|id| {
            places.push(results.len());
            items.push(ScoreItem { id, steps });
            Vec::new()
        });
        results.push(result);
    }
    let scored = scorer.score(&items);
    for item in &items {
        scorer.release(item.id);
    }
    for (place, scored) in places.into_iter().zip(scored?) {
        results[place] = scored.and_then(all_scores);
    }
    Ok(results)
}

/// A problem of which the text alone is known.
pub(crate) fn problem_of(text: &str) -> Problem {
    Problem {
        text: text.to_owned(),
        ..Problem::default()
    }
}

/// The scores of a chain, if the scorer abstains on no step of it.
fn all_scores(scored: Scored) -> Result<Vec<f32>, ScoreError> {
    let score = |(at, score): (usize, Option<f32>)| {
        let step = at + 1;
        match score.ok_or(ScoreError::Abstained { step })? {
            score if is_probability(score) => Ok(score),
            score => Err(ScoreError::Failed(
                format!("its score of step {step} is {score}, which is no probability").into(),
            )),
        }
    };
    let scores = scored.probabilities.into_iter().enumerate();
    scores.map(score).collect()
}

/// Tells the scores of a batch of one chain.
pub(crate) fn tell(reply: GivenReply, scored: ScoreResult) {
    let only = |mut scored: Vec<_>| scored.pop().unwrap_or_else(|| Ok(Scored::default()));
    reply(scored.and_then(only).and_then(all_scores));
}

/// Steps that are not empty, without tokens of a generator.
pub fn steps_of<'a>(texts: &[&'a str]) -> Vec<StepRef<'a>> {
    texts
        .iter()
        .filter(|text| !text.trim().is_empty())
        .map(|&text| StepRef {
            text,
            tokens: &[],
            finish: None,
        })
        .collect()
}
