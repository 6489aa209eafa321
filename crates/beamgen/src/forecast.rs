//! The cost of a run over many problems, estimated from a short measured pass.

use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;
use std::ops::ControlFlow;
use std::time::{Duration, Instant};

use beamgen_search::{CancelToken, Event, Most, ProblemResult, Settings};
use serde::Serialize;

use crate::error::Error;
use crate::request::Request;
use crate::solver::Solver;

/// The time after which the measured pass is cut off.
const PASS: Duration = Duration::from_secs(10);
/// The number of problems that are solved to their end if the pass was cut off.
const WHOLE: usize = 5;

/// The estimated cost of a run, made by [`Solver::forecast`].
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Forecast {
    /// The number of problems of the run.
    pub problems: usize,
    /// The bounds of all searches together.
    pub most: Most,
    /// The expected number of sampled tokens of the run.
    pub sampled: f64,
    /// The expected number of tokens that the scorer reads in the run.
    pub scored: f64,
    /// The expected seconds of the run, without those to load the models.
    pub seconds: f64,
    /// The number of problems that were solved to their end to estimate these.
    pub measured: usize,
}

impl Forecast {
    /// Returns the cost of this run done `seeds` times, with different seeds.
    #[must_use]
    pub fn times(self, seeds: u64) -> Self {
        let times = seeds as f64;
        Self {
            most: self.most.times(seeds),
            sampled: self.sampled * times,
            scored: self.scored * times,
            seconds: self.seconds * times,
            ..self
        }
    }
}

/// The pace of a run: the tokens per second, and the mean cost of the problems that began first.
///
/// The first problems to end are the short ones, so the mean waits for all of those that began
/// first.
#[derive(Debug, Clone)]
pub struct Pace {
    started: Instant,
    /// The number of problems whose mean is taken.
    wanted: usize,
    ended: usize,
    /// The sampled and the scored tokens of those problems.
    spent: [u64; 2],
    /// The sampled tokens of all problems, unfinished ones included, and the time at which they
    /// were counted.
    tokens: u64,
    at: Duration,
}

impl Pace {
    /// Starts to measure a run of `count` problems, of which `in_flight` are solved at the same
    /// time.
    #[must_use]
    pub fn start(count: usize, in_flight: usize) -> Self {
        Self {
            started: Instant::now(),
            wanted: count.min((2 * in_flight).clamp(8, 32)),
            ended: 0,
            spent: [0; 2],
            tokens: 0,
            at: Duration::ZERO,
        }
    }

    /// Takes the tokens of a pass.
    pub fn observe(&mut self, event: &Event<'_>) {
        if let Event::Pass { ledger, .. } = event {
            (self.tokens, self.at) = (ledger.generated_tokens, self.started.elapsed());
        }
    }

    /// Takes a result of the run.
    pub fn done(&mut self, result: &ProblemResult) {
        if result.index < self.wanted && result.stopped.is_none() {
            self.ended += 1;
            let ledger = &result.ledger;
            self.spent[0] += ledger.generated_tokens;
            self.spent[1] += ledger.scored_tokens;
        }
    }

    /// Whether all problems of the mean have ended.
    #[must_use]
    pub fn is_settled(&self) -> bool {
        self.ended == self.wanted
    }

    /// Estimates the cost of a run of `problems`, by the mean cost that `whole` measured.
    fn forecast(&self, problems: usize, most: Most, whole: &Self) -> Forecast {
        let [sampled, scored] = whole
            .spent
            .map(|spent| spent as f64 * problems as f64 / whole.ended.max(1) as f64);
        let seconds = if self.tokens == 0 {
            0.0
        } else {
            sampled * self.at.as_secs_f64() / self.tokens as f64
        };
        Forecast {
            problems,
            most,
            sampled,
            scored,
            seconds,
            measured: whole.ended,
        }
    }

    /// Returns the estimated cost of a run of `problems` once the pace
    /// [is settled](Self::is_settled); `None` before.
    #[must_use]
    pub fn settled(&self, problems: usize, most: Most) -> Option<Forecast> {
        self.is_settled()
            .then(|| self.forecast(problems, most, self))
    }
}

impl Solver {
    /// Returns the bounds of a search with these settings.
    #[must_use]
    pub fn most(&self, settings: Settings) -> Most {
        let settings = self.settings_in_effect(settings);
        Most::of(&settings.search, &settings.generator)
    }

    /// Estimates the cost of a run of `count` problems, from problems spread over all of them.
    /// `request` makes the request of a problem by its index. `most` is the bound of one search.
    ///
    /// As many problems as in the run are in flight. After ten seconds the pass ends; then five of
    /// the problems are solved to their end, however long that takes. `cancel` ends both.
    ///
    /// # Errors
    /// Returns an error if a model fails.
    pub fn forecast(
        &mut self,
        count: usize,
        most: Most,
        request: &mut dyn FnMut(usize) -> Request,
        cancel: &CancelToken,
    ) -> Result<Forecast, Error> {
        let order = spread(count);
        let in_flight = self.config().search.in_flight;
        let pace = Pace::start(count, in_flight);
        let pace = self.pass(pace, &order, Some(PASS), request, cancel)?;
        let most = most.times(count as u64);
        if pace.is_settled() {
            return Ok(pace.forecast(count, most, &pace));
        }
        let order = &order[..WHOLE.min(count)];
        let whole = Pace::start(order.len(), in_flight);
        let whole = self.pass(whole, order, None, request, cancel)?;
        Ok(pace.forecast(count, most, &whole))
    }

    /// Solves problems in this order until the pace is settled or the time is over.
    fn pass(
        &mut self,
        pace: Pace,
        order: &[usize],
        limit: Option<Duration>,
        request: &mut dyn FnMut(usize) -> Request,
        cancel: &CancelToken,
    ) -> Result<Pace, Error> {
        let (over, is_over) = (CancelToken::new(), Cell::new(false));
        let pace = RefCell::new(pace);
        let requests = order
            .iter()
            // Problems beyond those of the mean keep the passes full until it is known.
            .take_while(|_| !is_over.get())
            .map(|&at| request(at).cancel(over.clone()));
        self.run_requests(
            requests,
            &mut |event| {
                let mut pace = pace.borrow_mut();
                if !is_over.get() {
                    pace.observe(&event);
                }
                let is_late = limit.is_some_and(|limit| pace.started.elapsed() > limit);
                if is_late || pace.is_settled() || cancel.is_cancelled() {
                    is_over.set(true);
                    over.cancel();
                }
            },
            &mut |result| {
                pace.borrow_mut().done(&result);
                ControlFlow::Continue(())
            },
        )?;
        Ok(pace.into_inner())
    }
}

/// Returns all indices below `count` in an order whose beginnings are spread evenly: multiples of
/// the golden ratio, modulo 1 (Weyl's sequence).
fn spread(count: usize) -> Vec<usize> {
    let golden = (5.0_f64.sqrt() - 1.0) / 2.0;
    let mut left: BTreeSet<usize> = (0..count).collect();
    let mut order = Vec::with_capacity(count);
    for i in 0..count {
        let at = ((i as f64 + 0.5) * golden).fract() * count as f64;
        let at = at as usize;
        // An index that is taken is replaced by the next one that is free.
        let next = left.range(at..).next().or(left.first()).copied();
        order.extend(next.and_then(|next| left.take(&next)));
    }
    order
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_order_has_each_index_once_and_begins_spread() {
        for count in [0, 1, 2, 3, 7, 100, 1319] {
            let order = spread(count);
            assert_eq!(order.iter().copied().collect::<BTreeSet<_>>().len(), count);
            assert_eq!(order.len(), count);
        }
        let order = spread(1000);
        for first in [4, 8, 16, 32] {
            let mut begun = order[..first].to_vec();
            begun.sort_unstable();
            let widest = begun.windows(2).map(|pair| pair[1] - pair[0]).max();
            assert!(widest < Some(3 * 1000 / first), "{begun:?}");
        }
    }

    /// 40 bundled problems: the estimate is made of problems that were solved.
    #[test]
    fn a_forecast_is_near_the_run() {
        let problems = crate::bundled::sample().unwrap().problems;
        let mut solver = Solver::builder().build().unwrap();
        let most = solver.most(solver.settings());
        let settings = solver.settings();
        let mut make = |at: usize| Request::new(problems[at].clone(), settings.clone());
        let never = CancelToken::new();
        let forecast = solver
            .forecast(problems.len(), most, &mut make, &never)
            .unwrap();
        let run = solver.solve_all(problems.clone(), |_| {}).unwrap();
        let sampled = run.ledger.generated_tokens as f64;
        assert!(forecast.measured <= problems.len() && forecast.measured > 0);
        assert!(
            (0.8..1.25).contains(&(forecast.sampled / sampled)),
            "{forecast:?} {sampled}"
        );
        let scored = run.ledger.scored_tokens as f64;
        assert!(
            (0.8..1.25).contains(&(forecast.scored / scored)),
            "{forecast:?} {scored}"
        );
        assert!(run.ledger.generated_tokens <= forecast.most.tokens);
        assert!(forecast.seconds > 0.0);
    }
}
