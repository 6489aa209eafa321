//! Chains that already exist, scored outside of a search or while one is running.

use std::fmt;

use crate::error::{Cause, ScoreError};
use crate::problem::Problem;
use crate::scorer::{ScoreItem, ScoreResult, Scored, Scorer, StepRef, is_probability};

/// A chain to be scored while searches are running, and the callback for its scores.
pub struct GivenChain {
    /// The text of the problem that the steps answer.
    pub problem: String,
    /// The steps, with or without their boundaries. Blank steps get no score.
    pub steps: Vec<String>,
    /// Called with the scores on the thread that runs the search, so it should be quick. Dropped
    /// without a call if the run ends before.
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

impl GivenChain {
    /// Returns the bytes of problem and steps.
    pub(crate) fn bytes(&self) -> usize {
        self.problem.len() + self.steps.iter().map(String::len).sum::<usize>()
    }
}

/// The scores of a chain that was scored outside of a search, and their cost in tokens.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct GivenScores {
    /// One probability for each step that is not blank.
    pub scores: Vec<f32>,
    /// The tokens of problem and steps, as the scorer counts them.
    pub tokens: usize,
}

/// The callback of a [`GivenChain`]. It gets the scores, or the reason why there are none.
pub type GivenReply = Box<dyn FnOnce(Result<GivenScores, ScoreError>) + Send>;

/// Scores chains, each given as a problem's text and its steps, with or without their boundaries.
/// Returns one probability for each step that is not blank.
///
/// # Errors
/// An inner error concerns a single chain, the outer one the whole scorer. A chain has scores for
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
    // Released even if the call failed, since only this function knows these chains.
    for item in &items {
        scorer.release(item.id);
    }
    for (place, scored) in places.into_iter().zip(scored?) {
        results[place] = scored.and_then(all_scores);
    }
    Ok(results)
}

/// Makes a problem that has only a text.
pub(crate) fn problem_of(text: &str) -> Problem {
    Problem {
        text: text.to_owned(),
        ..Problem::default()
    }
}

/// Returns the scores of a chain, unless the scorer abstained on a step of it.
fn all_scores(scored: Scored) -> Result<Vec<f32>, ScoreError> {
    let mut scores = Vec::with_capacity(scored.probabilities.len());
    for (score, step) in scored.probabilities.into_iter().zip(1..) {
        let score = score.ok_or(ScoreError::Abstained { step })?;
        if !is_probability(score) {
            let what = format!("the score of step {step} is {score}, which is not a probability");
            return Err(ScoreError::Failed(what.into()));
        }
        scores.push(score);
    }
    Ok(scores)
}

/// Sends the scores of a batch to the callbacks of its chains.
pub(crate) fn send_scores(replies: Vec<GivenReply>, scored: ScoreResult) {
    let count = replies.len();
    let scored = match scored {
        Ok(scored) if scored.len() == count => scored,
        Ok(scored) => {
            let what = format!("it gave {} results for {count} chains", scored.len());
            vec![Err(ScoreError::Failed(Cause::from(what))); count]
        }
        Err(error) => vec![Err(error); count],
    };
    for (reply, scored) in replies.into_iter().zip(scored) {
        reply(scored.and_then(|scored| {
            let tokens = scored.read_tokens + scored.reused_tokens;
            let scores = all_scores(scored)?;
            Ok(GivenScores { scores, tokens })
        }));
    }
}

/// Makes the steps of texts that are not blank, without tokens of a generator.
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
