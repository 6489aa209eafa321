//! Tasks about given answers: splitting, scoring, and then [refining](Refining) or
//! [guarding](Guarding).
//!
//! A [`Task`] is a sequence of searches, each of which depends on the result of the previous one.
//! Searches of different tasks share batches, which does not change their results.

use std::ops::ControlFlow;

use beamgen_eval::answer;
use beamgen_generator::Cuts;
use beamgen_search::{
    Action, Aggregation, ChainTree, GeneratorConfig, NodeId, Problem, ProblemResult, Scoring,
    Settings, Start, Strategy,
};
use serde::Serialize;

use crate::service::ServiceError;
use crate::{Error, Request, Service, Solver};

mod guard;
mod refine;

pub use guard::{Cause, Found, Guard, Guarded, Guarding, Verdict};
pub use refine::{Refine, Refined, Refining, Round};

/// A sequence of searches, each of which depends on the results of the earlier ones.
pub trait Task {
    /// Returns the next search; `None` if the task is finished.
    fn next(&mut self) -> Option<Request>;

    /// Takes the result of the search that [`next`](Self::next) returned last.
    fn take(&mut self, result: ProblemResult);
}

/// Runs tasks until all are finished. In each round, the next searches of all tasks run together.
///
/// # Errors
/// Returns an error if a model was lost.
pub fn run(solver: &mut Solver, tasks: &mut [impl Task]) -> Result<(), Error> {
    loop {
        let (mut asking, mut requests) = (Vec::new(), Vec::new());
        for (at, task) in tasks.iter_mut().enumerate() {
            if let Some(request) = task.next() {
                asking.push(at);
                requests.push(request);
            }
        }
        if requests.is_empty() {
            return Ok(());
        }
        solver.run_requests(requests, &mut |_| {}, &mut |result| {
            let at = asking[result.index];
            tasks[at].take(result);
            ControlFlow::Continue(())
        })?;
    }
}

/// Runs tasks as [`run`] does, on a service that may have other requests in flight.
///
/// # Errors
/// Returns an error if the queue is full, if the service has ended, or if a setting is invalid.
pub fn run_by(service: &Service, tasks: &mut [impl Task]) -> Result<(), ServiceError> {
    loop {
        let mut tickets = Vec::new();
        for (at, task) in tasks.iter_mut().enumerate() {
            if let Some(request) = task.next() {
                tickets.push((at, service.submit(request)?));
            }
        }
        if tickets.is_empty() {
            return Ok(());
        }
        // All requests are queued before the first wait, so that they share batches.
        for (at, ticket) in tickets {
            tasks[at].take(ticket.wait()?);
        }
    }
}

/// Splits an answer into steps by the boundaries and markers of `settings`, as a search would split
/// a chain with the same text.
pub fn steps_of(answer: &str, settings: &GeneratorConfig) -> Vec<String> {
    let steps = Cuts::of(settings).steps(answer);
    steps.iter().map(|step| step.trim().to_owned()).collect()
}

/// A chain with its scores.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Version {
    /// The steps, without their boundaries.
    pub steps: Vec<String>,
    /// The scores of the steps; `None` for a step on which the scorer abstained.
    pub scores: Vec<Option<f32>>,
    /// The aggregated score of all steps; `None` if no step has a score.
    pub score: Option<f32>,
    /// The answer, if the chain has one.
    pub answer: Option<String>,
    /// Whether the chain came to its own end and has an answer.
    pub finished: bool,
    /// Whether the answer equals the problem's reference answer; `None` without a reference.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub correct: Option<bool>,
}

impl Version {
    /// Returns the chain from the root of the tree to the node `end`.
    fn of(result: &ProblemResult, end: NodeId, aggregation: Aggregation) -> Self {
        let tree = &result.tree;
        let answer = answer::extract(&tree.solution(end)).map(|found| found.text);
        let steps = || tree.steps(end);
        let is_same = |reference: &String| {
            let compared = answer.as_ref().map(|own| answer::compare(own, reference));
            compared == Some(answer::Verdict::Same)
        };
        Self {
            steps: steps()
                .map(|node| node.spoken().trim().to_owned())
                .collect(),
            scores: steps().map(|node| node.score).collect(),
            score: tree.chain_score(end, aggregation),
            finished: tree.node(end).is_complete() && answer.is_some(),
            correct: result.problem.answer.as_ref().map(is_same),
            answer,
        }
    }

    /// Returns the index of the first step that scores below `bound`.
    fn first_below(&self, bound: f32) -> Option<usize> {
        let mut scores = self.scores.iter();
        scores.position(|score| score.is_some_and(|score| score < bound))
    }

    /// Returns the index of the step with the lowest score; of equal ones, the first. `None` if all
    /// scores are 1, since no step is weak then.
    fn weakest(&self) -> Option<usize> {
        let scored = self.scores.iter().enumerate();
        let scored = scored.filter_map(|(at, score)| Some((at, (*score)?)));
        let (at, score) = scored.min_by(|a, b| a.1.total_cmp(&b.1))?;
        (score < 1.0).then_some(at)
    }
}

/// The tokens of all searches of a task. The counts do not depend on the machine or on other tasks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Cost {
    /// Prompt tokens and tokens of given steps that the generator processed.
    pub prompt_tokens: u64,
    /// Sampled tokens, including those of pruned chains.
    pub generated_tokens: u64,
    /// Tokens that the scorer processed.
    pub scored_tokens: u64,
}

/// Compares two chains line by line: first their common steps, then the remaining steps of `before`
/// (marked `-`) and of `after` (marked `+`), each with its score.
fn difference(before: &Version, after: &Version) -> Vec<String> {
    let alike = before.steps.iter().zip(&after.steps);
    let common = alike.take_while(|(a, b)| a == b).count();
    let lines = |mark: &'static str, version: &Version, from: usize, to: usize| {
        let steps = version.steps[from..to]
            .iter()
            .zip(&version.scores[from..to]);
        let line = |(text, score): (&String, &Option<f32>)| match score {
            Some(score) => format!("{mark} {text}  [{score:.3}]"),
            None => format!("{mark} {text}"),
        };
        steps.map(line).collect::<Vec<String>>()
    };
    [
        lines(" ", after, 0, common),
        lines("-", before, common, before.steps.len()),
        lines("+", after, common, after.steps.len()),
    ]
    .concat()
}

/// The state that all kinds of tasks share: the answer, and the cost so far.
#[derive(Debug)]
struct Given {
    /// The problem; its given steps are all steps of the answer.
    problem: Problem,
    settings: Settings,
    /// The given answer with its scores; `None` until the first search has scored it.
    before: Option<Version>,
    cost: Cost,
    error: Option<String>,
}

impl Given {
    fn new(problem: Problem, settings: Settings) -> Self {
        let none = problem.steps.is_empty();
        Self {
            error: none.then(|| "the answer has no steps: give its text".to_owned()),
            problem,
            settings,
            before: None,
            cost: Cost::default(),
        }
    }

    /// Returns a search that scores the given answer and samples nothing.
    fn reading(&self) -> Request {
        Request::new(self.problem.clone(), self.settings.clone())
            .custom_strategy("given", |_| Ok(Box::new(Reading)))
    }

    /// Returns a search that keeps the first `kept` steps and samples the rest. The seed differs in
    /// each round.
    fn writing(&self, steps: &[String], kept: usize, round: usize) -> Request {
        let problem = Problem {
            steps: steps[..kept].to_vec(),
            ..self.problem.clone()
        };
        let mut settings = self.settings.clone();
        let seed = &mut settings.generator.seed;
        *seed = seed.wrapping_add(round as u64);
        Request::new(problem, settings)
    }

    /// Adds the costs of a result, and remembers its error. Returns the chosen chain, if there is
    /// one.
    fn take(&mut self, result: &ProblemResult) -> Option<Version> {
        let (cost, ledger) = (&mut self.cost, &result.ledger);
        cost.prompt_tokens += ledger.prompt_tokens;
        cost.generated_tokens += ledger.generated_tokens;
        cost.scored_tokens += ledger.scored_tokens;
        self.error.clone_from(&result.error);
        if result.stopped.is_some() {
            self.error = Some("the search was stopped early, by a deadline or a signal".to_owned());
        }
        let aggregation = self.settings.search.aggregation;
        if self.before.is_some() {
            return Some(Version::of(result, result.chosen?, aggregation));
        }
        if self.error.is_some() {
            return None;
        }
        // The ids of given steps count up from 1, since each node is the first child of the
        // previous one.
        let end = NodeId(self.problem.steps.len() as u32);
        let read = Version::of(result, end, aggregation);
        if read.score.is_none() {
            self.error = Some("no step of the answer has a score".to_owned());
            return None;
        }
        self.before = Some(read);
        None
    }
}

/// A strategy that scores the given steps, samples nothing, and ends.
#[derive(Debug)]
struct Reading;

impl Strategy for Reading {
    fn scoring(&self) -> Scoring {
        Scoring::OnDemand
    }

    fn begin(&mut self, start: Start) -> Vec<Action> {
        vec![Action::Score(start.node)]
    }

    fn on_steps(&mut self, _: &ChainTree, _: &[NodeId]) -> Vec<Action> {
        vec![Action::Done]
    }
}
