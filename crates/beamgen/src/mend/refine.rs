//! Refining: rewrites an answer from its weakest step.

use beamgen_search::{Problem, ProblemResult, Settings};
use serde::{Deserialize, Serialize};

use super::{Cost, Given, Task, Version, difference};
use crate::Request;

/// The options of refining.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Refine {
    /// The number of times that an answer is rewritten.
    pub rounds: usize,
    /// The bound of a weak step: answers are rewritten from the first step that scores less, and kept
    /// if no step does. `None` rewrites from the step with the lowest score.
    pub below: Option<f32>,
}

impl Default for Refine {
    fn default() -> Self {
        Self {
            rounds: 1,
            below: None,
        }
    }
}

/// A round in which an answer was rewritten.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Round {
    /// The step from which the answer was rewritten, counted from 1.
    pub step: usize,
    /// The aggregated score of the new chain.
    pub score: Option<f32>,
    /// Whether the new chain was better, and replaced the one before.
    pub better: bool,
}

/// The result of refining an answer.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Refined {
    /// The problem's id.
    pub id: String,
    /// The problem's text.
    pub problem: String,
    /// The reference answer, if it is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reference: Option<String>,
    /// Whether a new chain replaced the answer.
    pub changed: bool,
    /// The given answer with its scores; `None` if it could not be scored.
    pub before: Option<Version>,
    /// The best chain, which may be the given answer.
    pub after: Option<Version>,
    /// The rounds that were tried.
    pub rounds: Vec<Round>,
    /// The steps that were kept, removed (`-`) and added (`+`), with their scores.
    pub difference: Vec<String>,
    /// The tokens of all searches for the answer.
    pub cost: Cost,
    /// The reason why the answer could not be refined.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

/// The task of refining an answer.
#[derive(Debug)]
pub struct Refining {
    how: Refine,
    given: Given,
    best: Option<Version>,
    rounds: Vec<Round>,
}

impl Refining {
    /// Returns a task that refines the steps of `problem`, which are a whole answer, by the strategy of
    /// `settings`. The solver needs a scorer.
    pub fn new(problem: Problem, settings: Settings, how: Refine) -> Self {
        Self {
            how,
            given: Given::new(problem, settings),
            best: None,
            rounds: Vec::new(),
        }
    }

    /// Returns the answer before and after.
    pub fn done(self) -> Refined {
        let Given {
            problem,
            before,
            cost,
            error,
            ..
        } = self.given;
        let after = self.best.or_else(|| before.clone());
        let both = before.as_ref().zip(after.as_ref());
        Refined {
            id: problem.id,
            problem: problem.text,
            reference: problem.answer,
            changed: self.rounds.iter().any(|round| round.better),
            difference: both.map_or_else(Vec::new, |(a, b)| difference(a, b)),
            before,
            after,
            rounds: self.rounds,
            cost,
            error,
        }
    }

    /// Returns the chain to rewrite, and the number of its steps to keep.
    fn weak(&self) -> Option<(&Version, usize)> {
        let best = self.best.as_ref().or(self.given.before.as_ref())?;
        let at = match self.how.below {
            Some(bound) => best.first_below(bound),
            None => best.weakest(),
        };
        Some((best, at?))
    }
}

impl Task for Refining {
    fn next(&mut self) -> Option<Request> {
        if self.given.error.is_some() {
            return None;
        }
        if self.given.before.is_none() {
            return Some(self.given.reading());
        }
        let round = self.rounds.len();
        if round == self.how.rounds {
            return None;
        }
        let (best, kept) = self.weak()?;
        // Round 0 would use the seed that may have written the given answer, and repeat it.
        let request = self.given.writing(&best.steps, kept, round + 1);
        // Recorded before its result, so that a search without a chain uses up its round.
        self.rounds.push(Round {
            step: kept + 1,
            score: None,
            better: false,
        });
        Some(request)
    }

    fn take(&mut self, result: ProblemResult) {
        let Some(new) = self.given.take(&result) else {
            return;
        };
        let old = self.best.as_ref().or(self.given.before.as_ref());
        // A finished chain beats an unfinished one, whatever the scores.
        let better = new.finished && old.is_none_or(|old| !old.finished || new.score > old.score);
        if let Some(round) = self.rounds.last_mut() {
            (round.score, round.better) = (new.score, better);
        }
        if better {
            self.best = Some(new);
        }
    }
}
