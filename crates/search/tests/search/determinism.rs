//! The result of a problem does not depend on the other problems in flight.

use beamgen_search::*;

use crate::scripted::*;

/// Returns a result as text, without its times, which differ from run to run.
fn essence(mut result: ProblemResult) -> String {
    result.ledger.seconds = Seconds::default();
    format!("{result:?}")
}

fn outcomes(config: &SearchConfig, in_flight: usize, capacity: usize) -> Vec<String> {
    let config = SearchConfig {
        in_flight,
        max_steps: 9,
        ..config.clone()
    };
    let mut generator = ScriptedGenerator::new(random_said).with_capacity(capacity);
    let mut scorer = ScriptedScorer::new(random_score);
    let (results, _) = solve(&mut generator, Some(&mut scorer), &config, problems(60));
    assert_eq!((generator.chains_held(), scorer.chains_held()), (0, 0));
    results.into_iter().map(essence).collect()
}

fn all_configs() -> Vec<SearchConfig> {
    let mut configs = vec![beam(16, 4), beam(7, 3), beam(4, 4), beam(1, 1), best_of(8)];
    configs.push(SearchConfig {
        choose: Some(Choose::Weighted),
        aggregation: Aggregation::Product,
        ..best_of(5)
    });
    configs.push(SearchConfig {
        choose: Some(Choose::Majority),
        ..beam(9, 2)
    });
    configs.push(SearchConfig {
        strategy: StrategyKind::GREEDY,
        ..SearchConfig::default()
    });
    configs
}

#[test]
fn one_seven_and_sixty_four_in_flight_give_the_same() {
    for config in all_configs() {
        let alone = outcomes(&config, 1, usize::MAX);
        for in_flight in [7, 64] {
            assert!(
                outcomes(&config, in_flight, usize::MAX) == alone,
                "{in_flight} in flight: {config:?}"
            );
        }
    }
}

/// Steps that wait for memory may be in other passes, but trees and answers must not differ.
#[test]
fn a_beam_short_of_memory_gives_the_same_in_any_company() {
    let trees = |in_flight, capacity| {
        let config = SearchConfig {
            in_flight,
            max_steps: 9,
            ..beam(8, 4)
        };
        let mut generator = ScriptedGenerator::new(random_said).with_capacity(capacity);
        let mut scorer = ScriptedScorer::new(random_score);
        let (results, summary) = solve(&mut generator, Some(&mut scorer), &config, problems(30));
        let trees: Vec<_> = results
            .into_iter()
            .map(|result| (result.tree, result.answer, result.score))
            .collect();
        (trees, summary.restarts)
    };
    let mut restarts = 0;
    for capacity in [18, 40, 60, 90, 130, 200, 400] {
        let (alone, none) = trees(1, capacity);
        assert_eq!(none, 0);
        for in_flight in [2, 7, 64] {
            let (together, restarted) = trees(in_flight, capacity);
            assert!(together == alone, "{in_flight} in flight, {capacity} cells");
            restarts += restarted;
        }
    }
    assert!(restarts > 0, "memory was never short");
}

#[test]
fn a_problem_twice_in_the_input_is_two_problems_with_one_result() {
    let twice = vec![problems(1).remove(0), problems(1).remove(0)];
    let mut generator = ScriptedGenerator::new(random_said);
    let mut scorer = ScriptedScorer::new(random_score);
    let (results, _) = solve(&mut generator, Some(&mut scorer), &beam(8, 2), twice);
    assert_eq!(results[0].tree, results[1].tree);
    assert_eq!((results[0].index, results[1].index), (0, 1));
}
