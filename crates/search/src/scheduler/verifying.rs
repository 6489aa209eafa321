//! Outcomes: complete chains go to the verifier, and whoever needs their outcomes waits for them.
//!
//! A result waits when its problem's search is done. In a search that uses outcomes, and for a
//! strategy that asks for them, each chain waits as soon as it is complete.

use std::collections::BTreeMap;
use std::iter;

use super::active::{ActiveProblem, Stage};
use super::live::Look;
use super::scoring::next_batch;
use super::{Context, Scheduler};
use crate::event::ChainEvent;
use crate::outcome::{Outcome, OutcomeKind};
use crate::result::ProblemResult;
use crate::scorer::BatchId;
use crate::tree::{ChainTree, Node, NodeId, State};
use crate::verifier::WholeChain;

/// The most results that wait for outcomes. With more of them the run waits for the verifier, so
/// that their trees do not fill the memory.
const MOST_WAITING: usize = 256;

/// The batches that the verifier has not answered yet.
pub(super) type Waiting = BTreeMap<BatchId, Waits>;

pub(super) enum Waits {
    /// A result, with the indices of the chains that are judged.
    Result(Box<ProblemResult>, Vec<usize>),
    /// Chains of a problem in flight.
    Ends {
        index: usize,
        /// Identifies the start of the problem. After a restart the outcomes are ignored.
        epoch: u64,
        ends: Vec<NodeId>,
    },
}

fn whole_chain<'a>(tree: &'a ChainTree, end: NodeId, answer: Option<&'a str>) -> WholeChain<'a> {
    let steps = tree.steps(end).map(Node::spoken);
    WholeChain {
        steps: steps.collect(),
        answer,
    }
}

impl Scheduler<'_, '_> {
    /// Hands a result over: at once, or when the verifier of its problem has judged all complete
    /// chains.
    pub(super) fn verify(&mut self, mut result: ProblemResult) {
        let Some(verifier) = self.cx.models.verifier.as_deref_mut() else {
            return self.hand_over(result);
        };
        let Some(name) = verifier.name_for(&result.problem) else {
            return self.hand_over(result);
        };
        result.verifier = Some(name.to_owned());
        let is_due = |&i: &usize| {
            let chain = &result.finished[i];
            chain.finish.is_complete() && chain.outcome.is_none()
        };
        let judged: Vec<usize> = (0..result.finished.len()).filter(is_due).collect();
        if judged.is_empty() {
            return self.hand_over(result);
        }
        let chains: Vec<WholeChain<'_>> = judged
            .iter()
            .map(|&i| {
                let chain = &result.finished[i];
                whole_chain(&result.tree, chain.node, chain.answer.as_deref())
            })
            .collect();
        let batch = next_batch();
        verifier.submit(batch, &result.problem, &chains);
        let waits = Waits::Result(Box::new(result), judged);
        self.unverified.insert(batch, waits);
        let results = |waiting: &Waiting| {
            let all = waiting.values();
            all.filter(|waits| matches!(waits, Waits::Result(..)))
                .count()
        };
        while results(&self.unverified) > MOST_WAITING && !self.stopped {
            self.collect_outcomes(true);
        }
    }

    /// Asks for the outcomes of chains that have become complete. Returns whether there was one.
    pub(super) fn verify_ends(&mut self) -> bool {
        let mut any = false;
        for index in self.live.changed(Look::Verify) {
            let Some(live) = self.live.get_mut_quietly(index) else {
                continue;
            };
            let ends = std::mem::take(&mut live.steps.unverified);
            let verifier = self.cx.models.verifier.as_deref_mut();
            let Some(verifier) = verifier.filter(|_| !ends.is_empty()) else {
                continue;
            };
            let finder = super::problem_result::Finder {
                answers: self.cx.models.answers,
                is_verified: true,
            };
            let found = ends.iter().map(|&end| finder.find(&live.tree, end));
            let answers: Vec<Option<String>> = found.map(|a| a.map(|a| a.text)).collect();
            let chains = ends.iter().zip(&answers);
            let chains: Vec<WholeChain<'_>> = chains
                .map(|(&end, answer)| whole_chain(&live.tree, end, answer.as_deref()))
                .collect();
            let batch = next_batch();
            verifier.submit(batch, &live.request.problem, &chains);
            live.steps.verifying += 1;
            let epoch = live.epoch;
            self.unverified
                .insert(batch, Waits::Ends { index, epoch, ends });
            any = true;
        }
        any
    }

    /// Takes the outcomes that have arrived: results are handed over, and chains of problems in
    /// flight continue on their way to the strategy. Returns whether there was one.
    pub(super) fn collect_outcomes(&mut self, wait: bool) -> bool {
        if self.unverified.is_empty() {
            return false;
        }
        let Some(verifier) = self.cx.models.verifier.as_deref_mut() else {
            return false;
        };
        let mut any = false;
        for (batch, outcomes) in verifier.collect(wait) {
            // A verifier that returns fewer outcomes than it was asked for must not stall a search.
            let missing = || {
                Outcome::new(
                    OutcomeKind::Lost,
                    "the verifier gave no outcome for this chain",
                )
            };
            let outcomes = outcomes.into_iter().chain(iter::repeat_with(missing));
            // Batches of an earlier run, which ended without them, are ignored.
            match self.unverified.remove(&batch) {
                None => continue,
                Some(Waits::Result(mut result, judged)) => {
                    take_outcomes(&mut result, judged, outcomes);
                    if !self.stopped {
                        self.hand_over(*result);
                    }
                }
                Some(Waits::Ends { index, epoch, ends }) => {
                    let live = self.live.get_mut(index);
                    if let Some(live) = live.filter(|live| live.epoch == epoch) {
                        live.steps.verifying -= 1;
                        for (end, outcome) in ends.into_iter().zip(outcomes) {
                            live.take_outcome(end, outcome, &mut self.cx);
                        }
                    }
                }
            }
            any = true;
        }
        any
    }
}

fn take_outcomes(
    result: &mut ProblemResult,
    judged: Vec<usize>,
    outcomes: impl Iterator<Item = Outcome>,
) {
    for (i, outcome) in judged.into_iter().zip(outcomes) {
        result.lost_verdicts += usize::from(outcome.kind == OutcomeKind::Lost);
        let chain = &mut result.finished[i];
        let mut votes = result.answers.iter_mut();
        if let Some(votes) = votes.find(|votes| votes.node == chain.node) {
            votes.outcome = Some(outcome.kind);
        }
        chain.outcome = Some(outcome);
    }
}

impl ActiveProblem {
    /// Takes the outcome of a complete chain, which then continues on its way to the strategy.
    fn take_outcome(&mut self, end: NodeId, outcome: Outcome, cx: &mut Context<'_, '_>) {
        if self.stage != Stage::Searching {
            // The result asks again for chains without an outcome.
            return;
        }
        self.outcome.lost_verdicts += usize::from(outcome.kind == OutcomeKind::Lost);
        self.policy.is_verified |= outcome.is_right();
        self.tree.node_mut(end).outcome = Some(outcome);
        let score = self.outcome_score(end);
        self.tree.node_mut(end).rating = score;
        if let Some(score) = score {
            self.notify(end, ChainEvent::Scored(score), cx);
        }
        self.advance_verified(end, cx);
    }

    /// Returns the score of a chain by its outcome; `None` if outcomes give no scores, or the
    /// verifier could not tell.
    pub(super) fn outcome_score(&self, end: NodeId) -> Option<f32> {
        let outcome = self.tree.node(end).outcome.as_ref();
        match outcome.filter(|_| self.config().scores_outcomes())?.kind {
            OutcomeKind::Right => Some(1.0),
            OutcomeKind::Wrong => Some(0.0),
            OutcomeKind::Unknown | OutcomeKind::Lost => None,
        }
    }

    /// Ends the search at a chain that the verifier called right.
    pub(super) fn stop_verified(&mut self, cx: &mut Context<'_, '_>) {
        let growing = |state| matches!(state, State::Open | State::Paused | State::Growing);
        let nodes = self.tree.nodes().filter(|(_, node)| growing(node.state));
        let growing: usize = nodes.map(|(_, node)| node.copies).sum();
        // A tree search keeps more open ends than it would continue.
        self.outcome.spared_chains = Some(growing.min(self.config().chains()));
        self.conclude(cx);
    }
}
