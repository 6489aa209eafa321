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
/// The number of problems that are then in flight, and solved to their end.
const WHOLE: usize = 5;
/// The time after which no further of them begins.
const BEGIN: Duration = Duration::from_secs(30);

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
    /// The most problems in flight.
    in_flight: usize,
    /// The sampled tokens of all problems, unfinished ones included. A token counts when its step
    /// has closed.
    tokens: u64,
    /// The time of each pass, with the rows of all passes so far: the sampled tokens, those of open
    /// steps included, without the first one of each step.
    passes: Vec<(u64, Duration)>,
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
            in_flight: 1,
            tokens: 0,
            passes: Vec::new(),
        }
    }

    /// Takes the tokens of a pass.
    pub fn observe(&mut self, event: &Event<'_>) {
        if let Event::Pass {
            rows,
            ledger,
            in_flight,
            ..
        } = event
        {
            self.tokens = ledger.generated_tokens;
            self.in_flight = self.in_flight.max(*in_flight);
            let before = self.passes.last().map_or(0, |last| last.0);
            self.passes
                .push((before + *rows as u64, self.started.elapsed()));
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

    /// Returns the seconds of a problem: those in which the run samples its tokens.
    fn seconds(&self) -> f64 {
        let at = self.passes.last().map_or(0.0, |last| last.1.as_secs_f64());
        let mean = self.spent[0] as f64 / self.ended.max(1) as f64;
        mean * at / self.tokens.max(1) as f64
    }

    /// Returns the time until a problem had this number of rows, on average.
    fn until(&self, rows: f64) -> Option<Duration> {
        let problems = self.in_flight as f64;
        let mut passes = self.passes.iter();
        let reached = passes.find(|(all, _)| *all as f64 >= rows * problems);
        reached.or(self.passes.last()).map(|(_, at)| *at)
    }

    /// Returns how many times as many problems this run advances in a second as `other`, which has
    /// another number of problems in flight. Both are compared from their start to the same number
    /// of rows of a problem, since early tokens cost less than late ones.
    fn faster_than(&self, other: &Self) -> f64 {
        let Some((rows, at)) = self.passes.last() else {
            return 1.0;
        };
        let own = self.in_flight as f64 / at.as_secs_f64();
        let until = other.until(*rows as f64 / self.in_flight as f64);
        until.map_or(1.0, |until| {
            own * until.as_secs_f64() / other.in_flight as f64
        })
    }

    /// Returns the cost of a run of `problems`, each with the mean cost here and these seconds.
    fn forecast(&self, problems: usize, most: Most, seconds: f64) -> Forecast {
        let times = problems as f64 / self.ended.max(1) as f64;
        let [sampled, scored] = self.spent.map(|spent| spent as f64 * times);
        Forecast {
            problems,
            most,
            sampled,
            scored,
            seconds: seconds * problems as f64,
            measured: self.ended,
        }
    }

    /// Returns the estimated cost of a run of `problems` once the pace
    /// [is settled](Self::is_settled); `None` before.
    #[must_use]
    pub fn settled(&self, problems: usize, most: Most) -> Option<Forecast> {
        self.is_settled()
            .then(|| self.forecast(problems, most, self.seconds()))
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
    /// As many problems as in the run are in flight. After ten seconds the pass ends. Then problems
    /// are solved to their end, five at a time; the last ones begin after half a minute. `cancel`
    /// ends both.
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
        let limit = [Duration::MAX, PASS];
        let pace = self.pass(pace, &order, limit, request, cancel)?;
        let most = most.times(count as u64);
        if pace.is_settled() {
            return Ok(pace.forecast(count, most, pace.seconds()));
        }
        let mut whole = Pace::start(count, WHOLE);
        // All that begin are to end.
        whole.wanted = usize::MAX;
        self.config.search.in_flight = WHOLE.min(in_flight);
        let whole = self.pass(whole, &order, [BEGIN, Duration::MAX], request, cancel);
        self.config.search.in_flight = in_flight;
        let whole = whole?;
        let seconds = whole.seconds() / pace.faster_than(&whole);
        Ok(whole.forecast(count, most, seconds))
    }

    /// Solves problems in this order until the pace is settled. No problem begins after the first
    /// limit, and all end at the second.
    fn pass(
        &mut self,
        pace: Pace,
        order: &[usize],
        [begin, end]: [Duration; 2],
        request: &mut dyn FnMut(usize) -> Request,
        cancel: &CancelToken,
    ) -> Result<Pace, Error> {
        let (over, is_over) = (CancelToken::new(), Cell::new(false));
        let (started, pace) = (pace.started, RefCell::new(pace));
        let requests = order
            .iter()
            // Problems beyond those of the mean keep the passes full until it is known.
            .take_while(|_| !is_over.get() && started.elapsed() < begin)
            .map(|&at| request(at).cancel(over.clone()));
        self.run_requests(
            requests,
            &mut |event| {
                let mut pace = pace.borrow_mut();
                if !is_over.get() {
                    pace.observe(&event);
                }
                if started.elapsed() > end || pace.is_settled() || cancel.is_cancelled() {
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
