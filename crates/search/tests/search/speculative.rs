//! Speculative extension gives the same results, bit for bit, as a search without it.

use beamgen_search::*;

use crate::scripted::*;

fn run(config: &SearchConfig, capacity: usize, count: usize) -> (Vec<ProblemResult>, RunSummary) {
    let mut generator = ScriptedGenerator::new(random_said).with_capacity(capacity);
    let mut scorer = ScriptedScorer::new(random_score);
    let solved = solve(&mut generator, Some(&mut scorer), config, problems(count));
    assert_eq!((generator.chains_held(), scorer.chains_held()), (0, 0));
    let tokens = solved.1.ledger.generated_tokens as usize;
    assert_eq!(tokens, generator.tokens_sampled);
    if solved.1.restarts == 0 {
        let reused: u64 = solved.0.iter().map(|r| r.ledger.reused_tokens).sum();
        assert_eq!(solved.1.ledger.reused_tokens, reused);
    }
    solved
}

fn ahead(config: &SearchConfig) -> SearchConfig {
    SearchConfig {
        speculate: true,
        ..config.clone()
    }
}

fn configs() -> [SearchConfig; 4] {
    let rejecting = SearchConfig {
        early_rejection: 3,
        ..beam(8, 2)
    };
    [beam(8, 2), beam(5, 1), beam(16, 4), rejecting]
}

#[test]
fn the_chains_are_those_of_the_plain_strategy() {
    for config in configs() {
        let (plain, _) = run(&config, usize::MAX, 30);
        let (early, _) = run(&ahead(&config), usize::MAX, 30);
        for (a, b) in plain.iter().zip(&early) {
            assert_eq!(
                (&a.tree, &a.finished, a.chosen),
                (&b.tree, &b.finished, b.chosen)
            );
            assert_eq!(a.ledger.scored_tokens, b.ledger.scored_tokens);
            assert_eq!(a.ledger.reused_tokens, b.ledger.reused_tokens);
            assert!(a.ledger.generated_tokens <= b.ledger.generated_tokens);
        }
    }
}

#[test]
fn a_problem_alone_needs_fewer_passes_and_pays_in_tokens() {
    let alone = SearchConfig {
        in_flight: 1,
        ..beam(8, 2)
    };
    let (plain, _) = run(&alone, usize::MAX, 20);
    let (early, _) = run(&ahead(&alone), usize::MAX, 20);
    let sum = |results: &[ProblemResult]| {
        let mut sum = Ledger::default();
        for result in results {
            sum += &result.ledger;
        }
        sum
    };
    for (a, b) in plain.iter().zip(&early) {
        assert!(b.ledger.forward_passes <= a.ledger.forward_passes);
    }
    let (plain, early) = (sum(&plain), sum(&early));
    assert!(early.forward_passes < plain.forward_passes);
    assert!(early.generated_tokens > plain.generated_tokens);
}

#[test]
fn what_is_written_ahead_never_takes_memory_from_what_is_asked_for() {
    let mut compared = 0;
    for config in configs() {
        for capacity in (0..400).step_by(8) {
            let (plain, _) = run(&config, capacity, 6);
            let (early, _) = run(&ahead(&config), capacity, 6);
            let lacks = |c: &FinishedChain| c.finish == Finish::NoMemory;
            for (a, b) in plain.iter().zip(&early) {
                // A problem that does not fit into memory by itself loses chains, possibly others
                // than without speculation.
                if !a.finished.iter().any(lacks) {
                    assert!(a.tree == b.tree, "capacity {capacity}");
                    compared += 1;
                }
            }
        }
    }
    assert!(compared > 100, "{compared}");
}
