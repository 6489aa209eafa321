//! Every strategy on the bundled pair: what the scripted tests of `search` hold, with real caches.

use beamgen::strategy::{Finish, RolloutsConfig};
use beamgen::{Config, Problem, ProblemResult, Solver, StrategyKind, bundled};

fn sample(count: usize) -> Vec<Problem> {
    let mut problems = bundled::sample().expect("the sample").problems;
    problems.truncate(count);
    problems
}

/// N = 8, M = 4, each strategy, and some that can be combined with early rejection, speculation or
/// rollouts. The scripted tests of `search` have all combinations.
fn configs() -> Vec<Config> {
    let mut configs = Vec::new();
    for &strategy in StrategyKind::ALL {
        for (early_rejection, speculate, rollouts) in [
            (0, false, 0),
            (11, false, 0),
            (0, true, 0),
            (11, true, 0),
            (0, false, 2),
        ] {
            let mut config = Config::default();
            let search = &mut config.search;
            (search.n, search.m) = (8, 4);
            search.strategy = strategy;
            search.early_rejection = early_rejection;
            search.speculate = speculate;
            search.rollouts = (rollouts > 0).then(|| RolloutsConfig {
                count: rollouts,
                weight: 0.5,
                ..RolloutsConfig::default()
            });
            search.speculative_rejection.memory_tokens = 400;
            let is_plain = !speculate && rollouts == 0;
            let some = [StrategyKind::BEAM, StrategyKind::DVTS, StrategyKind::MCTS];
            if config.check().is_ok() && (is_plain || some.contains(&strategy)) {
                configs.push(config);
            }
        }
    }
    assert!(configs.len() > StrategyKind::ALL.len());
    configs
}

fn solve(config: &Config, count: usize) -> Vec<ProblemResult> {
    let mut solver = Solver::builder()
        .config(config.clone())
        .build()
        .expect("models");
    let mut results = Vec::new();
    solver
        .solve_all(sample(count), |result| results.push(result))
        .expect("a run");
    results.sort_by_key(|result| result.index);
    results
}

fn name(config: &Config) -> String {
    let search = &config.search;
    let (tau, ahead, rollouts) = (search.early_rejection, search.speculate, search.rolls_out());
    format!(
        "{}, tau {tau}, ahead {ahead}, rollouts {rollouts}",
        search.strategy
    )
}

#[test]
fn the_same_chains_whatever_else_is_in_flight() {
    for config in configs() {
        let in_flight = |count| {
            let mut config = config.clone();
            config.search.in_flight = count;
            solve(&config, 4)
        };
        let (alone, together) = (in_flight(1), in_flight(4));
        assert!(
            alone.iter().filter(|r| r.answer.is_some()).count() >= 2,
            "{}",
            name(&config)
        );
        for (a, b) in alone.iter().zip(&together) {
            assert!(a.tree == b.tree, "{}", name(&config));
            assert_eq!(
                (&a.answer, a.score),
                (&b.answer, b.score),
                "{}",
                name(&config)
            );
        }
    }
}

#[test]
fn steps_written_ahead_change_no_bit() {
    for ahead in configs().iter().filter(|config| config.search.speculate) {
        let mut plain = ahead.clone();
        plain.search.speculate = false;
        for (a, b) in solve(&plain, 4).iter().zip(&solve(ahead, 4)) {
            assert!(a.tree == b.tree, "{}", name(ahead));
            assert_eq!(
                (&a.answer, a.score),
                (&b.answer, b.score),
                "{}",
                name(ahead)
            );
        }
    }
}

#[test]
fn never_a_token_above_the_budget() {
    for mut config in configs()
        .into_iter()
        .filter(|config| !config.search.rolls_out())
    {
        for budget in [40, 250] {
            config.search.budget_tokens = budget;
            for result in solve(&config, 3) {
                let spent = result.ledger.generated_tokens;
                assert!(
                    spent <= budget as u64,
                    "{}: {spent} of {budget}",
                    name(&config)
                );
            }
        }
    }
}

#[test]
fn little_memory_is_no_error_and_still_answers() {
    for mut config in configs() {
        // 1600 tokens, when each step in the making is promised 256.
        config.engine.kv_bytes = budget(1600);
        let mut answered = 0;
        for result in solve(&config, 4) {
            assert_eq!(result.error, None, "{}", name(&config));
            answered += usize::from(result.answer.is_some());
            let complete = |f: Finish| f.is_complete();
            assert!(
                result.answer.is_none() || result.finished.iter().any(|c| complete(c.finish)),
                "{}",
                name(&config)
            );
        }
        assert!(answered >= 2, "{}: {answered} of 4", name(&config));
    }
}

/// A budget of which the reward model's own part is room for one chain, and the generator's for so
/// many tokens.
fn budget(tokens: usize) -> usize {
    let of_a_token = |layers: usize| layers * 2 * 128 * 4;
    (512 + 32) * of_a_token(6) + tokens * of_a_token(4)
}

fn solve_within(config: &Config, kv_bytes: usize, in_flight: usize) -> Vec<ProblemResult> {
    let mut config = config.clone();
    config.engine.kv_bytes = kv_bytes;
    config.search.in_flight = in_flight;
    solve(&config, PROBLEMS)
}

const PROBLEMS: usize = 4;

/// Generator and reward model share one budget: whoever holds it at a time, the chains are the
/// same.
#[test]
fn the_same_chains_whatever_the_memory() {
    let (mut short, mut whole, mut again) = (0, 0, 0);
    // A third of the sizes for each, in turn; the scripted test of `search` has all of them.
    let sizes = [300, 600, 900, 1200, 2000, 3000];
    for (turn, config) in configs().into_iter().enumerate() {
        let roomy = solve_within(&config, 1 << 30, PROBLEMS);
        for &tokens in sizes.iter().skip(turn % 3).step_by(3) {
            let bytes = budget(tokens);
            let tight = solve_within(&config, bytes, PROBLEMS);
            let alone = solve_within(&config, bytes, 1);
            for ((roomy, tight), alone) in roomy.iter().zip(&tight).zip(&alone) {
                let starved = tight.lost_to_memory > 0;
                let what = format!("{}, {tokens} tokens", name(&config));
                assert_eq!(tight.error, None, "{what}");
                let same = |other: &ProblemResult| {
                    assert!(tight.tree == other.tree, "{what}");
                    assert_eq!(
                        (&tight.answer, tight.score),
                        (&other.answer, other.score),
                        "{what}"
                    );
                };
                // What is given up where a problem does not fit even alone may depend on what was
                // written ahead.
                if !(config.search.speculate && starved) {
                    same(alone);
                }
                if !starved {
                    same(roomy);
                }
                short += usize::from(starved);
                whole += usize::from(!starved);
                let scored = |result: &ProblemResult| result.ledger.scored_tokens;
                again += usize::from(!starved && scored(tight) > scored(roomy));
            }
        }
    }
    // Memory was short, it was enough, and it was enough because the scorer gave what it had
    // borrowed back.
    let seen = [short, whole, again];
    assert!(seen.iter().all(|&count| count > 0), "{seen:?}");
}

/// Down to a page for each model.
#[test]
fn next_to_no_memory_is_no_error() {
    let mut answered = 0;
    for mut config in configs() {
        for bytes in [200_000, 1_500_000, 4_000_000] {
            config.engine.kv_bytes = bytes;
            for result in solve(&config, 2) {
                assert_eq!(result.error, None, "{}, {bytes}", name(&config));
                answered += usize::from(result.answer.is_some());
            }
        }
    }
    assert!(answered > 0);
}

/// A budget is spent on chains that come to their end: 600 tokens are as good as four chains
/// without a limit.
#[test]
fn a_token_budget_narrows_the_search_and_chains_still_end() {
    let right = |n: usize, strategy: StrategyKind, budget_tokens: usize| {
        let mut config = Config::default();
        config.search.strategy = strategy;
        config.search.n = n;
        config.search.budget_tokens = budget_tokens;
        let results = solve(&config, usize::MAX);
        results
            .iter()
            .filter(|result| result.answer.is_some() && result.answer == result.problem.answer)
            .count()
    };
    // Without narrowing a beam of 16 spends the budget before its chains end: 7 of 40 right.
    let narrow = right(4, StrategyKind::BEAM, 0);
    for (n, at_least) in [(16, narrow), (64, 3 * narrow / 4)] {
        let limited = right(n, StrategyKind::BEAM, 600);
        assert!(
            limited >= at_least,
            "n = {n}: {limited} right, {narrow} with n = 4"
        );
    }
    let one = right(1, StrategyKind::BEST_OF_N, 0);
    let limited = right(16, StrategyKind::BEST_OF_N, 600);
    assert!(
        limited >= one,
        "best-of-n: {limited} right, {one} with one chain"
    );
}
