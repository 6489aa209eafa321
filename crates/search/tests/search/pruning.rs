//! The reasons in a tree for nodes that did not continue, and the rival answers in a result.

use beamgen_search::*;

use crate::scripted::*;

fn run(config: &SearchConfig, count: usize) -> Vec<ProblemResult> {
    let mut generator = ScriptedGenerator::new(random_said);
    let mut scorer = ScriptedScorer::new(random_score);
    solve(&mut generator, Some(&mut scorer), config, problems(count)).0
}

fn of(strategy: StrategyKind) -> SearchConfig {
    SearchConfig {
        strategy,
        n: 8,
        m: 2,
        ..SearchConfig::default()
    }
}

#[test]
fn every_pruned_node_says_why_and_every_duplicate_of_what() {
    let (mut pruned, mut duplicates) = (0, 0);
    for &strategy in StrategyKind::ALL {
        for result in run(&of(strategy), 8) {
            for (id, node) in result.tree.nodes() {
                let is_pruned = node.state == State::Pruned;
                assert_eq!(node.pruned.is_some(), is_pruned, "{strategy} {id:?}");
                pruned += usize::from(is_pruned);
                let is_duplicate = node.state == State::Duplicate;
                assert_eq!(node.duplicate_of.is_some(), is_duplicate, "{strategy}");
                let Some(twin) = node.duplicate_of else {
                    continue;
                };
                duplicates += 1;
                let twin = result.tree.node(twin);
                assert_eq!((&twin.text, twin.parent), (&node.text, node.parent));
                assert!(twin.copies > 1 && twin.duplicate_of.is_none());
            }
        }
    }
    assert!(pruned > 100 && duplicates > 10, "{pruned} {duplicates}");
}

#[test]
fn a_beam_prunes_what_ranks_below_its_cutoff() {
    let config = of(StrategyKind::BEAM);
    let mut seen = 0;
    for result in run(&config, 10) {
        for (id, node) in result.tree.nodes() {
            let Some(Pruned {
                reason: PruneReason::NotChosen,
                round: Some(round),
                rank: Some(rank),
                candidates: Some(candidates),
                cutoff: Some(cutoff),
            }) = node.pruned
            else {
                continue;
            };
            seen += 1;
            let score = result.tree.chain_score(id, config.aggregation).unwrap();
            assert!(score <= cutoff, "{score} is above {cutoff}");
            assert!(rank > 1 && rank <= candidates, "{rank} of {candidates}");
            // A step was requested in the round before it was pruned.
            assert_eq!(node.round, Some(round - 1));
            assert_eq!(node.depth + 1, round);
        }
    }
    assert!(seen > 20, "{seen}");
}

#[test]
fn what_the_budget_cuts_off_is_told_from_what_the_strategy_drops() {
    let config = SearchConfig {
        budget_tokens: 100,
        ..of(StrategyKind::BEAM)
    };
    let results = run(&config, 10);
    let reasons: Vec<PruneReason> = results
        .iter()
        .flat_map(|result| result.tree.nodes())
        .filter_map(|(_, node)| Some(node.pruned?.reason))
        .collect();
    assert!(reasons.contains(&PruneReason::Budget), "{reasons:?}");
    assert!(reasons.contains(&PruneReason::NotChosen), "{reasons:?}");
    let unlimited = run(&of(StrategyKind::BEAM), 10);
    let mut nodes = unlimited.iter().flat_map(|result| result.tree.nodes());
    assert!(nodes.all(|(_, node)| node.pruned.is_none_or(|p| p.reason != PruneReason::Budget)));
}

#[test]
fn only_strategies_that_work_in_rounds_count_them() {
    let rounds = |strategy| {
        let result = run(&of(strategy), 1).remove(0);
        let of_steps = result.tree.nodes().skip(1).map(|(_, node)| node.round);
        of_steps.collect::<Vec<_>>()
    };
    let beam = rounds(StrategyKind::BEAM);
    assert!(beam.iter().all(Option::is_some), "{beam:?}");
    let independent = rounds(StrategyKind::BEST_OF_N);
    assert!(independent.iter().all(Option::is_none), "{independent:?}");
}

#[test]
fn all_answers_are_listed_with_their_votes_the_chosen_one_first() {
    let mut rivals = 0;
    for &choose in Choose::ALL {
        let config = SearchConfig {
            choose: Some(choose),
            ..best_of(8)
        };
        for result in run(&config, 20) {
            let answers = &result.answers;
            assert_eq!(result.answer.is_some(), !answers.is_empty());
            let answering = |chain: &&FinishedChain| chain.answer.is_some();
            let chains = result.finished.iter().filter(answering);
            let votes: usize = chains.map(|chain| chain.copies).sum();
            assert_eq!(answers.iter().map(|a| a.votes).sum::<usize>(), votes);
            let Some(first) = answers.first() else {
                continue;
            };
            assert_eq!(Some(&first.answer), result.answer.as_ref());
            assert_eq!(Some(first.node), result.chosen);
            let losers = &answers[1..];
            rivals += losers.len();
            assert!(losers.is_sorted_by(|a, b| a.votes >= b.votes));
            for loser in losers {
                match choose {
                    Choose::Best => assert!(loser.score <= first.score),
                    Choose::Majority => assert!(loser.votes <= first.votes),
                    Choose::Weighted => assert!(loser.weight <= first.weight),
                }
            }
        }
    }
    assert!(rivals > 20, "{rivals}");
}
