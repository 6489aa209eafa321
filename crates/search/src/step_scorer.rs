//! Scorers that compute a number from a problem and its steps, without caches of their own.

use std::collections::HashMap;
use std::sync::Arc;

use crate::error::ScoreError;
use crate::generator::Memory;
use crate::problem::Problem;
use crate::scorer::{ScoreId, ScoreItem, ScoreResult, Scored, Scorer};

/// A scorer that sees a step together with the chain before it. Implemented by every closure
/// `|problem: &Problem, steps: &[&str]| -> f32`.
pub trait StepScorer {
    /// Returns the probability in `0.0..=1.0` that the last of `steps` is right. The steps before
    /// it are its context, in order; each step ends with its boundary.
    ///
    /// # Errors
    /// The problem ends with the returned error, unless the scorer is [lost](ScoreError::Lost),
    /// which ends the run.
    fn score(&mut self, problem: &Problem, steps: &[&str]) -> Result<f32, ScoreError>;

    /// Returns the score as [`score`](Self::score) does, or `None` if the scorer abstains on the
    /// step. By default it never does.
    ///
    /// # Errors
    /// See [`score`](Self::score).
    fn opinion(&mut self, problem: &Problem, steps: &[&str]) -> Result<Option<f32>, ScoreError> {
        self.score(problem, steps).map(Some)
    }

    /// Whether the scorer abstains on all steps of a problem; by default it scores them.
    fn abstains(&self, _problem: &Problem) -> bool {
        false
    }

    /// Returns the number of tokens read for the last score; 0 by default.
    fn read_tokens(&self) -> usize {
        0
    }
}

impl<F: FnMut(&Problem, &[&str]) -> f32> StepScorer for F {
    fn score(&mut self, problem: &Problem, steps: &[&str]) -> Result<f32, ScoreError> {
        Ok(self(problem, steps))
    }
}

/// Adapts a [`StepScorer`] to a [`Scorer`] by remembering the steps of every chain.
#[derive(Debug)]
pub struct PerStep<S> {
    scorer: S,
    chains: HashMap<ScoreId, Chain>,
    next: u64,
}

#[derive(Debug, Clone)]
struct Chain {
    problem: Arc<Problem>,
    steps: Vec<Arc<str>>,
}

impl<S: StepScorer> PerStep<S> {
    /// Wraps a scorer; no chain exists yet.
    pub fn new(scorer: S) -> Self {
        Self {
            scorer,
            chains: HashMap::new(),
            next: 0,
        }
    }

    fn add(&mut self, chain: Chain) -> ScoreId {
        self.next += 1;
        let id = ScoreId(self.next);
        self.chains.insert(id, chain);
        id
    }

    fn append(&mut self, item: &ScoreItem<'_>) -> Result<Scored, ScoreError> {
        let Some(chain) = self.chains.get_mut(&item.id) else {
            let what = format!("unknown chain {}", item.id.0);
            return Err(ScoreError::Failed(what.into()));
        };
        let mut scored = Scored::default();
        for step in &item.steps {
            // Kept even if the scorer abstains: the step is context for the steps after it.
            chain.steps.push(step.text.into());
            if self.scorer.abstains(&chain.problem) {
                scored.probabilities.push(None);
                continue;
            }
            let steps: Vec<&str> = chain.steps.iter().map(|step| &**step).collect();
            let score = self.scorer.opinion(&chain.problem, &steps)?;
            scored.probabilities.push(score);
            scored.read_tokens += self.scorer.read_tokens();
        }
        Ok(scored)
    }
}

impl<S: StepScorer> Scorer for PerStep<S> {
    fn open(&mut self, problem: &Problem, _key: u64) -> Result<ScoreId, ScoreError> {
        Ok(self.add(Chain {
            problem: Arc::new(problem.clone()),
            steps: Vec::new(),
        }))
    }

    fn fork(&mut self, id: ScoreId) -> ScoreId {
        // Steps are shared, so a fork copies pointers and no texts.
        let copy = self.chains[&id].clone();
        self.add(copy)
    }

    fn release(&mut self, id: ScoreId) {
        self.chains.remove(&id);
    }

    fn score(&mut self, items: &[ScoreItem<'_>]) -> ScoreResult {
        Ok(items.iter().map(|item| self.append(item)).collect())
    }

    fn memory(&self) -> Memory {
        Memory::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_closure_sees_the_chain_up_to_the_step_and_forks_do_not_mix() {
        fn item<'a>(id: ScoreId, texts: &[&'a str]) -> ScoreItem<'a> {
            let steps = crate::steps_of(texts);
            ScoreItem { id, steps }
        }
        let mut scorer = PerStep::new(|problem: &Problem, steps: &[&str]| {
            assert_eq!(problem.id, "p");
            steps.concat().len() as f32 / 100.0
        });
        let problem = Problem {
            id: "p".into(),
            text: "?".into(),
            answer: None,
            ..Problem::default()
        };
        let root = scorer.open(&problem, 0).unwrap();
        let (a, b) = (scorer.fork(root), scorer.fork(root));
        let items = [item(a, &["one\n", "two\n"]), item(b, &["x\n"])];
        let results: [_; 2] = scorer.score(&items).unwrap().try_into().unwrap();
        let scores = results.map(|scored| scored.unwrap().probabilities);
        assert_eq!(scores, [vec![Some(0.04), Some(0.08)], vec![Some(0.02)]]);
        let again = scorer.fork(a);
        let results = scorer.score(&[item(again, &["3\n"])]).unwrap();
        assert_eq!(results[0].as_ref().unwrap().probabilities, [Some(0.1)]);
        for id in [root, a, b, again] {
            scorer.release(id);
        }
        assert!(scorer.chains.is_empty());
    }
}
