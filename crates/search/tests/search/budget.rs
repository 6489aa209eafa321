//! Token budgets are never exceeded, votes may be decided early, and answers may be withheld.

use beamgen_search::*;

use crate::scripted::*;

fn run(config: &SearchConfig, count: usize) -> Vec<ProblemResult> {
    let mut generator = ScriptedGenerator::new(random_said);
    let mut scorer = ScriptedScorer::new(random_score);
    let (results, _) = solve(&mut generator, Some(&mut scorer), config, problems(count));
    assert_eq!((generator.chains_held(), scorer.chains_held()), (0, 0));
    results
}

fn within(config: &SearchConfig, tokens: usize) -> SearchConfig {
    SearchConfig {
        budget_tokens: tokens,
        ..config.clone()
    }
}

#[test]
fn a_budget_that_is_not_reached_changes_nothing() {
    for config in [beam(8, 2), best_of(6)] {
        let plain = run(&config, 10);
        let limited = run(&within(&config, 1_000_000), 10);
        for (a, b) in plain.iter().zip(&limited) {
            // Under a budget, best-of-N works in rounds, and the tree records the round of each
            // step. So `round` is not compared.
            let steps = |r: &ProblemResult| -> Vec<(Vec<u32>, String, Option<f32>, State)> {
                let nodes = r.tree.nodes();
                nodes
                    .map(|(_, n)| (n.tokens.clone(), n.text.clone(), n.score, n.state))
                    .collect()
            };
            assert_eq!(steps(a), steps(b));
        }
    }
}

#[test]
fn chains_cut_by_the_budget_are_not_complete() {
    let results = run(&within(&best_of(4), 5), 10);
    let cut = |chain: &&FinishedChain| chain.finish == Finish::Budget;
    let cut: Vec<_> = results
        .iter()
        .flat_map(|r| &r.finished)
        .filter(cut)
        .collect();
    assert!(!cut.is_empty());
    assert!(cut.iter().all(|chain| chain.answer.is_none()));
}

#[test]
fn a_beam_spends_its_last_tokens_on_the_best() {
    let fixed = |place: &Place<'_>| match place.depth {
        0..4 => Said::step(format!("{}\n", place.index)),
        _ => Said::answer(1),
    };
    let solve_in = |tokens| {
        let mut generator = ScriptedGenerator::new(fixed);
        let mut scorer = ScriptedScorer::new(random_score);
        let config = within(&beam(8, 4), tokens);
        solve(&mut generator, Some(&mut scorer), &config, problems(1))
            .0
            .remove(0)
    };
    // The chains have five steps of three tokens. Before the first step the need of a chain is
    // estimated at 140 tokens, so a single chain begins. Then it is estimated at 30, ten steps of
    // that length. After its fifth step the chain has an answer.
    let result = solve_in(15);
    assert_eq!(result.ledger.generated_tokens, 15);
    assert!(result.answer.is_some());
    assert!(solve_in(14).answer.is_none());
    // Tokens beyond the need of one chain go to more chains.
    let widest = |tokens| {
        let tree = solve_in(tokens).tree;
        let width = |depth| tree.nodes().filter(|(_, node)| node.depth == depth).count();
        (1..=5).map(width).max()
    };
    assert_eq!(widest(50), Some(2));
    assert_eq!(widest(1000), Some(8));
}

#[test]
fn samples_under_a_budget_are_as_many_as_can_end() {
    let answered = |config: &SearchConfig| {
        let results = run(config, 40);
        results.iter().filter(|r| r.answer.is_some()).count()
    };
    let few = answered(&best_of(2));
    for tokens in [50, 100] {
        let limited = answered(&within(&best_of(32), tokens));
        assert!(
            2 * limited >= few,
            "{limited} of 40 with {tokens} tokens, {few} with two chains"
        );
    }
}

fn majority(n: usize, consensus: bool) -> SearchConfig {
    SearchConfig {
        choose: Some(Choose::Majority),
        consensus,
        ..best_of(n)
    }
}

#[test]
fn a_vote_that_is_decided_ends_with_the_same_answer() {
    let mut saved = 0;
    for n in [1, 2, 5, 16] {
        let all = run(&majority(n, false), 40);
        let stopped = run(&majority(n, true), 40);
        for (a, b) in all.iter().zip(&stopped) {
            let class = |r: &ProblemResult| r.answer.as_deref().map(|a| Stated.class(a));
            if b.tree.nodes().all(|(_, n)| n.state != State::Pruned) {
                // Only the search with `consensus` works in rounds, so the recorded rounds differ
                // and are not compared.
                let steps = |r: &ProblemResult| -> Vec<(Vec<u32>, State)> {
                    let nodes = r.tree.nodes();
                    nodes.map(|(_, n)| (n.tokens.clone(), n.state)).collect()
                };
                assert_eq!(steps(a), steps(b));
            }
            assert_eq!(class(a), class(b));
            assert!(b.ledger.generated_tokens <= a.ledger.generated_tokens);
            saved += a.ledger.generated_tokens - b.ledger.generated_tokens;
        }
    }
    assert!(saved > 0);
}

#[test]
fn a_unanimous_vote_needs_little_more_than_half() {
    let mut generator = ScriptedGenerator::new(|place| match place.depth {
        depth if depth < place.stream as usize % 12 => Said::step("on\n"),
        _ => Said::answer(7),
    });
    let config = majority(32, true);
    let (results, _) = solve(&mut generator, None, &config, problems(4));
    for result in results {
        assert_eq!(result.answer.as_deref(), Some("7"));
        let complete = result
            .finished
            .iter()
            .filter(|c| c.finish.is_complete())
            .count();
        assert!((17..32).contains(&complete), "{complete}");
    }
}

#[test]
fn an_answer_below_the_threshold_is_withheld_and_still_told() {
    let open = run(&beam(8, 2), 30);
    let scores: Vec<f32> = open.iter().filter_map(|r| r.score).collect();
    let threshold = scores.iter().sum::<f32>() / scores.len() as f32;
    let config = SearchConfig {
        threshold,
        ..beam(8, 2)
    };
    let strict = run(&config, 30);
    let mut withheld = 0;
    for (a, b) in open.iter().zip(&strict) {
        assert_eq!(a.tree, b.tree);
        let is_sure = a.score.is_some_and(|score| score >= threshold);
        let (given, kept) = if is_sure {
            (&b.answer, &b.withheld)
        } else {
            (&b.withheld, &b.answer)
        };
        assert_eq!((given, kept), (&a.answer, &None));
        withheld += usize::from(b.withheld.is_some());
    }
    assert!(0 < withheld && withheld < 30, "{withheld}");
}

#[test]
fn equal_beginnings_are_read_once() {
    // All chains have the same text and the same tokens.
    let mut generator = ScriptedGenerator::new(|place| {
        let mut said = random_said(place);
        said.tokens = 1 + said.text.len() % MAX_STEP;
        said
    });
    let mut scorer = ScriptedScorer::new(random_score);
    let (results, summary) = solve(&mut generator, Some(&mut scorer), &best_of(64), problems(5));
    assert!(scorer.reads.values().all(|&reads| reads == 1));
    let complete = |r: &ProblemResult| -> usize {
        let chains = r.finished.iter().filter(|c| c.finish.is_complete());
        chains
            .map(|c| r.tree.steps(c.node).map(|n| n.tokens.len()).sum::<usize>())
            .sum()
    };
    let sum: usize = results.iter().map(complete).sum();
    assert!((summary.ledger.scored_tokens as usize) < sum);
    // Every chain still has its own scores.
    for result in &results {
        for chain in result.finished.iter().filter(|c| c.finish.is_complete()) {
            for id in result.tree.path(chain.node) {
                let node = result.tree.node(id);
                let before = result.tree.text(node.parent.unwrap());
                let score = random_score(&result.problem, &before, &node.text);
                assert_eq!(node.score, (!node.is_empty_step()).then_some(score));
            }
        }
    }
}
