//! Values by rollouts: their definition, their cost, and the answers that completions give.

use beamgen_search::*;

use crate::scripted::*;

fn rollouts(count: usize, value: RolloutValue, weight: f32) -> SearchConfig {
    SearchConfig {
        rollouts: Some(RolloutsConfig {
            count,
            value,
            weight,
        }),
        ..beam(4, 2)
    }
}

/// Returns the ends of the rollouts of a node.
fn ends(tree: &ChainTree, node: &Node) -> Vec<NodeId> {
    let ends = node.rollouts.iter().map(|&first| {
        let mut at = first;
        while let Some(&next) = tree.node(at).children.first() {
            at = next;
        }
        at
    });
    ends.collect()
}

#[test]
fn a_value_is_the_share_of_completions_that_agree_with_the_vote() {
    // A step that begins with "a" leads to the answer 7, "b" leads to 7 or, every other time, to
    // answers that nobody else gives.
    let script = |place: &Place<'_>| match place.depth {
        0 => Said::step(if place.index.is_multiple_of(2) {
            "a\n"
        } else {
            "b\n"
        }),
        1 => Said::step("on\n"),
        _ if place.before.starts_with('a') || place.draw(4).is_multiple_of(2) => Said::answer(7),
        _ => Said::answer(100 + place.draw(5) % 1000),
    };
    let mut generator = ScriptedGenerator::new(script);
    let config = rollouts(8, RolloutValue::Vote, 1.0);
    let (results, summary) = solve(&mut generator, None, &config, problems(5));
    assert_eq!(summary.ledger.scored_tokens, 0);
    let mut between = 0;
    for result in results {
        assert_eq!(result.answer.as_deref(), Some("7"));
        for (_, node) in result.tree.nodes().filter(|(_, node)| node.value.is_some()) {
            let ends = ends(&result.tree, node);
            let agree = |&&end: &&NodeId| result.tree.text(end).contains("is 7.");
            let share = match ends.len() {
                0 => f32::from(node.text.contains("is 7.")),
                count => ends.iter().filter(agree).count() as f32 / count as f32,
            };
            assert_eq!((node.value, node.rating), (Some(share), Some(share)));
            assert_eq!(node.score, None);
            between += u32::from(share > 0.0 && share < 1.0);
            assert!(ends.is_empty() || ends.len() == 8);
            assert!(!node.is_rollout);
        }
        let voting: usize = result.answers.iter().map(|answer| answer.votes).sum();
        // Completions give answers: far more than the four chains of the beam.
        assert!(voting > 16, "{voting}");
    }
    assert!(between > 0);
}

#[test]
fn completions_cost_tokens_and_change_no_step_of_a_beam_that_values_like_the_scorer() {
    let run = |config: &SearchConfig| {
        let mut generator = ScriptedGenerator::new(random_said);
        let mut scorer = ScriptedScorer::new(random_score);
        solve(&mut generator, Some(&mut scorer), config, problems(10)).0
    };
    // A weight so small that scores keep their order: the same children are sampled and chosen.
    let (plain, valued) = (
        run(&beam(4, 2)),
        run(&rollouts(3, RolloutValue::Vote, 1e-9)),
    );
    let steps = |result: &ProblemResult| {
        let own = result.tree.nodes().filter(|(_, node)| !node.is_rollout);
        own.map(|(_, node)| (node.text.clone(), node.stream, node.state))
            .collect::<Vec<_>>()
    };
    for (a, b) in plain.iter().zip(&valued) {
        assert_eq!(steps(a), steps(b));
        assert!(b.ledger.generated_tokens > a.ledger.generated_tokens);
        assert_eq!(a.ledger.width, b.ledger.width);
    }
}

#[test]
fn a_mixture_weighs_the_scorer_and_the_rollouts() {
    let mut generator = ScriptedGenerator::new(random_said);
    let mut scorer = ScriptedScorer::new(random_score);
    let config = rollouts(2, RolloutValue::Vote, 0.25);
    let results = solve(&mut generator, Some(&mut scorer), &config, problems(10)).0;
    let mut seen = 0;
    for result in &results {
        for (id, node) in result.tree.nodes() {
            let (Some(value), Some(rating)) = (node.value, node.rating) else {
                continue;
            };
            let steps = result.tree.path(id).into_iter().map(|id| {
                let node = result.tree.node(id);
                let before = result.tree.text(node.parent.unwrap());
                random_score(&result.problem, &before, &node.text)
            });
            let model = steps.reduce(f32::min).unwrap();
            assert_eq!(rating, 0.25 * value + 0.75 * model);
            assert_eq!(result.tree.chain_score(id, Aggregation::Min), Some(rating));
            seen += 1;
        }
        // Completions have scores of their own, by which they compete.
        for chain in result.finished.iter().filter(|c| c.finish.is_complete()) {
            assert_eq!(
                chain.score,
                result.tree.chain_score(chain.node, Aggregation::Min)
            );
            let scored = result
                .tree
                .steps(chain.node)
                .all(|node| node.score.is_some());
            assert!(scored, "{chain:?}");
        }
    }
    assert!(seen > 50, "{seen}");
}

#[test]
fn a_value_by_the_scorer_is_the_mean_of_its_chain_scores() {
    let mut generator = ScriptedGenerator::new(random_said);
    let mut scorer = ScriptedScorer::new(random_score);
    let config = rollouts(2, RolloutValue::Prm, 1.0);
    let results = solve(&mut generator, Some(&mut scorer), &config, problems(10)).0;
    let mut seen = 0;
    for result in &results {
        for (id, node) in result.tree.nodes().filter(|(_, node)| node.value.is_some()) {
            let ends = ends(&result.tree, node);
            let ends = if ends.is_empty() { vec![id] } else { ends };
            let worth = ends.iter().map(|&end| {
                if !result.tree.node(end).is_complete() {
                    return 0.0;
                }
                let path = result.tree.path(end);
                let own = path.iter().map(|&id| {
                    let node = result.tree.node(id);
                    let before = result.tree.text(node.parent.unwrap());
                    (!node.is_empty_step())
                        .then(|| random_score(&result.problem, &before, &node.text))
                });
                own.flatten().reduce(f32::min).unwrap_or(0.0)
            });
            let mean = worth.sum::<f32>() / ends.len() as f32;
            assert!((node.value.unwrap() - mean).abs() < 1e-6, "{mean} {node:?}");
            seen += 1;
        }
    }
    assert!(seen > 50, "{seen}");
}

#[test]
fn best_of_n_is_scored_by_the_value_of_the_last_step() {
    let mut generator = ScriptedGenerator::new(random_said);
    let config = SearchConfig {
        rollouts: rollouts(2, RolloutValue::Vote, 1.0).rollouts,
        ..best_of(4)
    };
    let results = solve(&mut generator, None, &config, problems(10)).0;
    for result in &results {
        for chain in result.finished.iter().filter(|c| c.finish.is_complete()) {
            // The value of the last step that has one: a completion has that of its step.
            let steps = result.tree.steps(chain.node);
            let value = steps.filter_map(|node| node.value).last();
            assert_eq!(chain.score, value);
        }
        assert!(result.answers.iter().map(|a| a.votes).sum::<usize>() > 4);
    }
}

#[test]
fn keys_that_do_not_go_with_rollouts_are_refused_by_name() {
    let plain = rollouts(2, RolloutValue::Vote, 1.0);
    let refused = |change: &dyn Fn(&mut SearchConfig), says: &str| {
        let mut config = plain.clone();
        change(&mut config);
        let error = config.validate().unwrap_err().to_string();
        assert!(
            error.contains("rollouts") && error.contains(says),
            "{error}"
        );
    };
    assert_eq!(plain.validate(), Ok(()));
    refused(&|config| config.budget_tokens = 100, "budget_tokens");
    refused(&|config| config.early_rejection = 5, "early_rejection");
    refused(&|config| config.speculate = true, "speculate");
    refused(&|config| config.strategy = StrategyKind::GREEDY, "beam");
    refused(
        &|config| config.rollouts.as_mut().unwrap().weight = 0.0,
        "weight",
    );
    refused(
        &|config| config.rollouts.as_mut().unwrap().weight = 1.5,
        "weight",
    );
    refused(
        &|config| config.rollouts.as_mut().unwrap().count = 5000,
        "1024",
    );
    // Without rollouts, a weight has no effect.
    let idle = rollouts(0, RolloutValue::Vote, 0.5);
    assert!(idle.validate().unwrap_err().to_string().contains("count"));
    assert!(plain.needs_scorer().is_none() && !plain.uses_scores());
    let mixed = rollouts(2, RolloutValue::Vote, 0.5);
    assert!(mixed.needs_scorer().is_some() && mixed.uses_scores());
}
