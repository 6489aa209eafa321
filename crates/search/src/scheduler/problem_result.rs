//! Makes the result of a problem from its searched tree.

use super::Context;
use super::active::ActiveProblem;
use crate::choose::{Answer, Answers, FinishedChain};
use crate::config::SearchConfig;
use crate::outcome::Outcome;
use crate::result::{ProblemResult, answer_votes, choose_capped};
use crate::strategy::Strategy;
use crate::tree::{ChainTree, NodeId};
use crate::width::Width;

pub(super) fn result(mut problem: ActiveProblem, cx: &Context<'_, '_>) -> ProblemResult {
    // Independent chains have numbers in the order in which their steps close. That order depends
    // on the other problems in flight; a result must not, so the nodes are numbered again.
    let given = problem.tree.node(problem.policy.start.node).depth;
    let tree = std::mem::take(&mut problem.tree).renumbered();
    problem.bill.ledger.width = Width::of(&tree, given);
    let config = problem.config();
    let verifier = cx.models.verifier.as_deref();
    let is_verified = verifier.is_some_and(|v| v.name_for(&problem.request.problem).is_some());
    let finder = Finder {
        answers: cx.models.answers,
        is_verified,
    };
    let finished = finished_chains(&tree, &*problem.policy.strategy, config, &finder);
    let answering = chosen(&finished, config);
    let shown = answering.or_else(|| best_without_answer(&finished));
    let chain = shown.map(|i| &finished[i]);
    let score = chain.and_then(|chain| chain.score);
    let votes = answer_votes(&finished, answering, config.votes());
    let answering = answering.filter(|_| problem.outcome.error.is_none());
    let is_guess = answering.is_some_and(|i| finished[i].is_guess);
    let mut answer = answering.and_then(|i| finished[i].answer.clone());
    let is_sure = config.threshold <= 0.0 || score.is_some_and(|score| score >= config.threshold);
    // An answer below the threshold moves to `withheld`: the caller can still see and count it.
    let withheld = answer.take_if(|_| !is_sure);
    ProblemResult {
        index: problem.index,
        chosen: chain.map(|chain| chain.node),
        answer,
        is_guess,
        withheld,
        unsound: None,
        verifier: None,
        answers: votes,
        score,
        error: problem.outcome.error,
        too_long: false,
        stopped: problem.outcome.stopped,
        lost_to_memory: problem.outcome.lost_to_memory,
        lost_verdicts: problem.outcome.lost_verdicts,
        spared_chains: problem.outcome.spared_chains,
        ledger: problem.bill.ledger,
        elapsed: cx.seconds_since(problem.bill.started),
        problem: problem.request.problem,
        tree,
        finished,
    }
}

/// Returns the chain whose answer is chosen. Where outcomes score chains, right ones are preferred,
/// whatever the votes.
fn chosen(finished: &[FinishedChain], config: &SearchConfig) -> Option<usize> {
    let choose =
        |chains: &[FinishedChain]| choose_capped(chains, config.choosing(), config.votes());
    if config.scores_outcomes() {
        let is_right = |&at: &usize| finished[at].outcome.as_ref().is_some_and(Outcome::is_right);
        let right: Vec<usize> = (0..finished.len()).filter(is_right).collect();
        let chains: Vec<FinishedChain> = right.iter().map(|&at| finished[at].clone()).collect();
        if let Some(at) = choose(&chains) {
            return Some(right[at]);
        }
    }
    choose(finished)
}

/// Finds the answer of a complete chain.
pub(super) struct Finder<'a> {
    pub answers: &'a dyn Answers,
    /// Whether a verifier judges the chains.
    pub is_verified: bool,
}

impl Finder<'_> {
    pub(super) fn find(&self, tree: &ChainTree, node: NodeId) -> Option<Answer> {
        let found = self.answers.extract(&tree.solution(node));
        if !self.is_verified {
            return found;
        }
        // A program, a proof or a puzzle need not end in a number. Without a stated answer the last
        // step stands for it.
        let last = || tree.steps(node).last().map(|step| step.spoken().trim());
        let stated = found.filter(|answer| !answer.is_guess);
        stated.or_else(|| last().map(Answer::stated))
    }
}

fn finished_chains(
    tree: &ChainTree,
    strategy: &dyn Strategy,
    config: &SearchConfig,
    finder: &Finder<'_>,
) -> Vec<FinishedChain> {
    tree.nodes()
        .filter_map(|(node, content)| {
            let finish = content.finish()?;
            // A chain that was cut off may end inside its answer, so its text is not searched for
            // an answer.
            let is_complete = finish.is_complete();
            let answer = is_complete.then(|| finder.find(tree, node)).flatten();
            Some(FinishedChain {
                node,
                finish,
                score: content
                    .rating
                    .filter(|_| config.scores_outcomes() && content.outcome.is_some())
                    .or_else(|| strategy.chain_score(tree, node))
                    .or_else(|| tree.chain_score(node, config.aggregation)),
                logprob: tree.logprob(node),
                copies: content.copies,
                class: answer
                    .as_ref()
                    .map(|answer| finder.answers.class(&answer.text)),
                is_guess: answer.as_ref().is_some_and(|answer| answer.is_guess),
                answer: answer.map(|answer| answer.text),
                outcome: content.outcome.clone(),
            })
        })
        .collect()
}

/// Returns the chain to show if none has an answer: complete chains first, then by score, then the
/// earliest.
fn best_without_answer(chains: &[FinishedChain]) -> Option<usize> {
    fn key(chain: &FinishedChain) -> (bool, f32) {
        let score = chain.score.unwrap_or(f32::NEG_INFINITY);
        (chain.finish.is_complete(), score)
    }
    // `max_by` returns the last of equal chains, hence the reversed order.
    (0..chains.len()).rev().max_by(|&a, &b| {
        let (a, b) = (key(&chains[a]), key(&chains[b]));
        a.0.cmp(&b.0).then(a.1.total_cmp(&b.1))
    })
}
