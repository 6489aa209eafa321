//! Refining: rewrites an answer from its weakest step, and keeps the better chain.

use beamgen_search::{Problem, ProblemResult, Settings};
use serde::{Deserialize, Serialize};

use super::{Cost, Given, Task, Version, difference};
use crate::Request;

/// Options of refining.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Refine {
    /// The number of times that the answer is rewritten.
    pub rounds: usize,
    /// The score below which a step is weak. The answer is rewritten from its first weak step, and
    /// kept if no step is weak. `None` rewrites from the step with the lowest score.
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

/// A rewrite of the answer.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Round {
    /// The first rewritten step, counted from 1.
    pub step: usize,
    /// The aggregated score of the new chain.
    pub score: Option<f32>,
    /// Whether the new chain replaced the best chain so far.
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
    /// Whether a new chain replaced the given answer.
    pub changed: bool,
    /// The given answer with its scores; `None` if the answer could not be scored.
    pub before: Option<Version>,
    /// The best chain, which may be the given answer; `None` if the answer could not be scored.
    pub after: Option<Version>,
    /// The rounds that were tried.
    pub rounds: Vec<Round>,
    /// The steps in both chains, then the removed (`-`) and the added ones (`+`), each with its
    /// score.
    pub difference: Vec<String>,
    /// The tokens of all searches of the task.
    pub cost: Cost,
    /// The reason why the answer could not be refined; `None` if refining succeeded.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

/// A [`Task`] that refines one answer.
#[derive(Debug)]
pub struct Refining {
    how: Refine,
    given: Given,
    best: Option<Version>,
    rounds: Vec<Round>,
}

impl Refining {
    /// Returns a task that refines `problem`, whose given steps are the whole answer. New steps are
    /// searched by the strategy of `settings`. The solver needs a scorer.
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

    /// Returns the chain to rewrite next, and the number of its first steps to keep.
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
        // Round 0 has the seed that may have produced the given answer, and would only repeat it.
        let request = self.given.writing(&best.steps, kept, round + 1);
        // The round is recorded before its result, so that a search without a result uses up the
        // round.
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
        // A finished chain is better than an unfinished one, even if its score is lower.
        let better = new.finished && old.is_none_or(|old| !old.finished || new.score > old.score);
        if let Some(round) = self.rounds.last_mut() {
            (round.score, round.better) = (new.score, better);
        }
        if better {
            self.best = Some(new);
        }
    }
}
