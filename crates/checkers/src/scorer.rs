//! A checker as a judge in a search. A step that was proved wrong scores 0 and a verified step
//! scores 1. All other steps have no score.

use beamgen_search::{
    Memory, Problem, ScoreError, ScoreId, ScoreItem, ScoreResult, Scored, Scorer,
};

use crate::{CheckItem, Checker, Verdict};

/// A checker as a [`Scorer`], for a judge that vetoes.
pub struct CheckerScorer {
    checker: Box<dyn Checker>,
}

impl CheckerScorer {
    /// Uses a checker as a scorer that answers every batch at once.
    #[must_use]
    pub fn new(checker: Box<dyn Checker>) -> Self {
        Self { checker }
    }
}

/// Returns the score for a verdict; `None` without a proof.
fn score(verdict: &Verdict) -> Option<f32> {
    match verdict {
        Verdict::Pass => Some(1.0),
        Verdict::Fail { .. } => Some(0.0),
        Verdict::Abstain | Verdict::Lost => None,
    }
}

/// Converts verdicts to scores, item by item and step by step.
pub(crate) fn scored(verdicts: Vec<Vec<Verdict>>) -> ScoreResult {
    let items = verdicts.into_iter().map(|verdicts| {
        Ok(Scored {
            probabilities: verdicts.iter().map(score).collect(),
            // Lost verdicts are counted, because they may change the result of the search.
            lost_verdicts: verdicts.iter().filter(|v| **v == Verdict::Lost).count(),
            ..Scored::default()
        })
    });
    Ok(items.collect())
}

impl Scorer for CheckerScorer {
    fn open(&mut self, problem: &Problem, _key: u64) -> Result<ScoreId, ScoreError> {
        Ok(self.checker.open(&problem.with_context()))
    }

    fn fork(&mut self, id: ScoreId) -> ScoreId {
        self.checker.fork(id)
    }

    fn release(&mut self, id: ScoreId) {
        self.checker.release(id);
    }

    fn score(&mut self, items: &[ScoreItem<'_>]) -> ScoreResult {
        let items: Vec<CheckItem<'_>> = items
            .iter()
            .map(|item| CheckItem {
                id: item.id,
                steps: item.steps.iter().map(|step| step.text).collect(),
            })
            .collect();
        scored(self.checker.check(&items))
    }

    fn memory(&self) -> Memory {
        Memory::default()
    }
}

#[cfg(test)]
mod tests {
    use beamgen_search::StepRef;

    use super::*;
    use crate::named;

    #[test]
    fn verdicts_are_scores_and_forks_are_independent() {
        let checker = named("arithmetic").expect("a row").open();
        let mut scorer = CheckerScorer::new(checker);
        let problem = Problem {
            id: "p".into(),
            text: "?".into(),
            answer: None,
            ..Problem::default()
        };
        let root = scorer.open(&problem, 0).expect("it opens all");
        let step = |text| StepRef {
            text,
            tokens: &[],
            finish: None,
        };
        let ask = |scorer: &mut CheckerScorer, id, steps: &[&'static str]| {
            let steps = steps.iter().copied().map(step).collect();
            let scored = scorer.score(&[ScoreItem { id, steps }]).expect("scores");
            scored[0].as_ref().expect("scores").probabilities.clone()
        };
        let bound = ask(
            &mut scorer,
            root,
            &["A = 3 + 4 = 7\n", "words\n", "1 + 1 = 3\n"],
        );
        assert_eq!(bound, [Some(1.0), None, Some(0.0)]);
        let fork = scorer.fork(root);
        assert_eq!(
            ask(&mut scorer, fork, &["A = 8 or 9\n", "A + 1 = 9\n"]),
            [None, None]
        );
        assert_eq!(ask(&mut scorer, root, &["A + 1 = 9\n"]), [Some(0.0)]);
        scorer.release(root);
        scorer.release(fork);
    }
}
