//! Tests of a run's interface: delivery, events, errors, times.

use std::cell::Cell;
use std::ops::ControlFlow;

use beamgen_search::*;

use crate::scripted::*;

/// Writes three rounds for `p0`, and one round for every other problem.
fn slow_first(place: &Place<'_>) -> Said {
    let rounds = if place.problem.id == "p0" { 3 } else { 1 };
    match place.depth {
        d if d < rounds => Said::step(format!("{}\n", place.index)),
        _ => Said::answer(place.index),
    }
}

fn slow() -> Scripted<'static> {
    Scripted::new(slow_first, random_score)
}

#[test]
fn results_come_as_soon_as_they_are_there() {
    let mut scripts = slow();
    let models = scripts.models();
    let mut order = Vec::new();
    run(models, &beam(4, 2), problems(3), &mut |_| (), &mut |r| {
        order.push(r.index);
        ControlFlow::Continue(())
    })
    .unwrap();
    assert_eq!(order, [1, 2, 0]);
}

#[test]
fn problems_are_pulled_when_there_is_room_and_not_before() {
    let pulled = Cell::new(0);
    let mut delivered = 0;
    let source = problems(50).into_iter().inspect(|_| {
        pulled.set(pulled.get() + 1);
    });
    let mut scripts = slow();
    let models = scripts.models();
    let config = SearchConfig {
        in_flight: 3,
        ..beam(4, 2)
    };
    run(models, &config, source, &mut |_| (), &mut |_| {
        delivered += 1;
        assert!(pulled.get() < delivered + 3);
        ControlFlow::Continue(())
    })
    .unwrap();
    assert_eq!(delivered, 50);
}

#[test]
fn the_caller_can_stop_and_nothing_is_left_behind() {
    let mut scripts = slow();
    let models = scripts.models();
    let mut delivered = 0;
    let summary = run(models, &beam(4, 2), problems(50), &mut |_| (), &mut |_| {
        delivered += 1;
        ControlFlow::Break(())
    })
    .unwrap();
    assert_eq!((delivered, summary.problems), (1, 1));
    scripts.assert_empty();
    assert_eq!(
        summary.ledger.generated_tokens as usize,
        scripts.generator.tokens_sampled
    );
}

#[test]
fn a_refused_problem_is_a_result_with_an_error() {
    let mut input = problems(4);
    input[1].text = "too long".into();
    input[2].text = "unscorable".into();
    let mut scripts = slow();
    let (results, summary) = scripts.solve(&beam(4, 2), input);
    assert!(results[1].error.as_ref().unwrap().contains("9999"));
    assert!(results[2].error.as_ref().unwrap().contains("scorer"));
    let too_long: Vec<bool> = results.iter().map(|result| result.too_long).collect();
    assert_eq!(too_long, [false, true, true, false]);
    assert_eq!(summary.failed, 2);
    assert_eq!(summary.answered, 2);
    assert_eq!(scripts.generator.chains_held(), 0);
}

#[test]
fn no_problems_is_a_run_too() {
    let (_, summary) = slow().solve(&beam(4, 2), vec![]);
    assert_eq!(summary, RunSummary::default());
}

fn fails(models: Models<'_>, config: &SearchConfig) -> SearchError {
    let deliver = &mut |_| ControlFlow::Continue(());
    run(models, config, problems(3), &mut |_| (), deliver).unwrap_err()
}

#[test]
fn what_cannot_be_run_is_refused() {
    assert_eq!(
        fails(slow().generator.unscored(), &beam(4, 2)),
        SearchError::Config(ConfigError::NeedsScorer {
            what: "beam search"
        })
    );
    assert_eq!(
        fails(slow().models(), &beam(0, 2)),
        SearchError::Config(ConfigError::Zero { field: "n" })
    );
}

#[test]
fn a_scorer_that_gives_no_probabilities_is_found_out() {
    for bad in [f32::NAN, -0.1, 1.5] {
        let mut scripts = Scripted::new(slow_first, move |_, _, _| bad);
        let results = scripts.solve(&beam(4, 2), problems(2)).0;
        for result in results {
            let error = result.error.expect("it failed");
            assert!(error.ends_with("is not a probability"), "{error}");
        }
        scripts.assert_empty();
    }
}

#[test]
fn a_generator_that_gives_no_log_probability_fails_its_problem() {
    let odd_first = |place: &Place<'_>| match place.problem.id.as_str() {
        "p0" if place.depth == 1 => Said::step("improbable\n"),
        _ => slow_first(place),
    };
    let mut scripts = Scripted::new(odd_first, random_score);
    let (results, summary) = scripts.solve(&beam(4, 2), problems(2));
    assert_eq!((summary.failed, results.len()), (1, 2));
    let error = results[0].error.as_deref().expect("it failed");
    assert!(
        error.ends_with("the log-probability of a step is NaN"),
        "{error}"
    );
    assert_eq!(results[1].error, None);
    scripts.assert_empty();
}

#[test]
fn a_scorer_that_is_lost_ends_the_run_and_leaves_nothing_behind() {
    let mut scripts = Scripted {
        scorer: ScriptedScorer::fallible(|_, _, _| Err(ScoreError::Lost("gone".into()))),
        ..slow()
    };
    for config in [beam(4, 2), best_of(2)] {
        let error = fails(scripts.models(), &config);
        assert_eq!(error.to_string(), "the scorer failed: gone");
        scripts.assert_empty();
    }
}

#[test]
fn a_strategy_that_asks_for_the_impossible_is_found_out() {
    struct Twice;
    impl Strategy for Twice {
        fn scoring(&self) -> Scoring {
            Scoring::Never
        }
        fn merges_siblings(&self) -> bool {
            false
        }
        fn in_rounds(&self) -> bool {
            false
        }
        fn begin(&mut self, _: Start) -> Vec<Action> {
            let expand = Action::expand(ChainTree::ROOT, 1);
            vec![expand, expand]
        }
        fn on_steps(&mut self, _: &ChainTree, _: &[NodeId]) -> Vec<Action> {
            Vec::new()
        }
    }
    let mut generator = ScriptedGenerator::new(slow_first);
    let models = generator.unscored();
    let mut reason = None;
    run_with(
        models,
        &SearchConfig::default(),
        std::sync::Arc::new(|_| Ok(Box::new(Twice))),
        problems(1),
        &mut |_| (),
        &mut |result| {
            reason = result.error;
            ControlFlow::Continue(())
        },
    )
    .unwrap();
    let reason = reason.expect("the problem failed");
    assert!(
        reason.contains("the strategy broke its contract"),
        "{reason}"
    );
}

/// A strategy may end the search while steps grow; their tokens are in the ledger all the same.
#[test]
fn steps_dropped_in_the_middle_are_paid_for() {
    struct FirstOnly;
    impl Strategy for FirstOnly {
        fn scoring(&self) -> Scoring {
            Scoring::Never
        }
        fn merges_siblings(&self) -> bool {
            false
        }
        fn in_rounds(&self) -> bool {
            false
        }
        fn begin(&mut self, _: Start) -> Vec<Action> {
            vec![Action::expand(ChainTree::ROOT, 3)]
        }
        fn on_steps(&mut self, _: &ChainTree, _: &[NodeId]) -> Vec<Action> {
            vec![Action::Done]
        }
    }
    let mut generator = ScriptedGenerator::new(|place| Said {
        tokens: 2 + 3 * place.index as usize,
        ..Said::answer(place.index)
    });
    let models = generator.unscored();
    let mut results = Vec::new();
    let summary = run_with(
        models,
        &SearchConfig::default(),
        std::sync::Arc::new(|_| Ok(Box::new(FirstOnly))),
        problems(2),
        &mut |_| (),
        &mut |result| {
            results.push(result);
            ControlFlow::Continue(())
        },
    )
    .unwrap();
    assert_eq!(results[0].answer.as_deref(), Some("0"));
    assert_eq!(results[0].ledger.generated_tokens, 2 + 2 + 2);
    assert_eq!(summary.ledger.generated_tokens, 12);
    assert_eq!(generator.chains_held(), 0);
}

/// Steps that were requested and never started leave nothing in the models.
#[test]
fn a_strategy_may_end_with_steps_still_queued() {
    struct SecondThoughts;
    impl Strategy for SecondThoughts {
        fn scoring(&self) -> Scoring {
            Scoring::EveryStep
        }
        fn merges_siblings(&self) -> bool {
            false
        }
        fn in_rounds(&self) -> bool {
            false
        }
        fn begin(&mut self, _: Start) -> Vec<Action> {
            vec![Action::expand(ChainTree::ROOT, 2)]
        }
        fn on_steps(&mut self, _: &ChainTree, nodes: &[NodeId]) -> Vec<Action> {
            let expand = Action::expand(nodes[0], 2);
            vec![expand, Action::Done]
        }
    }
    let mut scripts = slow();
    let models = scripts.models();
    run_with(
        models,
        &SearchConfig::default(),
        std::sync::Arc::new(|_| Ok(Box::new(SecondThoughts))),
        problems(2),
        &mut |_| (),
        &mut |_| ControlFlow::Continue(()),
    )
    .unwrap();
    scripts.assert_empty();
}

#[test]
fn a_majority_is_not_scored_and_greedy_is_one_chain() {
    let mut scripts = Scripted::random();
    let config = SearchConfig {
        choose: Some(Choose::Majority),
        ..best_of(8)
    };
    scripts.solve(&config, problems(5));
    assert_eq!(scripts.scorer.calls, 0);

    let config = SearchConfig {
        strategy: StrategyKind::GREEDY,
        ..SearchConfig::default()
    };
    let mut scripts = slow();
    let results = scripts.solve(&config, problems(5)).0;
    for result in &results {
        assert_eq!(result.finished.len(), 1);
        assert!(result.steps().iter().all(|step| step.score.is_some()));
    }
    // Its tokens are the likeliest, whatever the settings of the generator say.
    assert_eq!(scripts.generator.temperatures, [Some(0.0); 5]);
}

#[test]
fn best_of_n_scores_each_finished_chain_in_one_read() {
    let mut scripts = slow();
    let results = scripts.solve(&best_of(6), problems(1)).0;
    assert_eq!(scripts.scorer.calls, 1);
    assert_eq!(results[0].ledger.score_passes, 1);
    assert_eq!(results[0].finished.len(), 6);
    assert!(results[0].finished.iter().all(|c| c.score.is_some()));
}

/// When a problem ends or waits, other problems use its rows, so that passes stay full.
#[test]
fn freed_rows_go_to_other_problems() {
    let config = SearchConfig {
        in_flight: 4,
        ..beam(4, 2)
    };
    let passes = |config: &SearchConfig| {
        let mut scripts = Scripted::random();
        scripts.solve(config, problems(40));
        scripts.generator.passes
    };
    let together = passes(&config);
    let config = SearchConfig {
        in_flight: 1,
        ..config
    };
    assert!(3 * together < passes(&config));
}

#[test]
fn the_observer_sees_the_life_of_every_chain() {
    let mut scripts = Scripted::random();
    let models = scripts.models();
    let (mut begun, mut closed, mut scored, mut ended, mut pruned, mut passes) = (0, 0, 0, 0, 0, 0);
    let (mut expanded, mut merged) = (0, 0);
    let mut results = Vec::new();
    let observe = &mut |event: Event<'_>| match event {
        Event::ProblemStarted { .. } => begun += 1,
        Event::Chain {
            tree, node, what, ..
        } => match what {
            ChainEvent::Closed => closed += 1,
            ChainEvent::Scored(score) => {
                assert_eq!(tree.node(node).score, Some(score));
                scored += 1;
            }
            ChainEvent::Finished(_) => ended += 1,
            ChainEvent::Pruned => pruned += 1,
            ChainEvent::Expanded(children) => {
                let follows = |&id: &NodeId| tree.node(id).parent == Some(node);
                assert!(children.iter().all(follows));
                expanded += children.len();
            }
            ChainEvent::Merged(twin) => {
                assert_eq!(tree.node(node).duplicate_of, Some(twin));
                merged += 1;
            }
            ChainEvent::Paused | ChainEvent::PartlyScored(_) => panic!("nothing is held up"),
        },
        Event::ProblemDone { result, .. } => results.push(result.clone()),
        Event::Pass { in_flight, .. } => {
            assert!(in_flight <= 5);
            passes += 1;
        }
        Event::ProblemRestarted { .. } => panic!("there is memory enough"),
    };
    let deliver = &mut |_| ControlFlow::Continue(());
    let summary = run(models, &beam(6, 2), problems(5), observe, deliver).unwrap();
    let count = |wanted: &dyn Fn(&Node) -> bool| -> usize {
        let nodes = results.iter().flat_map(|result| result.tree.nodes());
        nodes
            .filter(|(_, node)| node.depth > 0 && wanted(node))
            .count()
    };
    assert_eq!(begun, 5);
    assert_eq!((expanded, closed), (count(&|_| true), count(&|_| true)));
    assert_eq!(merged, count(&|node| node.state == State::Duplicate));
    assert_eq!(scored, count(&|node| node.score.is_some()));
    assert_eq!(pruned, count(&|node| node.state == State::Pruned));
    // A finished duplicate had ended before it was merged, so it made an event, too.
    assert!(ended >= count(&|node| node.finish().is_some()));
    assert_eq!(passes, summary.ledger.forward_passes);
}

#[test]
fn seconds_come_from_the_clock_given() {
    let mut scripts = slow();
    let models = Models {
        verifier: None,
        clock: &Ticking::default(),
        ..scripts.models()
    };
    let mut sum = Ledger::default();
    let summary = run(models, &beam(4, 2), problems(3), &mut |_| (), &mut |r| {
        assert!(r.elapsed > 0.0);
        sum += &r.ledger;
        ControlFlow::Continue(())
    })
    .unwrap();
    let total = summary.ledger.seconds;
    assert!((total.generate - sum.seconds.generate).abs() < 1e-9);
    assert!((total.score - sum.seconds.score).abs() < 1e-9);
    assert!(total.search >= sum.seconds.search && sum.seconds.search > 0.0);
    assert!((total.total() - summary.elapsed).abs() < 1e-9);
}

#[test]
fn a_result_survives_json() {
    let results = Scripted::random().solve(&beam(4, 2), problems(2)).0;
    for result in results {
        let json = serde_json::to_string(&result).unwrap();
        let back: ProblemResult = serde_json::from_str(&json).unwrap();
        assert_eq!(back, result);
    }
}
