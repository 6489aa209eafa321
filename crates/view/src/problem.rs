//! A problem of a run as a page is told of it, without its steps.

use beamgen_eval::answer::{self, Verdict};
use beamgen_eval::{Record, Spent};
use serde::Serialize;

use crate::findings::{Finding, findings};
use crate::search::Search;

/// What came of a problem.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Outcome {
    /// The answer is the reference.
    Right,
    /// It certainly is not.
    Wrong,
    /// It could not be compared.
    CannotTell,
    /// The answer is the reference, by a chain that is unsound.
    Unsound,
    /// The answer scored below the threshold, or its chain is unsound.
    Withheld,
    /// No chain gave one.
    NoAnswer,
    /// The problem could not be tried.
    NotTried,
    /// There is no reference.
    Ungraded,
}

impl Outcome {
    /// The outcome of a record.
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

/// A problem and what came of it.
#[derive(Serialize)]
pub(crate) struct Problem<'a> {
    id: &'a str,
    problem: &'a str,
    reference: Option<&'a str>,
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
    /// The last step of the chosen chain.
    chosen: Option<u32>,
    findings: Vec<Finding>,
}

/// An answer and its votes.
#[derive(Serialize)]
struct Answer<'a> {
    answer: &'a str,
    votes: usize,
    weight: f64,
    score: Option<f32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    node: Option<u32>,
    /// Whether it is the reference, where that can be told.
    correct: Option<bool>,
}

impl<'a> Problem<'a> {
    /// What is told of a record; `search` has its steps.
    pub(crate) fn of(record: &'a Record, search: &Search) -> Self {
        let all: usize = record.answers.iter().map(|answer| answer.votes).sum();
        let answer = |of: &'a beamgen_search::AnswerVotes| Answer {
            answer: &of.answer,
            votes: of.votes,
            weight: of.weight,
            score: of.score,
            node: search.has_tree.then_some(of.node.0),
            correct: record.reference.as_deref().and_then(|reference| {
                match answer::compare(&of.answer, reference) {
                    Verdict::Same => Some(true),
                    Verdict::Different => Some(false),
                    Verdict::CannotTell => None,
                }
            }),
        };
        Self {
            id: &record.id,
            problem: &record.problem,
            reference: record.reference.as_deref(),
            outcome: Outcome::of(record),
            answer: record.answer.as_deref(),
            guess: record.guess,
            withheld: record.withheld.as_deref(),
            error: record.error.as_deref(),
            score: record.score,
            share: record
                .answers
                .first()
                .map(|chosen| chosen.votes as f64 / all.max(1) as f64),
            finish: &record.finish,
            answers: record.answers.iter().map(answer).collect(),
            ledger: &record.ledger,
            tree: search.has_tree,
            chosen: search.chosen,
            findings: findings(record, search),
        }
    }
}
