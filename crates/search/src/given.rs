//! Chains that are there already, scored outside of a search.

use crate::error::ScoreError;
use crate::problem::Problem;
use crate::scorer::{ScoreItem, Scored, Scorer, StepRef};

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
        let problem = Problem {
            id: String::new(),
            text: text.to_owned(),
            answer: None,
        };
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

/// The scores of a chain, if the scorer abstains on no step of it.
fn all_scores(scored: Scored) -> Result<Vec<f32>, ScoreError> {
    let score = |(at, score): (usize, Option<f32>)| {
        let step = at + 1;
        score.ok_or(ScoreError::Abstained { step })
    };
    let scores = scored.probabilities.into_iter().enumerate();
    scores.map(score).collect()
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
