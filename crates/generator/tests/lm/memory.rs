//! Promises of memory hold: a pass never runs out, and little memory changes no chain.

use beamgen_search::*;

use crate::runs::*;

#[test]
fn every_budget_ends_and_gives_everything_back() {
    let mut short = 0;
    for config in [beam(6, 2, 3), best_of(6, 3)] {
        for pages in (1..60).step_by(2).chain([80, 120]) {
            let mut generator = generator(pages, settings());
            let (results, _) = solve(&mut generator, &config, problems(6));
            assert!(generator.engine().is_empty());
            short += results
                .iter()
                .flat_map(|result| &result.finished)
                .filter(|chain| chain.finish == Finish::NoMemory)
                .count();
        }
    }
    assert!(short > 0);
}

#[test]
fn chains_that_wait_for_memory_are_the_same_chains() {
    let config = beam(8, 4, 1);
    let (roomy, _) = solve(&mut generator(20_000, settings()), &config, problems(10));
    let mut waited = false;
    for pages in [40, 50, 60, 70] {
        for in_flight in [1, 3, 10] {
            let config = SearchConfig {
                in_flight,
                ..config.clone()
            };
            let mut generator = generator(pages, settings());
            let (tight, summary) = solve(&mut generator, &config, problems(10));
            for (a, b) in roomy.iter().zip(&tight) {
                let starved = b.finished.iter().any(|c| c.finish == Finish::NoMemory);
                assert!(
                    starved || a.tree == b.tree,
                    "{pages} pages, {in_flight} in flight"
                );
            }
            let passes = |results: &[ProblemResult]| -> u64 {
                results.iter().map(|r| r.ledger.forward_passes).sum()
            };
            waited |= summary.restarts > 0 || passes(&tight) > passes(&roomy);
        }
    }
    assert!(waited, "memory was never short");
}

/// A problem without others in flight first forgets the caches of idle chains, and then gives up
/// chains.
#[test]
fn memory_for_one_chain_is_enough_for_all() {
    for config in [beam(8, 4, 1), best_of(8, 1)] {
        let mut all = generator(20_000, settings());
        let (roomy, _) = solve(&mut all, &config, problems(6));
        let (mut again, mut marked) = (0, 0);
        for pages in (10..60).step_by(5) {
            let mut generator = generator(pages, settings());
            let (tight, summary) = solve(&mut generator, &config, problems(6));
            assert!(generator.engine().is_empty());
            for (a, b) in roomy.iter().zip(&tight) {
                assert!(b.lost_to_memory > 0 || a.tree == b.tree, "{pages} pages");
                marked += usize::from(b.lost_to_memory > 0);
            }
            let read_again = generator.tokens_read() > all.tokens_read();
            if tight.iter().all(|r| r.lost_to_memory == 0) {
                again += usize::from(read_again);
                let (ran, least) = (summary.ledger.executed, summary.ledger.least);
                assert!(ran.generate >= least.generate);
                assert_eq!(ran.generate > least.generate, read_again, "{pages} pages");
            }
        }
        assert!(again > 0 && marked > 0, "{again} {marked}");
    }
}

/// Strategies that expand a node twice start from kept logits, or read the last token again.
#[test]
fn forgotten_logits_are_computed_again_and_are_the_same() {
    for strategy in [
        StrategyKind::LOOKAHEAD,
        StrategyKind::REFINE,
        StrategyKind::MCTS,
        StrategyKind::BEAM,
    ] {
        let config = SearchConfig {
            strategy,
            speculate: strategy == StrategyKind::BEAM,
            ..beam(8, 2, 4)
        };
        let solved = |pages, bytes| {
            let mut generator = generator(pages, settings());
            generator.limit_kept_logits(bytes);
            let (results, _) = solve(&mut generator, &config, problems(8));
            assert!(generator.engine().is_empty());
            let trees: Vec<_> = results.into_iter().map(|r| r.tree).collect();
            (trees, generator.tokens_read())
        };
        let (kept, read) = solved(20_000, usize::MAX);
        let (forgotten, more) = solved(20_000, 0);
        assert!(kept == forgotten, "{strategy}");
        assert!(more >= read, "{strategy}");
        if strategy == StrategyKind::REFINE {
            assert!(more > read);
        }
        // Reserved memory must be enough also if logits are forgotten and memory is short.
        for pages in (20..200).step_by(20) {
            solved(pages, 0);
            solved(pages, 500);
        }
    }
}
