//! Early rejection: steps are scored in the middle, and the worse steps are dropped there.

use beamgen_search::*;

use crate::scripted::*;

fn rejecting(n: usize, m: usize, tau: usize) -> SearchConfig {
    SearchConfig {
        early_rejection: tau,
        ..beam(n, m)
    }
}

/// Writes three steps of six tokens each, then the answer.
fn six_tokens(place: &Place<'_>) -> Said {
    let mut said = match place.depth {
        0..3 => Said::step(format!("{} {:05}\n", place.index, place.draw(1) % 100_000)),
        _ => Said::answer(place.before.len()),
    };
    said.tokens = 6;
    said
}

fn run_with_scorer(config: &SearchConfig, count: usize) -> Vec<ProblemResult> {
    let mut generator = ScriptedGenerator::new(six_tokens);
    let mut scorer = ScriptedScorer::new(random_score);
    let (results, summary) = solve(&mut generator, Some(&mut scorer), config, problems(count));
    assert_eq!((generator.chains_held(), scorer.chains_held()), (0, 0));
    let tokens = summary.ledger.generated_tokens as usize;
    assert_eq!(tokens, generator.tokens_sampled);
    assert_eq!(summary.ledger.scored_tokens as usize, scorer.tokens_read);
    results
}

#[test]
fn rejected_chains_cost_tau_tokens_and_the_others_a_whole_step() {
    let results = run_with_scorer(&rejecting(8, 4, 2), 3);
    for result in results {
        // Four rounds of eight steps: all get two tokens, and two of them get the other four.
        assert_eq!(result.ledger.generated_tokens, 4 * (8 * 2 + 2 * 4));
        let stored: usize = result.tree.nodes().map(|(_, n)| n.tokens.len()).sum();
        assert_eq!(stored as u64, result.ledger.generated_tokens);
        assert!(result.answer.is_some());
    }
}

#[test]
fn a_partial_score_is_taken_and_taken_back() {
    for result in run_with_scorer(&rejecting(8, 4, 2), 3) {
        for (id, node) in result.tree.nodes().skip(1) {
            assert!(node.partial_score.is_some(), "every step is paused");
            if node.state == State::Duplicate {
                continue;
            }
            let rejected = node.tokens.len() == 2;
            assert_eq!(node.state == State::Pruned, rejected, "{id:?} {node:?}");
            // The whole step has the same score as without a pause.
            let before: String = node.parent.map(|id| result.tree.text(id)).unwrap();
            let whole = random_score(&result.problem, &before, &node.text);
            if rejected {
                assert_eq!((node.score, node.partial_score), (None, Some(whole)));
            } else {
                assert_eq!(node.score, Some(whole));
            }
        }
    }
}

#[test]
fn a_tau_that_no_step_reaches_changes_nothing() {
    let plain = run_with_scorer(&beam(8, 2), 5);
    for tau in [6, 100] {
        let late = run_with_scorer(&rejecting(8, 2, tau), 5);
        for (a, b) in plain.iter().zip(&late) {
            assert_eq!(a.tree, b.tree);
            assert_eq!(a.ledger, b.ledger);
        }
    }
}

#[test]
fn random_lives_end_well() {
    for tau in 1..MAX_STEP {
        let mut generator = ScriptedGenerator::new(random_said);
        let mut scorer = ScriptedScorer::new(random_score);
        let config = rejecting(9, 3, tau);
        let (results, summary) = solve(&mut generator, Some(&mut scorer), &config, problems(20));
        assert_eq!((generator.chains_held(), scorer.chains_held()), (0, 0));
        assert_eq!(
            summary.ledger.generated_tokens as usize,
            generator.tokens_sampled
        );
        assert!(
            results
                .iter()
                .all(|r| r.tree.nodes().all(|(_, n)| n.state != State::Paused))
        );
    }
}

/// Returns the steps that got a slot or ended the chain, with their scores.
fn chosen(result: &ProblemResult) -> Vec<(String, Option<f32>)> {
    let nodes = result.tree.nodes().skip(1);
    let kept = nodes.filter(|(_, node)| !matches!(node.state, State::Pruned | State::Duplicate));
    kept.map(|(id, node)| (result.tree.text(id), node.score))
        .collect()
}

#[test]
fn a_margin_keeps_the_steps_that_may_still_reach_a_slot() {
    let within = |margin: f32| {
        let config = SearchConfig {
            beam: Some(BeamConfig {
                margin,
                ..BeamConfig::default()
            }),
            ..rejecting(8, 4, 2)
        };
        run_with_scorer(&config, 6)
    };
    let (plain, fixed) = (
        run_with_scorer(&beam(8, 4), 6),
        run_with_scorer(&rejecting(8, 4, 2), 6),
    );
    // Nothing is far enough below: the beam is the one that never rejects early.
    for (all, plain) in within(1e9).iter().zip(&plain) {
        assert_eq!(chosen(all), chosen(plain));
        assert_eq!(all.ledger.generated_tokens, plain.ledger.generated_tokens);
    }
    let tokens = |results: &[ProblemResult]| -> u64 {
        results
            .iter()
            .map(|result| result.ledger.generated_tokens)
            .sum()
    };
    let between = within(1.0);
    assert!(tokens(&fixed) < tokens(&between) && tokens(&between) < tokens(&plain));
    // A rejected step scored at least the margin below the worst step that was written to its end.
    for result in &between {
        for (id, node) in result
            .tree
            .nodes()
            .filter(|(_, node)| node.tokens.len() == 2)
        {
            let at_pause = |id: NodeId| {
                let parent = result.tree.node(id).parent.unwrap();
                let above = result
                    .tree
                    .chain_score(parent, Aggregation::Min)
                    .unwrap_or(1.0);
                above.min(result.tree.node(id).partial_score.unwrap())
            };
            let same_round = result
                .tree
                .nodes()
                .filter(|(_, other)| other.round == node.round);
            let mut scores: Vec<f32> = same_round.map(|(id, _)| at_pause(id)).collect();
            scores.sort_by(|a, b| b.total_cmp(a));
            assert!(logits_below(scores[1], at_pause(id)) >= 1.0, "{scores:?}");
        }
    }
}
