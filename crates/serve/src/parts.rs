//! The searches of a request: one for each problem, or for each answer where answers are independent.

use std::sync::Arc;

use beamgen::{ProblemResult, Request};

use crate::app::App;
use crate::ask::Ask;
use crate::refusal::Refusal;
use crate::search::Search;
use crate::seeds;

/// A search of a request, and the answers that it gives.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Part {
    pub problem: usize,
    pub seed: u64,
    /// The index of its first answer among all of the request.
    pub first: usize,
    /// The number of its answers.
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

/// Queues all searches of a request, or none.
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

/// Ends searches whose results are of no use, because another one failed.
pub(crate) fn withdraw(searches: impl IntoIterator<Item = (Part, Search)>) {
    for (_, search) in searches {
        search.withdraw();
    }
}

/// A finished search.
pub(crate) struct Done {
    pub part: Part,
    pub result: ProblemResult,
    /// The seconds from the request to the result.
    pub seconds: f64,
}

/// Waits for the results of all searches, or returns the first fault.
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
