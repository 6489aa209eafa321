//! Searches that an open verifier guides: scores by outcomes, values of completions, and stops at a
//! chain that is right.

use std::collections::BTreeSet;
use std::ops::ControlFlow;
use std::sync::{Arc, Mutex};

use beamgen_search::*;

use crate::every_strategy::configs;
use crate::scripted::*;

/// Judges a chain by its text, and answers only every third time that it is asked.
struct Rules {
    is_open: bool,
    pending: Vec<(BatchId, Vec<Outcome>)>,
    asked: usize,
}

impl Rules {
    fn new(is_open: bool) -> Self {
        Self {
            is_open,
            pending: Vec::new(),
            asked: 0,
        }
    }
}

fn outcome(text: &str) -> OutcomeKind {
    match text.bytes().map(usize::from).sum::<usize>() % 5 {
        0 => OutcomeKind::Right,
        1 => OutcomeKind::Unknown,
        2 => OutcomeKind::Lost,
        _ => OutcomeKind::Wrong,
    }
}

impl Verifier for Rules {
    fn name_for(&self, _: &Problem) -> Option<&str> {
        Some("rules")
    }

    fn is_open(&self, _: &Problem) -> bool {
        self.is_open
    }

    fn submit(&mut self, batch: BatchId, _: &Problem, chains: &[WholeChain<'_>]) {
        let outcomes = chains.iter().map(|chain| outcome(&chain.steps.concat()));
        let outcomes = outcomes.map(|kind| Outcome::new(kind, "")).collect();
        self.pending.push((batch, outcomes));
    }

    fn collect(&mut self, wait: bool) -> Vec<(BatchId, Vec<Outcome>)> {
        self.asked += 1;
        if wait || self.asked.is_multiple_of(3) {
            std::mem::take(&mut self.pending)
        } else {
            Vec::new()
        }
    }
}

fn text(tree: &ChainTree, node: NodeId) -> String {
    tree.steps(node).map(|step| step.text.as_str()).collect()
}

fn solved(config: &SearchConfig, rules: &mut Rules, has_scorer: bool) -> Vec<ProblemResult> {
    let mut scripts = Scripted::random();
    let mut models = scripts.models();
    models.verifier = Some(rules);
    if !has_scorer {
        models.scorer = None;
    }
    let mut results = Vec::new();
    run(models, config, problems(12), &mut |_| (), &mut |result| {
        results.push(result);
        ControlFlow::Continue(())
    })
    .unwrap();
    scripts.assert_empty();
    results.sort_by_key(|result| result.index);
    results
}

/// Asserts that results do not depend on the other problems in flight, and thus on the moment at which
/// an outcome arrives.
fn assert_same_alone(config: &SearchConfig, results: &[ProblemResult]) {
    let alone = SearchConfig {
        in_flight: 1,
        ..config.clone()
    };
    let again = solved(&alone, &mut Rules::new(true), true);
    for (one, other) in results.iter().zip(&again) {
        assert_eq!(one.tree, other.tree, "{}", alone.strategy);
        assert_eq!((one.chosen, &one.finished), (other.chosen, &other.finished));
        assert_eq!(one.spared_chains, other.spared_chains);
    }
}

#[test]
fn an_open_verifier_decides_the_score_of_complete_chains_in_every_strategy() {
    let (mut right, mut kept) = (0, 0);
    for plain in configs() {
        let config = SearchConfig {
            outcome_scores: true,
            ..plain.clone()
        };
        let results = solved(&config, &mut Rules::new(true), true);
        for result in &results {
            assert_eq!(result.error, None);
            for chain in result.finished.iter().filter(|c| c.finish.is_complete()) {
                let kind = outcome(&text(&result.tree, chain.node));
                assert_eq!(chain.outcome.as_ref().map(|o| o.kind), Some(kind));
                match kind {
                    OutcomeKind::Right => assert_eq!(chain.score, Some(1.0)),
                    OutcomeKind::Wrong => assert_eq!(chain.score, Some(0.0)),
                    _ => kept += usize::from(chain.score.is_some_and(|s| s > 0.0 && s < 1.0)),
                }
                right += usize::from(kind == OutcomeKind::Right);
            }
        }
        assert_same_alone(&config, &results);
    }
    assert!(right > 100 && kept > 50, "{right} {kept}");
}

#[test]
fn best_of_n_needs_no_scorer_and_chooses_a_chain_that_is_right() {
    let config = SearchConfig {
        outcome_scores: true,
        ..best_of(8)
    };
    let results = solved(&config, &mut Rules::new(true), false);
    let is_right = |chain: &FinishedChain| chain.outcome.as_ref().is_some_and(Outcome::is_right);
    let mut solved = 0;
    for result in &results {
        if result.finished.iter().any(is_right) {
            assert!(is_right(result.chosen_chain().unwrap()));
            solved += 1;
        }
    }
    assert!(solved > 5);
}

#[test]
fn a_search_stops_at_the_end_of_the_round_in_which_a_chain_is_right() {
    let mut spared = 0;
    for plain in configs() {
        let config = SearchConfig {
            stop_when_verified: true,
            ..plain.clone()
        };
        let whole = SearchConfig {
            outcome_scores: true,
            ..plain
        };
        let whole = solved(&whole, &mut Rules::new(true), true);
        let results = solved(&config, &mut Rules::new(true), true);
        for (result, whole) in results.iter().zip(&whole) {
            // A strategy may drop a complete chain later, so it need not be among the ends.
            let nodes = whole.tree.nodes();
            let sampled: BTreeSet<String> = nodes.map(|(id, _)| text(&whole.tree, id)).collect();
            let complete = |result: &ProblemResult| -> Vec<String> {
                let ends = result.finished.iter().filter(|c| c.finish.is_complete());
                ends.map(|c| text(&result.tree, c.node)).collect()
            };
            let is_right = |text: &String| outcome(text) == OutcomeKind::Right;
            let right = result
                .finished
                .iter()
                .any(|chain| chain.outcome.as_ref().is_some_and(Outcome::is_right));
            assert_eq!(result.spared_chains.is_some(), right);
            if right && result.answer.is_some() {
                // Whatever the votes and the rule of the choice.
                let chosen = result.chosen_chain().unwrap();
                assert!(chosen.outcome.as_ref().is_some_and(Outcome::is_right));
            }
            let (stopped, whole_ends) = (complete(result), complete(whole));
            assert!(stopped.iter().all(|text| sampled.contains(text)));
            assert!(stopped.iter().any(is_right) || !whole_ends.iter().any(is_right));
            let tokens = |result: &ProblemResult| result.ledger.generated_tokens;
            // How far chains are continued speculatively depends on when an outcome arrives.
            assert!(config.speculate || tokens(result) <= tokens(whole));
            // Every chain that was right ended in the last round.
            let last = result.tree.nodes().filter_map(|(_, node)| node.round).max();
            for chain in &result.finished {
                let node = result.tree.node(chain.node);
                if chain.outcome.as_ref().is_some_and(Outcome::is_right) && !node.is_rollout {
                    assert_eq!(node.round, last);
                }
            }
            spared += result.spared_chains.unwrap_or(0);
        }
        assert_same_alone(&config, &results);
    }
    assert!(spared > 100, "{spared}");
}

#[test]
fn completions_are_valued_by_their_outcomes() {
    let rollouts = RolloutsConfig {
        count: 4,
        value: RolloutValue::Verifier,
        weight: 1.0,
    };
    let config = SearchConfig {
        rollouts: Some(rollouts),
        ..beam(4, 2)
    };
    let mut between = 0;
    for result in solved(&config, &mut Rules::new(true), false) {
        let tree = &result.tree;
        for (_, node) in tree.nodes().filter(|(_, node)| !node.rollouts.is_empty()) {
            let ends = node.rollouts.iter().map(|&first| {
                let mut at = first;
                while let Some(&next) = tree.node(at).children.first() {
                    at = next;
                }
                at
            });
            let is_right = |end: NodeId| {
                tree.node(end).is_complete() && outcome(&text(tree, end)) == OutcomeKind::Right
            };
            let share = ends.filter(|&end| is_right(end)).count() as f32 / 4.0;
            assert_eq!((node.value, node.rating), (Some(share), Some(share)));
            between += usize::from(share > 0.0 && share < 1.0);
        }
    }
    assert!(between > 20, "{between}");
}

#[test]
fn a_closed_verifier_may_not_guide_a_search() {
    let mut config = best_of(4);
    config.outcome_scores = true;
    let mut stops = best_of(4);
    stops.stop_when_verified = true;
    for config in [config, stops] {
        for result in solved(&config, &mut Rules::new(false), true) {
            let error = result.error.unwrap();
            assert!(error.contains("of an open verifier only"), "{error}");
            assert!(result.finished.is_empty());
        }
    }
    // Without such a setting it judges when the search is done.
    for result in solved(&best_of(4), &mut Rules::new(false), true) {
        assert_eq!(result.error, None);
        assert!(result.finished.iter().any(|chain| chain.outcome.is_some()));
    }
}

type Seen = Arc<Mutex<Vec<(String, Option<OutcomeKind>)>>>;

/// Samples chains to their end, and notes the outcomes that it sees.
struct Asks(Seen);

impl Strategy for Asks {
    fn scoring(&self) -> Scoring {
        Scoring::Never
    }

    fn asks_verifier(&self) -> bool {
        true
    }

    fn begin(&mut self, start: Start) -> Vec<Action> {
        vec![Action::expand(start.node, 4)]
    }

    fn on_steps(&mut self, tree: &ChainTree, nodes: &[NodeId]) -> Vec<Action> {
        let mut actions = Vec::new();
        for &id in nodes {
            let node = tree.node(id);
            if node.state == State::Open {
                actions.push(Action::expand(id, 1));
            } else if node.is_complete() {
                let kind = node.outcome.as_ref().map(|outcome| outcome.kind);
                self.0.lock().unwrap().push((text(tree, id), kind));
            }
        }
        actions
    }
}

#[test]
fn a_strategy_that_asks_sees_the_outcomes_of_any_verifier() {
    let seen = Arc::new(Mutex::new(Vec::new()));
    let mut scripts = Scripted::random();
    let mut models = scripts.models();
    let mut rules = Rules::new(false);
    models.verifier = Some(&mut rules);
    let shared = Arc::clone(&seen);
    let factory: StrategyFactory = Arc::new(move |_| Ok(Box::new(Asks(Arc::clone(&shared)))));
    run_with(
        models,
        &SearchConfig::default(),
        factory,
        problems(6),
        &mut |_| (),
        &mut |_| ControlFlow::Continue(()),
    )
    .unwrap();
    let seen = seen.lock().unwrap();
    assert!(seen.len() > 10);
    for (text, kind) in seen.iter() {
        assert_eq!(*kind, Some(outcome(text)));
    }
}

/// Returns an outcome for the first chain of each batch only.
struct Short(Rules);

impl Verifier for Short {
    fn name_for(&self, _: &Problem) -> Option<&str> {
        Some("short")
    }

    fn is_open(&self, _: &Problem) -> bool {
        true
    }

    fn submit(&mut self, batch: BatchId, problem: &Problem, chains: &[WholeChain<'_>]) {
        self.0.submit(batch, problem, &chains[..1]);
    }

    fn collect(&mut self, wait: bool) -> Vec<(BatchId, Vec<Outcome>)> {
        self.0.collect(wait)
    }
}

#[test]
fn a_verifier_that_leaves_chains_out_loses_their_outcomes_and_stalls_nothing() {
    let mut scripts = Scripted::random();
    let mut models = scripts.models();
    let mut short = Short(Rules::new(true));
    models.verifier = Some(&mut short);
    let config = SearchConfig {
        outcome_scores: true,
        ..best_of(8)
    };
    let (mut missing, mut lost) = (0, 0);
    run(models, &config, problems(12), &mut |_| (), &mut |result| {
        let outcomes = result
            .finished
            .iter()
            .filter_map(|chain| chain.outcome.as_ref());
        missing += outcomes
            .filter(|outcome| outcome.reason.contains("no outcome"))
            .count();
        lost += result.lost_verdicts;
        ControlFlow::Continue(())
    })
    .unwrap();
    assert!(missing > 0 && lost >= missing, "{missing} {lost}");
}
