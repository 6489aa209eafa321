//! Regression tests for known pitfalls of step-wise beam search; each test's comment names the
//! pitfall. Pitfalls of reading a reward model are tested in the `prm` crate.

use beamgen_search::*;

use crate::scripted::*;

fn first_digit(step: &str) -> f32 {
    step.chars()
        .find_map(|c| c.to_digit(10))
        .map_or(0.0, |digit| digit as f32 / 10.0)
}

/// Writes the digits 0, 1, 2 ... to siblings for `depth` rounds, then an answer; the digit is the
/// score.
fn counting(depth: usize) -> impl Fn(&Place<'_>) -> Said {
    move |place| match place.depth {
        d if d == depth => Said::answer(place.before.len()),
        _ => Said::step(format!("{}\n", place.index)),
    }
}

/// Makes a run in which a step's first digit is its score.
fn digits<'a>(script: impl Fn(&Place<'_>) -> Said + 'a) -> Scripted<'a> {
    Scripted::new(script, |_, _, step| first_digit(step))
}

/// 1. Pooling the beams of several problems, and grouping results by the text of the prompt.
#[test]
fn p01_problems_in_flight_share_neither_beams_nor_results() {
    let mut same_text = problems(3);
    for problem in &mut same_text {
        problem.text = "What?".into();
    }
    let script = |place: &Place<'_>| match place.depth {
        2 => Said::answer(&place.problem.id[1..]),
        _ => Said::step(format!("{} for {}\n", place.index, place.problem.id)),
    };
    let mut scripts = digits(script);
    let results = scripts.solve(&beam(4, 2), same_text).0;
    for (i, result) in results.iter().enumerate() {
        assert_eq!(result.answer.as_deref(), Some(i.to_string().as_str()));
        let nodes = result.tree.nodes().map(|(_, node)| node);
        let steps: Vec<_> = nodes.filter(|node| node.depth == 1).collect();
        assert_eq!(steps.len(), 4);
        let own = |node: &&Node| node.text.contains(&result.problem.id);
        assert!(steps.iter().all(own));
    }
}

/// 2. Refilling survivors in the order of a list, at full width, until all have finished.
#[test]
fn p02_survivors_are_expanded_in_score_order_and_work_shrinks_as_chains_finish() {
    // 5 chains, 2 slots of 3 and 2: the better survivor, child 4, gets 3 children.
    let mut scripts = digits(counting(2));
    let results = scripts
        .solve(
            &SearchConfig {
                aggregation: Aggregation::Last,
                ..beam(5, 2)
            },
            problems(1),
        )
        .0;
    let tree = &results[0].tree;
    let widths: Vec<usize> = tree
        .nodes()
        .filter(|(_, node)| node.depth == 1)
        .map(|(_, node)| node.children.len())
        .collect();
    assert_eq!(widths, [0, 0, 0, 2, 3]);

    // One of two slots is complete early with a high score: only the other slot's share is sampled.
    let script = |place: &Place<'_>| match (place.depth, place.index) {
        (0, 3) => Said::answer(9),
        (3, _) => Said::answer(8),
        _ => Said::step(format!("{}\n", place.index)),
    };
    let mut scripts = digits(script);
    scripts.solve(&beam(4, 2), problems(1));
    assert_eq!(scripts.generator.rows[..6], [4, 4, 4, 2, 2, 2]);
}

/// 3. N < M keeping everything, N not a multiple of M losing the remainder.
#[test]
fn p03_fewer_chains_than_the_factor_is_refused_and_no_remainder_is_lost() {
    assert_eq!(
        beam(3, 4).validate(),
        Err(ConfigError::FewerChainsThanFactor { n: 3, m: 4 })
    );
    for (n, m) in [(4, 4), (5, 2), (7, 3), (10, 4), (16, 4), (9, 5)] {
        let mut scripts = digits(counting(3));
        scripts.solve(&beam(n, m), problems(1));
        // Three tokens a step: three passes a round, N rows in each.
        assert_eq!(scripts.generator.rows[..9], [n; 9], "n {n}, m {m}");
    }
}

/// 4. Cutting the finished chains to the first N, and padding with copies that vote twice.
#[test]
fn p04_the_best_finished_chains_vote_not_the_first_and_none_votes_twice() {
    // Poor chains answer 1 in the first round, good ones answer 2 in the third.
    let script = |place: &Place<'_>| match (place.depth, place.index) {
        (0, 0 | 1) => Said::end(
            format!("0{}. The answer is 1.\n", place.index),
            Finish::Answer,
        ),
        (2, _) => Said::end(
            format!("9{}. The answer is 2.\n", place.index),
            Finish::Answer,
        ),
        _ => Said::step(format!("9 via {}\n", place.index)),
    };
    let config = SearchConfig {
        choose: Some(Choose::Majority),
        ..beam(4, 2)
    };
    let mut scripts = digits(script);
    let results = scripts.solve(&config, problems(1)).0;
    let result = &results[0];
    assert!(result.finished.len() > 4, "more finished than N");
    assert_eq!(result.answer.as_deref(), Some("2"));
    let mut nodes: Vec<_> = result.finished.iter().map(|chain| chain.node).collect();
    nodes.dedup();
    assert_eq!(nodes.len(), result.finished.len());

    // A single finished chain stays the only one, without copies.
    let lonely = |place: &Place<'_>| match place.index {
        0 => Said::answer(1),
        _ => Said::end("never", Finish::StepCap),
    };
    let mut scripts = digits(lonely);
    let results = scripts.solve(&config, problems(1)).0;
    let complete = |chain: &&FinishedChain| chain.finish.is_complete();
    assert_eq!(results[0].finished.iter().filter(complete).count(), 1);
}

/// 5. Sampling the same text twice under one parent and continuing both copies.
#[test]
fn p05_siblings_with_the_same_text_are_one_candidate() {
    let script = |place: &Place<'_>| match place.depth {
        2 => Said::answer(1),
        _ => Said::step(format!("{}\n", place.index / 2)),
    };
    let mut scripts = digits(script);
    let results = scripts.solve(&beam(8, 2), problems(1)).0;
    let tree = &results[0].tree;
    let first: Vec<_> = tree
        .nodes()
        .filter(|(_, node)| node.depth == 1)
        .map(|(_, node)| node.state == State::Duplicate)
        .collect();
    assert_eq!(first, [false, true].repeat(4));
    // Copies are not scored, and the distinct steps share the whole width.
    assert!(scripts.scorer.reads.values().all(|&reads| reads == 1));
    assert_eq!(scripts.generator.rows[..6], [8; 6]);
}

/// 5, continued: the same text is sampled when a node is expanded again.
#[test]
fn p05_a_step_that_is_drawn_again_later_is_a_copy() {
    let mut scripts = digits(|place| match place.depth {
        1 => Said::answer(1),
        _ => Said::step(format!("{}\n", place.index % 4 / 3)),
    });
    let config = SearchConfig {
        strategy: StrategyKind::MCTS,
        ..beam(8, 4)
    };
    let results = scripts.solve(&config, problems(1)).0;
    let tree = &results[0].tree;
    let first: Vec<NodeId> = tree.node(ChainTree::ROOT).children.clone();
    assert!(first.len() >= 8, "widened: {}", first.len());
    for (i, &id) in first.iter().enumerate() {
        let node = tree.node(id);
        let twin = first[[0, 3][usize::from(i % 4 == 3)]];
        assert_eq!(node.duplicate_of, (id != twin).then_some(twin));
        assert_eq!(node.state == State::Duplicate, id != twin);
    }
    let copies: Vec<usize> = [0, 3].map(|i| tree.node(first[i]).copies).to_vec();
    assert_eq!(copies, [first.len() / 4 * 3, first.len() / 4]);
    assert!(scripts.scorer.reads.values().all(|&reads| reads == 1));
}

/// Siblings with different leftover bytes are not copies. A scorer gets no tokens that contain more
/// than the step's text.
#[test]
fn p05_siblings_that_carry_different_text_on_are_not_one_candidate() {
    let script = |place: &Place<'_>| match place.depth {
        1 => Said::answer(1),
        _ => Said {
            leftover: ["", "", "a", "b", "a"][place.index as usize],
            ..Said::step("1\n")
        },
    };
    let mut scripts = digits(script);
    let results = scripts.solve(&beam(5, 5), problems(1)).0;
    let nodes = results[0].tree.nodes().map(|(_, node)| node);
    let first: Vec<_> = nodes
        .filter(|node| node.depth == 1)
        .map(|node| (node.state == State::Duplicate, node.copies))
        .collect();
    let duplicate = (true, 1);
    assert_eq!(
        first,
        [(false, 2), duplicate, (false, 2), (false, 1), duplicate]
    );
    // The step that closed first represents the text for the scorer. It has leftover bytes, so it
    // is read without its tokens; the answer is read with its own tokens.
    assert_eq!(scripts.scorer.tokens_read, 3);
}

/// 6. Generating text that no score ever sees.
#[test]
fn p06_no_step_is_generated_in_vain_every_competing_step_is_scored() {
    let mut scripts = Scripted::random();
    let (results, summary) = scripts.solve(&beam(8, 2), problems(20));
    for result in &results {
        for (id, node) in result.tree.nodes().skip(1) {
            let failed = node.finish().is_some_and(|finish| !finish.is_complete());
            let needs_no_score = failed || node.state == State::Duplicate || node.is_empty_step();
            assert_eq!(node.score.is_none(), needs_no_score, "{id:?} {node:?}");
        }
    }
    assert_eq!(
        summary.ledger.generated_tokens as usize,
        scripts.generator.tokens_sampled
    );
}

/// 7. Treating a chain that ran into a length limit as a finished chain.
#[test]
fn p07_truncated_chains_are_not_finished_and_give_no_answer() {
    for cap in [Finish::StepCap, Finish::ChainCap] {
        let script = move |place: &Place<'_>| match place.index {
            0 => Said::end("9 The answer is 5. And", cap),
            _ => Said::answer(3),
        };
        for config in [beam(2, 1), best_of(2)] {
            let mut scripts = digits(script);
            let results = scripts.solve(&config, problems(1)).0;
            assert_eq!(results[0].answer.as_deref(), Some("3"));
            assert!(results[0].finished.iter().any(|chain| chain.finish == cap));
        }
    }
    // All chains are cut off, so there is no answer.
    let endless = |_: &Place<'_>| Said::step("The answer is 1. Or\n");
    let config = SearchConfig {
        max_steps: 3,
        ..beam(2, 1)
    };
    let mut scripts = digits(endless);
    let (results, summary) = scripts.solve(&config, problems(1));
    assert_eq!(results[0].answer, None);
    let shown = results[0].chosen_chain().unwrap();
    assert_eq!(shown.finish, Finish::MaxSteps);
    assert_eq!(results[0].steps().len(), 3);
    assert_eq!(summary.answered, 0);
}

/// 8. Scoring the empty step after the last boundary (the scorer panics on one).
#[test]
fn p08_an_empty_trailing_step_is_never_scored() {
    let script = |place: &Place<'_>| match place.depth {
        0 => Said::step(format!("{}. The answer is {}.\n", place.index, place.index)),
        _ => Said::end("", Finish::EndOfText),
    };
    for config in [beam(4, 2), best_of(4)] {
        for aggregation in Aggregation::ALL {
            let mut scripts = digits(script);
            let results = scripts
                .solve(
                    &SearchConfig {
                        aggregation,
                        ..config.clone()
                    },
                    problems(1),
                )
                .0;
            assert_eq!(results[0].answer.as_deref(), Some("3"));
            assert_eq!(results[0].steps().len(), 1);
            let step = results[0].steps()[0];
            assert_eq!(step.score, Some(0.3));
            let score = aggregation.weighed(0.3, step.logprob);
            assert_eq!(results[0].score, Some(score));
        }
    }
}

/// 9. Treating a score of 0 as a missing score.
#[test]
fn p09_a_probability_of_zero_is_a_score() {
    let script = |place: &Place<'_>| match place.depth {
        1 => Said::answer(1),
        _ => Said::step("0\n"),
    };
    let mut scripts = Scripted::new(script, |_, before, _| match before {
        "" => 0.0,
        _ => 1.0,
    });
    let config = SearchConfig {
        aggregation: Aggregation::Mean,
        ..best_of(1)
    };
    let results = scripts.solve(&config, problems(1)).0;
    assert_eq!(results[0].score, Some(0.5));
    assert_eq!(results[0].steps()[0].score, Some(0.0));
}

/// 10. Reading every chain again from its first token in every round.
#[test]
fn p10_each_prompt_is_read_once_and_each_step_is_scored_once() {
    let count = 10;
    let mut scripts = Scripted::random();
    let (results, summary) = scripts.solve(&beam(8, 2), problems(count));
    assert_eq!(scripts.generator.prompts_read, count);
    assert_eq!(summary.ledger.prompt_tokens as usize, count * PROMPT_TOKENS);
    // Different parents may have the same text, but no node is read twice.
    let scored = |result: &ProblemResult| -> usize {
        let nodes = result.tree.nodes().filter(|(_, node)| node.score.is_some());
        nodes.map(|(_, node)| node.tokens.len()).sum()
    };
    let once: usize = results.iter().map(scored).sum();
    assert_eq!(summary.ledger.scored_tokens as usize, once);
    assert!(summary.ledger.reused_tokens > summary.ledger.scored_tokens);
}

/// 11. A cost that stays 0.
#[test]
fn p11_every_sampled_token_is_in_the_ledger_of_its_problem() {
    for config in [beam(8, 2), best_of(8)] {
        let mut scripts = Scripted::random();
        let (results, summary) = scripts.solve(&config, problems(9));
        let mut sum = Ledger::default();
        for result in &results {
            let in_tree: usize = result.tree.nodes().map(|(_, n)| n.tokens.len()).sum();
            assert_eq!(result.ledger.generated_tokens as usize, in_tree);
            assert!(result.ledger.forward_passes > 0);
            assert!(result.ledger.score_passes > 0);
            assert!(result.ledger.peak_kv_bytes > 0);
            sum += &result.ledger;
        }
        let total = summary.ledger;
        assert_eq!(total.generated_tokens, sum.generated_tokens);
        assert_eq!(
            total.generated_tokens as usize,
            scripts.generator.tokens_sampled
        );
        assert_eq!(total.scored_tokens, sum.scored_tokens);
        assert_eq!(total.scored_tokens as usize, scripts.scorer.tokens_read);
        assert_eq!(total.reused_tokens, sum.reused_tokens);
        assert_eq!(total.prompt_tokens, sum.prompt_tokens);
        assert_eq!(total.forward_passes as usize, scripts.generator.passes);
        assert_eq!(total.score_passes as usize, scripts.scorer.calls);
        assert!(total.peak_kv_bytes > 0);
    }
}

/// 12. Starting a separate run for every N.
#[test]
fn p12_one_best_of_n_run_serves_every_smaller_n() {
    let solved = |n: usize, choose: Choose| {
        let mut scripts = Scripted::random();
        let config = SearchConfig {
            choose: Some(choose),
            max_steps: 12,
            ..best_of(n)
        };
        let mut results = scripts.solve(&config, problems(8)).0;
        // A vote does not ask for scores, so the scores of the large run are removed before the
        // comparison.
        if choose == Choose::Majority {
            for chain in results.iter_mut().flat_map(|result| &mut result.finished) {
                chain.score = None;
            }
        }
        results
    };
    for &choose in Choose::ALL {
        let large = solved(16, choose);
        for k in [1, 2, 5, 16] {
            for (small, large) in solved(k, choose).iter().zip(&large) {
                let chosen = large.choose_first(k, choose);
                let answer = chosen.and_then(|chain| chain.answer.clone());
                assert_eq!(answer, small.answer, "best of {k} by {choose}");
            }
        }
    }
}
