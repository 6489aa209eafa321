//! The exact checker of the bundled world as a scorer: 1 for a right step, 0 for a wrong one. No
//! model can choose better, so a search with it is the ceiling for every reward model.

use std::collections::{HashMap, VecDeque};

use beamgen_search::{
    Memory, Problem, ScoreError, ScoreId, ScoreItem, ScoreResult, Scored, Scorer, StepRef,
};
use beamgen_world::{self as world, Checker, Verdict};

use crate::config::ScorerKind;

/// A scorer that computes the problems: a right step scores 1, a wrong step 0. It knows only
/// problems of the bundled world.
///
/// It can be made to notice a wrong step late, as a reward model does on problems whose first steps
/// all look good: then only a search that keeps several different chains recovers from a wrong
/// step.
#[derive(Debug, Default)]
pub struct ExactScorer {
    delay: usize,
    chains: HashMap<ScoreId, Chain>,
    next: u64,
}

#[derive(Debug, Clone)]
struct Chain {
    checker: Checker,
    /// The verdicts that were not told yet, the oldest first.
    untold: VecDeque<Verdict>,
}

impl ExactScorer {
    /// Makes a scorer that tells the verdict on a step with the score of the `delay`-th step after
    /// it. Until then the step counts as right. A chain's end tells everything.
    pub fn late(delay: usize) -> Self {
        Self {
            delay,
            ..Self::default()
        }
    }

    /// Returns the name by which runs and caches know the scorer.
    pub(crate) fn name(delay: usize) -> String {
        let name = ScorerKind::Exact.name();
        match delay {
            0 => name.to_owned(),
            delay => format!("{name}, {delay} steps late"),
        }
    }

    fn add(&mut self, chain: Chain) -> ScoreId {
        self.next += 1;
        let id = ScoreId(self.next);
        self.chains.insert(id, chain);
        id
    }
}

impl Chain {
    fn score(&mut self, step: &StepRef<'_>, delay: usize) -> f32 {
        // The step's text includes the line break that ends it, which the checker does not expect.
        let verdict = self.checker.next(step.text.trim_end_matches('\n'));
        self.untold.push_back(verdict);
        let told = if step.finish.is_some() {
            // No step after a wrong one is right, so the last verdict is that of the chain.
            self.untold.drain(..).next_back()
        } else if self.untold.len() > delay {
            self.untold.pop_front()
        } else {
            None
        };
        match told {
            None | Some(Verdict::Right) => 1.0,
            Some(Verdict::Wrong { .. }) => 0.0,
        }
    }
}

impl Scorer for ExactScorer {
    fn open(&mut self, problem: &Problem, _key: u64) -> Result<ScoreId, ScoreError> {
        let problem = world::parse(&problem.text).ok_or_else(|| {
            ScoreError::Prompt(
                "the exact scorer knows problems of the bundled world only".to_owned(),
            )
        })?;
        Ok(self.add(Chain {
            checker: Checker::new(&problem),
            untold: VecDeque::new(),
        }))
    }

    fn fork(&mut self, id: ScoreId) -> ScoreId {
        let copy = self.chains[&id].clone();
        self.add(copy)
    }

    fn release(&mut self, id: ScoreId) {
        self.chains.remove(&id);
    }

    fn score(&mut self, items: &[ScoreItem<'_>]) -> ScoreResult {
        let score = |item: &ScoreItem<'_>| {
            let unknown = || ScoreError::Failed(format!("no chain {}", item.id.0).into());
            let chain = self.chains.get_mut(&item.id).ok_or_else(unknown)?;
            let scores = item.steps.iter().map(|step| chain.score(step, self.delay));
            Ok(Ok(Scored::of(scores)))
        };
        items.iter().map(score).collect()
    }

    fn memory(&self) -> Memory {
        Memory::default()
    }
}

#[cfg(test)]
mod tests {
    use beamgen_search::{Finish, score_chains};

    use super::*;

    #[test]
    fn a_late_scorer_tells_a_wrong_step_later_or_at_the_end() {
        let problem = Problem::from(
            "Mia has 3 pens. Leo has 8 more pens than Mia. How many pens does Leo have?",
        );
        let lines = [
            "Mia has 3 pens: 4.\n",
            "Leo has 8 more pens than Mia: 4 + 8 = 12.\n",
        ];
        let mut scorer = ExactScorer::late(1);
        let scores = score_chains(&mut scorer, &[(&problem.text, &lines)]).unwrap();
        assert_eq!(scores[0].as_ref().unwrap(), &[1.0, 0.0]);

        let id = scorer.open(&problem, 0).unwrap();
        let steps = [None, Some(Finish::EndOfText)].map(|finish| StepRef {
            text: "Mia has 3 pens: 4.\n",
            tokens: &[],
            finish,
        });
        let mut scorer_of = |id, step| {
            let item = ScoreItem {
                id,
                steps: vec![step],
            };
            scorer
                .score(&[item])
                .unwrap()
                .remove(0)
                .unwrap()
                .probabilities
        };
        assert_eq!(scorer_of(id, steps[0]), [Some(1.0)]);
        assert_eq!(scorer_of(id, steps[1]), [Some(0.0)]);
    }
}
