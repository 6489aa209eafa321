//! Scores of given chains by rollouts: each beginning of a chain is completed several times.

use std::ops::ControlFlow;

use beamgen_search::{
    Choose, ConfigError, FinishedChain, Outcome, Poll, Problem, ProblemResult, RolloutValue,
    RolloutsConfig, StrategyKind, Verifier, score_chains,
};

use crate::request::Request;
use crate::{Error, Solver};

/// The number of chains whose beginnings are completed together: enough to fill forward passes, few
/// enough that the first scores come while later chains are still being completed.
const AT_ONCE: usize = 64;

/// The scores of a chain, or the reason why it has none.
type Scores = Result<Vec<f32>, Error>;

impl Solver {
    /// Scores the steps of given chains as a search with `search.rollouts` scores its own: the value
    /// V of a step is the mean worth of K completions of the chain up to that step. With a weight W
    /// below 1 the score is W times V plus 1 - W times the chain score of the reward model.
    ///
    /// Each chain is a problem with the steps to score as its [`steps`](Problem::steps). Where a
    /// completion is worth its agreement with a vote, K chains from the bare problem vote: the
    /// completions of a wrong step would vote for its consequences. Chains that begin alike have the
    /// same completions. A chain that states its answer is its own completion.
    ///
    /// `each` gets the chains in order: the position, and a score from 0 to 1 for each step.
    ///
    /// # Errors
    /// `search.rollouts.count` is 0, the worth needs a reward model that is not loaded, or a model
    /// was lost. A chain that is refused has an error of its own, and the others continue.
    pub fn score_by_rollouts(
        &mut self,
        chains: &[Problem],
        mut each: impl FnMut(usize, Result<Vec<f32>, Error>) -> ControlFlow<()>,
    ) -> Result<(), Error> {
        let mut settings = self.settings();
        let search = &mut settings.search;
        let rollouts = search.rollouts.take().filter(|of| of.count > 0);
        let rollouts = rollouts.ok_or_else(|| {
            Error::Refused("search.rollouts.count is 0: set the completions of each step".into())
        })?;
        if rollouts.uses_scores() && self.scorer.is_none() {
            let what = "a value of rollouts by the reward model";
            return Err(ConfigError::NeedsScorer { what }.into());
        }
        search.strategy = StrategyKind::BEST_OF_N;
        search.n = rollouts.count;
        search.choose = Some(match rollouts.value {
            RolloutValue::Prm => Choose::Best,
            RolloutValue::Vote | RolloutValue::Verifier => Choose::Majority,
        });
        // Every completion counts, so nothing may end the sampling early.
        (search.threshold, search.confidence) = (0.0, 0.0);
        (search.consensus, search.budget_tokens) = (false, 0);
        (search.outcome_scores, search.stop_when_verified) = (false, false);
        for (number, some) in chains.chunks(AT_ONCE).enumerate() {
            let models = self.model_scores(some, &rollouts)?;
            // A chain has a beginning for each step, and for a vote one without steps before them.
            let vote = usize::from(rollouts.value == RolloutValue::Vote);
            let beginnings = some.iter().zip(&models).flat_map(|(chain, model)| {
                let lengths = (1 - vote)..chain.steps.len() + 1;
                lengths.filter(|_| model.is_ok()).map(|steps| {
                    let mut beginning = chain.clone();
                    beginning.steps.truncate(steps);
                    // Chains that begin alike get the same completions.
                    beginning.id.clear();
                    Request::new(beginning, settings.clone())
                })
            });
            let requests: Vec<Request> = beginnings.collect();
            let mut results: Vec<Option<ProblemResult>> = requests.iter().map(|_| None).collect();
            self.run_requests(requests, &mut |_| {}, &mut |result| {
                let index = result.index;
                results[index] = Some(result);
                ControlFlow::Continue(())
            })?;
            let mut results = results.into_iter().flatten();
            for (at, (chain, model)) in some.iter().zip(models).enumerate() {
                let scores = model.and_then(|model| {
                    let count = chain.steps.len() + vote;
                    let results: Vec<_> = results.by_ref().take(count).collect();
                    mixed(&results, vote, &model, &rollouts)
                });
                if each(number * AT_ONCE + at, scores).is_break() {
                    return Ok(());
                }
            }
        }
        Ok(())
    }

    /// Returns the chain scores of the reward model after each step, if they are mixed with the
    /// values; else no scores. A chain that the model or the verifier refuses has an error.
    fn model_scores(
        &mut self,
        chains: &[Problem],
        rollouts: &RolloutsConfig,
    ) -> Result<Vec<Scores>, Error> {
        let refusal = |chain: &Problem| {
            let is_open = self.verifiers.is_open(chain);
            let name = self.verifiers.name_for(chain).unwrap_or("math").to_owned();
            let refused = rollouts.value == RolloutValue::Verifier && !is_open;
            refused.then_some(ConfigError::NeedsOpenVerifier { name })
        };
        let refusals: Vec<Option<ConfigError>> = chains.iter().map(refusal).collect();
        let rule = self.config.search.aggregation;
        let mut scores: Vec<Scores> = chains.iter().map(|_| Ok(Vec::new())).collect();
        if let Some(scorer) = self.scorer.as_deref_mut().filter(|_| rollouts.weight < 1.0) {
            let texts: Vec<_> = chains.iter().map(Problem::with_context).collect();
            let steps = chains.iter().map(|chain| chain.steps.iter());
            let steps: Vec<Vec<&str>> = steps.map(|s| s.map(String::as_str).collect()).collect();
            let items: Vec<(&str, &[&str])> = texts
                .iter()
                .zip(&steps)
                .map(|(text, steps)| (&**text, steps.as_slice()))
                .collect();
            let scored = score_chains(scorer, &items).map_err(beamgen_search::SearchError::from)?;
            for (mixed, scored) in scores.iter_mut().zip(scored) {
                let refused = |error: beamgen_search::ScoreError| Error::Refused(error.into());
                *mixed = scored.map_err(refused).map(|scores| {
                    let ends = 1..=scores.len();
                    ends.filter_map(|end| rule.fold(scores[..end].iter().copied()))
                        .collect()
                });
            }
        }
        for (scores, refusal) in scores.iter_mut().zip(refusals) {
            if let Some(refusal) = refusal {
                *scores = Err(refusal.into());
            }
        }
        Ok(scores)
    }
}

/// Returns the score of each step of a chain from the completions of its beginnings. The first
/// `voters` results are votes. `model` has the chain scores of the reward model, or nothing.
fn mixed(
    results: &[ProblemResult],
    voters: usize,
    model: &[f32],
    rollouts: &RolloutsConfig,
) -> Scores {
    if let Some(reason) = results.iter().find_map(|result| result.error.clone()) {
        return Err(Error::Refused(reason.into()));
    }
    let mut poll = Poll::default();
    let (votes, results) = results.split_at(voters);
    for chain in votes.iter().flat_map(|result| &result.finished) {
        if let Some(class) = &chain.class {
            poll.add(class, chain.copies);
        }
    }
    let worth = |chain: &FinishedChain| {
        if !chain.finish.is_complete() {
            return 0.0;
        }
        match rollouts.value {
            RolloutValue::Vote => poll.worth(chain.class.as_deref()),
            RolloutValue::Prm => f64::from(chain.score.unwrap_or(0.0)),
            RolloutValue::Verifier => {
                let is_right = chain.outcome.as_ref().is_some_and(Outcome::is_right);
                f64::from(u8::from(is_right))
            }
        }
    };
    let mut scores = Vec::with_capacity(results.len());
    for (at, result) in results.iter().enumerate() {
        let ends = result.finished.iter();
        let (sum, count) = ends.fold((0.0, 0), |(sum, count), end| {
            (sum + end.copies as f64 * worth(end), count + end.copies)
        });
        let value = (sum / count.max(1) as f64) as f32;
        let weight = rollouts.weight;
        scores.push(match model.get(at) {
            Some(model) => weight * value + (1.0 - weight) * model,
            None => value,
        });
    }
    Ok(scores)
}
