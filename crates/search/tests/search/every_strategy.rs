//! Properties of every strategy: limits on chains and tokens are kept, results do not depend on the
//! problems in flight, and every search ends, whatever the memory.

use std::ops::ControlFlow;

use beamgen_search::*;

use crate::scripted::*;

/// Returns each strategy by itself, and with each setting that can be combined with it.
pub(crate) fn configs() -> Vec<SearchConfig> {
    let mut configs: Vec<SearchConfig> = StrategyKind::ALL
        .iter()
        .map(|&strategy| SearchConfig {
            strategy,
            n: 8,
            m: 3,
            ..SearchConfig::default()
        })
        .collect();
    for plain in configs.clone() {
        for (early_rejection, speculate) in [(3, false), (0, true), (3, true)] {
            let combined = SearchConfig {
                early_rejection,
                speculate,
                ..plain.clone()
            };
            if combined.validate().is_ok() {
                configs.push(combined);
            }
        }
        for (value, weight) in [
            (RolloutValue::Vote, 0.5),
            (RolloutValue::Vote, 1.0),
            (RolloutValue::Prm, 1.0),
        ]
        .into_iter()
        .take(if plain.strategy == StrategyKind::BEAM {
            3
        } else {
            1
        }) {
            let combined = SearchConfig {
                rollouts: Some(RolloutsConfig {
                    count: 2,
                    value,
                    weight,
                }),
                ..plain.clone()
            };
            if combined.validate().is_ok() {
                configs.push(combined);
            }
        }
    }
    configs
}

/// Returns the settings of [`configs`] that can have a token budget.
fn with_budget(budget_tokens: usize) -> impl Iterator<Item = SearchConfig> {
    let limited = configs().into_iter().map(move |config| SearchConfig {
        budget_tokens,
        ..config
    });
    limited.filter(|config| config.validate().is_ok())
}

#[test]
fn no_search_costs_more_than_its_bound() {
    let generator = GeneratorConfig {
        // The scripted chains are short, so the bounds are those of short steps and chains.
        max_step_tokens: MAX_STEP,
        max_chain_tokens: 6 * MAX_STEP,
        ..GeneratorConfig::default()
    };
    for config in configs() {
        let config = SearchConfig {
            max_steps: 6,
            ..config
        };
        let most = Most::of(&config, &generator);
        for result in run_in(&config, 10_000, 12).results {
            let spent = &result.ledger;
            let steps = result.tree.len() as u64 - 1;
            assert!(steps <= most.steps, "{}: {steps} {most:?}", name(&config));
            assert!(
                spent.generated_tokens <= most.tokens,
                "{}: {most:?}",
                name(&config)
            );
        }
        let limited = SearchConfig {
            budget_tokens: 90,
            ..config
        };
        let tokens = Most::of(&limited, &generator).tokens;
        assert_eq!(tokens, most.tokens.min(90));
    }
}

fn name(config: &SearchConfig) -> String {
    let SearchConfig {
        strategy,
        early_rejection,
        speculate,
        rollouts,
        ..
    } = config;
    format!("{strategy} {early_rejection} {speculate} {rollouts:?}")
}

struct Run {
    results: Vec<ProblemResult>,
    /// The largest number of open, paused and growing nodes that one problem had at once.
    live_chains: usize,
    /// The largest number of rows in a pass.
    rows: usize,
}

fn run_in(config: &SearchConfig, capacity: usize, count: usize) -> Run {
    run_on(config, capacity, &problems(count))
}

fn run_on(config: &SearchConfig, capacity: usize, problems: &[Problem]) -> Run {
    let mut generator = ScriptedGenerator::new(random_said).with_capacity(capacity);
    let mut scorer = ScriptedScorer::new(random_score);
    let models = Models {
        verifier: None,
        generator: &mut generator,
        scorer: Some(&mut scorer),
        answers: &Stated,
        clock: &StoppedClock,
    };
    let mut results = Vec::new();
    let mut live_chains = 0;
    let mut observe = |event: Event<'_>| {
        if let Event::Chain {
            tree,
            what: ChainEvent::Closed,
            ..
        } = event
        {
            let live = tree.nodes().skip(1).filter(|(_, node)| {
                !node.is_rollout
                    && matches!(node.state, State::Open | State::Paused | State::Growing)
            });
            live_chains = live.count().max(live_chains);
        }
    };
    let summary = run(
        models,
        config,
        problems.to_vec(),
        &mut observe,
        &mut |result| {
            results.push(result);
            ControlFlow::Continue(())
        },
    )
    .unwrap();
    results.sort_by_key(|result| result.index);
    assert_eq!(results.len(), problems.len(), "{}", name(config));
    let held = (generator.chains_held(), scorer.chains_held());
    assert_eq!(held, (0, 0), "{}", name(config));
    let spent = summary.ledger;
    assert_eq!(spent.generated_tokens as usize, generator.tokens_sampled);
    assert_eq!(spent.scored_tokens as usize, scorer.tokens_read);
    Run {
        results,
        live_chains,
        rows: generator.rows.iter().copied().max().unwrap_or(0),
    }
}

#[test]
fn never_more_chains_than_n() {
    for config in configs() {
        let alone = SearchConfig {
            in_flight: 1,
            ..config
        };
        let run = run_in(&alone, usize::MAX, 15);
        assert!(
            run.live_chains <= alone.n,
            "{}: {}",
            name(&alone),
            run.live_chains
        );
        // Rollouts are not chains of the strategy.
        if alone.rolls_out() {
            continue;
        }
        // A speculative step is a row of the pass, but not a chain yet.
        let most = if alone.speculate {
            2 * alone.n
        } else {
            alone.n
        };
        assert!(run.rows <= most, "{}: {} rows", name(&alone), run.rows);
    }
}

#[test]
fn never_a_token_above_the_budget() {
    for config in with_budget(1) {
        let mut reached = 0;
        for budget_tokens in [1, 2, 7, 20, 50, 90, 150] {
            let limited = SearchConfig {
                budget_tokens,
                ..config.clone()
            };
            for result in run_in(&limited, usize::MAX, 6).results {
                let spent = result.ledger.generated_tokens as usize;
                assert!(
                    spent <= budget_tokens,
                    "{}: {spent} of {budget_tokens}",
                    name(&config)
                );
                reached += usize::from(spent == budget_tokens);
            }
        }
        assert!(reached > 0, "{} never reached a budget", name(&config));
    }
}

#[test]
fn a_budget_gives_the_same_result_whatever_else_is_in_flight() {
    for limited in with_budget(60) {
        same_whatever_is_in_flight(&limited, usize::MAX, &problems(12));
    }
}

#[test]
fn the_same_result_whatever_else_is_in_flight() {
    for config in configs() {
        same_whatever_is_in_flight(&config, usize::MAX, &problems(12));
    }
}

#[test]
fn the_same_result_when_memory_is_for_one_or_two_only() {
    for config in configs() {
        same_whatever_is_in_flight(&config, 1500, &problems(12));
    }
}

pub(crate) fn same_whatever_is_in_flight(
    config: &SearchConfig,
    capacity: usize,
    problems: &[Problem],
) {
    let with = |in_flight| {
        let config = SearchConfig {
            in_flight,
            ..config.clone()
        };
        run_on(&config, capacity, problems).results
    };
    let alone = with(1);
    for in_flight in [3, 12] {
        for (a, b) in alone.iter().zip(&with(in_flight)) {
            assert!(a.tree == b.tree, "{} {in_flight}", name(config));
            assert_eq!(
                (&a.finished, &a.answer),
                (&b.finished, &b.answer),
                "{}",
                name(config)
            );
        }
    }
}

/// If memory changes a result, the result says that memory was short, even if the strategy dropped
/// the lost chains.
#[test]
fn short_of_memory_a_result_is_the_same_or_marked() {
    for mut config in configs() {
        // Set explicitly: the default is the size of the memory, which would change the search
        // itself.
        config.speculative_rejection.memory_tokens = 60;
        let plenty = run_in(&config, usize::MAX, 12).results;
        let (mut marked, mut same) = (0, 0);
        for capacity in [40, 80, 120, 160, 240, 400] {
            for (a, b) in plenty.iter().zip(&run_in(&config, capacity, 12).results) {
                if b.lost_to_memory > 0 {
                    marked += 1;
                    continue;
                }
                same += 1;
                assert!(a.tree == b.tree, "{}, {capacity} tokens", name(&config));
                assert_eq!(
                    (&a.finished, &a.answer, a.score),
                    (&b.finished, &b.answer, b.score),
                    "{}, {capacity} tokens",
                    name(&config)
                );
            }
        }
        let some = marked > 0 && same > 0;
        assert!(some, "{}: {marked} marked, {same} same", name(&config));
    }
}

#[test]
fn whatever_the_memory_every_problem_ends() {
    for config in configs() {
        let mut answered = 0;
        for capacity in (0..240).step_by(12) {
            let run = run_in(&config, capacity, 8);
            answered += run.results.iter().filter(|r| r.answer.is_some()).count();
        }
        // Not all of the 160 problems: the script itself cuts some chains short.
        assert!(answered > 40, "{}: {answered} of 160", name(&config));
    }
}

#[test]
fn nothing_is_stored_twice_and_every_token_is_charged() {
    for config in configs().iter().filter(|config| !config.speculate) {
        for result in run_in(config, usize::MAX, 10).results {
            let stored: usize = result.tree.nodes().map(|(_, node)| node.tokens.len()).sum();
            let charged = result.ledger.generated_tokens as usize;
            // A step dropped in the middle is charged but not stored in the tree.
            assert!(stored <= charged, "{}", name(config));
        }
    }
}

#[test]
fn complete_chains_are_scored_step_by_step() {
    // With rollouts, a score is mixed with a value or is one.
    let scored = |config: &SearchConfig| config.uses_scores() && !config.rolls_out();
    for config in configs().iter().filter(|config| scored(config)) {
        for result in run_in(config, usize::MAX, 10).results {
            for chain in result.finished.iter().filter(|c| c.finish.is_complete()) {
                for node in result.tree.steps(chain.node) {
                    let before = result.tree.text(node.parent.unwrap());
                    let score = random_score(&result.problem, &before, &node.text);
                    assert_eq!(node.score, Some(score), "{}", name(config));
                }
            }
        }
    }
}
