//! An answer that is written again from its weakest step.

use beamgen_search::{Problem, ProblemResult, Settings};
use serde::{Deserialize, Serialize};

use super::{Cost, Given, Task, Version, difference};
use crate::Request;

/// How answers are refined.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Refine {
    /// How often an answer is written again.
    pub rounds: usize,
    /// From the first step that scores less than this, and not at all if there is none; without it,
    /// from the step with the lowest score.
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

/// A time that an answer was written again.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Round {
    /// From which step, counted from 1.
    pub step: usize,
    /// The aggregated score of the new chain.
    pub score: Option<f32>,
    /// Whether it was better, and took the place of the one before.
    pub better: bool,
}

/// An answer before and after.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Refined {
    /// The problem's id.
    pub id: String,
    /// The problem's text.
    pub problem: String,
    /// The reference answer, if it is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reference: Option<String>,
    /// Whether another chain took its place.
    pub changed: bool,
    /// The answer as it was given.
    pub before: Option<Version>,
    /// The better one of what was given and what was written.
    pub after: Option<Version>,
    /// The rounds that were tried.
    pub rounds: Vec<Round>,
    /// The steps that were kept, those that went (`-`) and those that came (`+`), with scores.
    pub difference: Vec<String>,
    /// The tokens of all its searches.
    pub cost: Cost,
    /// Why it could not be done.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

/// The refining of one answer.
#[derive(Debug)]
pub struct Refining {
    how: Refine,
    given: Given,
    best: Option<Version>,
    rounds: Vec<Round>,
}

impl Refining {
    /// Refines the steps of `problem`, which are a whole answer, by the strategy of `settings`. It
    /// needs a scorer.
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

    /// The chain to be written again, and how many of its steps stay.
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
        // The seed itself may have written the answer that was given.
        let request = self.given.writing(&best.steps, kept, round + 1);
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
        // A chain that ends is better than one that does not.
        let better = new.finished && old.is_none_or(|old| !old.finished || new.score > old.score);
        if let Some(round) = self.rounds.last_mut() {
            (round.score, round.better) = (new.score, better);
        }
        if better {
            self.best = Some(new);
        }
    }
}
