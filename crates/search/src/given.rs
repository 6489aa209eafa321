//! Chains that are there already, scored outside of a search.

use crate::error::ScoreError;
use crate::problem::Problem;
use crate::scorer::{ScoreItem, Scorer, StepRef};

/// Probabilities of all steps of many chains, each a problem's text and its steps, with or without
/// their boundaries. Empty steps are no steps and get no score.
///
/// # Errors
/// The inner error concerns one chain alone, the outer one the model itself.
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
        results[place] = scored.map(|scored| scored.probabilities);
    }
    Ok(results)
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
