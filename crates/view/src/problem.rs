//! The data of one problem on a run's page; the steps are in a separate block.

use beamgen_eval::answer::Verdict;
use beamgen_eval::{Record, Spent};
use serde::Serialize;

use crate::findings::{Finding, findings};
use crate::search::Search;

/// The outcome of a problem, by which the page sorts and filters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Outcome {
    /// The answer equals the reference, and nothing proves its chain unsound.
    Right,
    /// The answer differs from the reference for certain.
    Wrong,
    /// The comparison with the reference could not be decided.
    CannotTell,
    /// The answer equals the reference, but a step of its chain is wrong.
    Unsound,
    /// The answer was found but not given: its score is below the threshold, or its chain is
    /// unsound.
    Withheld,
    /// No chain reached an answer.
    NoAnswer,
    /// The problem could not be tried.
    NotTried,
    /// There is an answer but no reference to compare it with.
    Ungraded,
}

impl Outcome {
    /// Returns the outcome of a record. A record may fit several arms; the first one counts.
    pub(crate) fn of(record: &Record) -> Self {
        match record.correct {
            _ if record.error.is_some() => Self::NotTried,
            _ if record.withheld.is_some() => Self::Withheld,
            _ if record.answer.is_none() => Self::NoAnswer,
            Some(true) if record.unsound.is_some() => Self::Unsound,
            Some(true) => Self::Right,
            Some(false) if record.cannot_tell => Self::CannotTell,
            Some(false) => Self::Wrong,
            None => Self::Ungraded,
        }
    }
}

/// A problem with its outcome and the numbers shown.
#[derive(Serialize)]
pub(crate) struct Problem<'a> {
    id: &'a str,
    problem: &'a str,
    #[serde(skip_serializing_if = "<[String]>::is_empty")]
    context: &'a [String],
    /// The number of steps at the start of the chosen chain that were given and not sampled.
    #[serde(skip_serializing_if = "is_zero")]
    given: usize,
    /// The reference answer; `None` if a verifier judges, which need not go by it.
    reference: Option<&'a str>,
    /// The finding of the verifier about the chosen chain, in words.
    #[serde(skip_serializing_if = "Option::is_none")]
    verified: Option<String>,
    outcome: Outcome,
    answer: Option<&'a str>,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    guess: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    withheld: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<&'a str>,
    score: Option<f32>,
    /// The chosen answer's share of the votes.
    share: Option<f64>,
    finish: &'a str,
    answers: Vec<Answer<'a>>,
    ledger: &'a Spent,
    /// Whether the record has a tree.
    tree: bool,
    /// The id of the last step of the chosen chain.
    chosen: Option<u32>,
    findings: Vec<Finding>,
}

/// One of the distinct answers to a problem.
#[derive(Serialize)]
struct Answer<'a> {
    answer: &'a str,
    votes: usize,
    weight: f64,
    score: Option<f32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    node: Option<u32>,
    /// Whether the answer equals the reference; `None` without a reference or if that is undecided.
    correct: Option<bool>,
}

impl<'a> Problem<'a> {
    /// Makes the data of a record; `search` has the record's steps.
    pub(crate) fn of(record: &'a Record, search: &Search) -> Self {
        let all: usize = record.answers.iter().map(|answer| answer.votes).sum();
        let answers = record.answers.iter().map(|votes| Answer {
            answer: &votes.answer,
            votes: votes.votes,
            weight: votes.weight,
            score: votes.score,
            // Without a tree only the chosen chain has steps on the page, so ids of other chains
            // are invalid.
            node: search.has_tree.then_some(votes.node.0),
            correct: match record.verdict_on(votes) {
                Some(Verdict::Same) => Some(true),
                Some(Verdict::Different) => Some(false),
                Some(Verdict::CannotTell) | None => None,
            },
        });
        Self {
            id: &record.id,
            problem: &record.problem,
            context: &record.context,
            given: record.given,
            reference: record
                .reference
                .as_deref()
                .filter(|_| record.verifier.is_none()),
            verified: record.outcome.as_ref().map(ToString::to_string),
            outcome: Outcome::of(record),
            answer: record.answer.as_deref(),
            guess: record.guess,
            withheld: record.withheld.as_deref(),
            error: record.error.as_deref(),
            score: record.score,
            share: record
                .answers
                .first()
                // The first answer is the chosen one.
                .map(|chosen| chosen.votes as f64 / all.max(1) as f64),
            finish: &record.finish,
            answers: answers.collect(),
            ledger: &record.ledger,
            tree: search.has_tree,
            chosen: search.chosen,
            findings: findings(record, search),
        }
    }
}

fn is_zero(count: &usize) -> bool {
    *count == 0
}
