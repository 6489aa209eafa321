//! Splits a request into searches: one for each problem if a single search gives all answers to a
//! problem, or else one for each answer.

use std::sync::Arc;

use beamgen::{ProblemResult, Request};

use crate::app::App;
use crate::ask::Ask;
use crate::refusal::Refusal;
use crate::search::Search;
use crate::seeds;

/// One search of a request, and the range of answers that it gives.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Part {
    pub problem: usize,
    pub seed: u64,
    /// The index of the search's first answer among all answers of the request.
    pub first: usize,
    /// The number of answers that the search gives.
    pub choices: usize,
}

impl Ask {
    /// Returns the searches of the request, in the order of their answers.
    fn parts(&self) -> Vec<Part> {
        let (searches, choices) = if self.is_search() {
            (1, self.n)
        } else {
            (self.n, 1)
        };
        let seeds = self.seeds.iter().enumerate();
        let parts = seeds.flat_map(|(problem, &seed)| {
            (0..searches).map(move |i| Part {
                problem,
                seed: seeds::of_choice(seed, i),
                first: problem * self.n + i,
                choices,
            })
        });
        parts.collect()
    }
}

/// Queues all searches of a request. If the queue refuses one, the others are withdrawn.
pub(crate) async fn begin(app: &Arc<App>, ask: &Ask) -> Result<Vec<(Part, Search)>, Refusal> {
    let mut begun = Vec::new();
    for part in ask.parts() {
        let mut settings = ask.settings.clone();
        settings.generator.seed = part.seed;
        let events = if ask.events { app.limits.events } else { 0 };
        let request = Request::new(&ask.problems[part.problem], settings).keep_events(events);
        match Search::of(app, request, ask, part.problem).await {
            Ok(search) => begun.push((part, search)),
            Err(refusal) => {
                withdraw(begun);
                return Err(refusal);
            }
        }
    }
    Ok(begun)
}

/// Cancels searches whose results nobody needs, because another search of their request failed.
pub(crate) fn withdraw(searches: impl IntoIterator<Item = (Part, Search)>) {
    for (_, search) in searches {
        search.withdraw();
    }
}

pub(crate) struct Done {
    pub part: Part,
    pub result: ProblemResult,
    /// The time from the start of the request to the result, in seconds.
    pub seconds: f64,
}

/// Waits for the results of all searches. If one fails, cancels the others and returns its refusal.
pub(crate) async fn results(searches: Vec<(Part, Search)>) -> Result<Vec<Done>, Refusal> {
    let (mut searches, mut done) = (searches.into_iter(), Vec::new());
    while let Some((part, mut search)) = searches.next() {
        match search.result().await {
            Ok(result) => done.push(Done {
                part,
                result,
                seconds: search.seconds(),
            }),
            Err(refusal) => {
                withdraw(searches);
                return Err(refusal);
            }
        }
    }
    Ok(done)
}
