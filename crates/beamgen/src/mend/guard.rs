//! An answer that is accepted, mended or withheld.

use beamgen_eval::answer;
use beamgen_search::{Choose, Problem, ProblemResult, Settings, StrategyKind};
use serde::{Deserialize, Serialize};

use super::{Cost, Given, Task, Version, difference};
use crate::soundness::Auditor;
use crate::{Config, Request};

/// How answers are guarded.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Guard {
    /// An answer with an aggregated score below this is unsure.
    pub bound: f32,
    /// How many times the problem is solved again, for a vote; 0 asks for none.
    pub samples: usize,
    /// How often an answer is written again before it is withheld.
    pub rounds: usize,
}

impl Default for Guard {
    fn default() -> Self {
        Self {
            bound: 0.5,
            samples: 8,
            rounds: 1,
        }
    }
}

/// The verdict on an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// Nothing was found.
    Accept,
    /// Something was found, and nothing is found in the chain that takes its place.
    Mend,
    /// Something was found, and no better chain.
    Withhold,
}

/// Why an answer is not accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Cause {
    /// The score is below the bound.
    Unsure,
    /// Other chains, sampled for the problem, vote for another answer, each with its score.
    SplitVote,
    /// A checker proves a step wrong, or a step scores below `sound_above`.
    Unsound,
    /// The chain states no answer.
    Unfinished,
    /// The problem is of a kind that the bundled models do not know: their scores mean nothing.
    UnlikeTraining,
}

/// Something that was found in an answer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Found {
    /// The code of the reason.
    pub code: Cause,
    /// The step at fault, counted from 1, if it is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub step: Option<usize>,
    /// The reason in words.
    pub reason: String,
}

/// An answer that was looked at.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Guarded {
    /// The problem's id.
    pub id: String,
    /// The problem's text.
    pub problem: String,
    /// The verdict; `None` if the answer could not be looked at.
    pub verdict: Option<Verdict>,
    /// The answer to be shown; none if it is withheld.
    pub answer: Option<String>,
    /// The faults of the answer that was given.
    pub reasons: Vec<Found>,
    /// The answer that was given, if it was scored.
    pub given: Option<Version>,
    /// The chain in its place.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mended: Option<Version>,
    /// The steps that were kept, those that went (`-`) and those that came (`+`), with scores.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub difference: Vec<String>,
    /// The answers that were voted for and how many chains give them, the winner first.
    pub votes: Vec<(String, usize)>,
    /// The tokens of all its searches.
    pub cost: Cost,
    /// Why it could not be looked at.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

/// The guarding of one answer.
pub struct Guarding {
    how: Guard,
    is_foreign: bool,
    auditor: Auditor,
    given: Given,
    /// The answers of the vote, once it was held.
    votes: Option<Vec<(String, usize)>>,
    found: Vec<Found>,
    mended: Option<Version>,
    rounds: usize,
}

impl Guarding {
    /// Returns a task that guards `problem`, whose given steps are the whole answer. The solver
    /// needs a scorer. The audit of `config` looks for wrong steps. `is_foreign` says whether the
    /// models do not know the kind of problem ([`Solver::is_foreign`](crate::Solver::is_foreign)).
    ///
    /// # Panics
    /// Panics if `config` names an unknown checker, which [`Config::check`] would refuse.
    pub fn new(
        problem: Problem,
        config: &Config,
        settings: Settings,
        how: Guard,
        is_foreign: bool,
    ) -> Self {
        Self {
            how,
            is_foreign,
            auditor: Auditor::new(config).expect("checked settings"),
            given: Given::new(problem, settings),
            // With 0 samples there is no search for votes, so the empty vote counts as done.
            votes: (how.samples == 0).then(Vec::new),
            found: Vec::new(),
            mended: None,
            rounds: 0,
        }
    }

    /// Returns the verdict and the answer to show.
    pub fn done(self) -> Guarded {
        let Given {
            problem,
            before,
            cost,
            error,
            ..
        } = self.given;
        let verdict = if self.found.is_empty() {
            Verdict::Accept
        } else if self.mended.is_some() {
            Verdict::Mend
        } else {
            Verdict::Withhold
        };
        let shown = match verdict {
            Verdict::Accept => before.as_ref(),
            Verdict::Mend => self.mended.as_ref(),
            Verdict::Withhold => None,
        };
        let both = before.as_ref().zip(self.mended.as_ref());
        Guarded {
            id: problem.id,
            problem: problem.text,
            verdict: error.is_none().then_some(verdict),
            answer: shown
                .and_then(|version| version.answer.clone())
                // After an error the answer was not examined, so the lack of faults does not mean
                // acceptance.
                .filter(|_| error.is_none()),
            reasons: self.found,
            difference: both.map_or_else(Vec::new, |(a, b)| difference(a, b)),
            given: before,
            mended: self.mended,
            votes: self.votes.unwrap_or_default(),
            cost,
            error,
        }
    }

    /// The search whose chains vote.
    fn vote(&self) -> Request {
        let request = self.given.writing(&[], 0, 0);
        let mut request = request
            .strategy(StrategyKind::BEST_OF_N)
            .n(self.how.samples);
        // A vote needs `samples` whole chains, so early stops, rejections and thresholds are off.
        let search = &mut request.settings.search;
        (search.m, search.early_rejection, search.speculate) = (1, 0, false);
        search.rollouts = None;
        (search.confidence, search.sure_score, search.threshold) = (0.0, 0.0, 0.0);
        request.choose(Choose::Weighted)
    }

    /// Returns the faults of a chain.
    fn look_at(&mut self, version: &Version) -> Vec<Found> {
        let mut found = Vec::new();
        let mut add = |code, step: Option<usize>, reason: String| {
            let step = step.map(|at| at + 1);
            found.push(Found { code, step, reason });
        };
        if !version.finished {
            add(
                Cause::Unfinished,
                None,
                "the chain states no answer".to_owned(),
            );
        }
        let problem = self.given.problem.with_context();
        let steps = version.steps.iter().map(String::as_str);
        let steps = steps.zip(version.scores.iter().copied());
        if let Some(unsound) = self.auditor.chain(&problem, steps) {
            let reason = format!("{}: {}", unsound.source, unsound.reason);
            add(Cause::Unsound, Some(unsound.step), reason);
        }
        // A chain without a score counts as unsure, like one that scores 0.
        let score = version.score.unwrap_or_default();
        if score < self.how.bound {
            let reason = format!("the score {score:.3} is below {}", self.how.bound);
            add(Cause::Unsure, version.weakest(), reason);
        }
        let own = version.answer.as_deref().unwrap_or_default();
        let winner = self.votes.iter().flatten().next();
        // An answer that cannot be compared with the winner counts as different.
        let other = winner.filter(|(vote, _)| answer::compare(own, vote) != answer::Verdict::Same);
        if let Some((answer, votes)) = other {
            let samples = self.how.samples;
            let reason = format!("the vote is for {answer}, with {votes} of {samples} chains");
            add(Cause::SplitVote, None, reason);
        }
        found
    }

    /// How many steps of the given chain stay when it is written again.
    fn kept(&self, version: &Version) -> usize {
        let is = |code: Cause| self.found.iter().find(|found| found.code == code);
        let wrong = is(Cause::Unsound)
            .and_then(|found| found.step)
            .map(|step| step - 1);
        let weak = version.first_below(self.how.bound);
        let earliest = wrong.into_iter().chain(weak).min();
        match earliest {
            Some(at) => at,
            // An unfinished chain without a weak step is continued. A chain that only the vote
            // contradicts is written again from its beginning.
            None if is(Cause::Unfinished).is_some() => version.steps.len(),
            None => 0,
        }
    }
}

impl Task for Guarding {
    fn next(&mut self) -> Option<Request> {
        if self.given.error.is_some() {
            return None;
        }
        if self.is_foreign {
            // Neither a score nor a vote would mean anything.
            self.found = vec![Found {
                code: Cause::UnlikeTraining,
                step: None,
                reason: "the problem is of a kind that the bundled models do not know".to_owned(),
            }];
            return None;
        }
        let Some(given) = self.given.before.clone() else {
            return Some(self.given.reading());
        };
        if self.votes.is_none() {
            return Some(self.vote());
        }
        // Only the given answer is examined here, so that `found` keeps the reasons why it was not
        // accepted.
        if self.rounds == 0 {
            self.found = self.look_at(&given);
        }
        let is_over = self.found.is_empty() || self.mended.is_some();
        if is_over || self.rounds == self.how.rounds {
            return None;
        }
        self.rounds += 1;
        let request = self
            .given
            .writing(&given.steps, self.kept(&given), self.rounds);
        Some(request)
    }

    fn take(&mut self, result: ProblemResult) {
        // The answer was scored by an earlier search if `before` is set, and `Given::take` sets
        // `before`. So this line must come first.
        let votes = self.given.before.is_some() && self.votes.is_none();
        let new = self.given.take(&result);
        if votes {
            // An answer whose chains all score low does not count as voted for.
            let bound = f64::from(self.how.bound);
            let votes = result.answers.iter();
            let votes = votes.filter(|votes| votes.weight >= bound);
            let votes = votes.map(|votes| (votes.answer.clone(), votes.votes));
            self.votes = Some(votes.collect());
        } else if let Some(new) = new {
            let is_well = self.look_at(&new).is_empty();
            self.mended = Some(new).filter(|_| is_well);
        }
    }
}
