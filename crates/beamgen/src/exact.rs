//! The exact checker of the bundled world as a scorer: 1 for a right step, 0 for a wrong one. No
//! model can choose better, so a search with it is the ceiling for every reward model.

use std::collections::HashMap;

use beamgen_search::{
    Memory, Problem, ScoreError, ScoreId, ScoreItem, ScoreResult, Scored, Scorer, StepRef,
};
use beamgen_world::{self as world, Checker, Verdict};

/// A scorer that computes the problems: a right step scores 1, a wrong step 0. It knows only
/// problems of the bundled world.
#[derive(Debug, Default)]
pub struct ExactScorer {
    chains: HashMap<ScoreId, Checker>,
    next: u64,
}

impl ExactScorer {
    fn add(&mut self, checker: Checker) -> ScoreId {
        self.next += 1;
        let id = ScoreId(self.next);
        self.chains.insert(id, checker);
        id
    }
}

impl Scorer for ExactScorer {
    fn open(&mut self, problem: &Problem, _key: u64) -> Result<ScoreId, ScoreError> {
        let problem = world::parse(&problem.text).ok_or_else(|| {
            ScoreError::Prompt(
                "the exact scorer knows problems of the bundled world only".to_owned(),
            )
        })?;
        Ok(self.add(Checker::new(&problem)))
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
            let checker = self.chains.get_mut(&item.id).ok_or_else(unknown)?;
            // The step's text includes the line break that ends it, which the checker does not
            // expect.
            let probability =
                |step: &StepRef<'_>| match checker.next(step.text.trim_end_matches('\n')) {
                    Verdict::Right => 1.0,
                    Verdict::Wrong { .. } => 0.0,
                };
            Ok(Ok(Scored::of(item.steps.iter().map(probability))))
        };
        items.iter().map(score).collect()
    }

    fn memory(&self) -> Memory {
        Memory::default()
    }
}
