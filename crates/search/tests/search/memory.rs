//! Memory runs out: steps wait, chains are given up, but every run ends.

use beamgen_search::*;

use crate::scripted::*;

fn solve_within(config: &SearchConfig, capacity: usize) -> (Vec<ProblemResult>, RunSummary) {
    let mut generator = ScriptedGenerator::new(random_said).with_capacity(capacity);
    let mut scorer = ScriptedScorer::new(random_score);
    let solved = solve(&mut generator, Some(&mut scorer), config, problems(12));
    assert_eq!((generator.chains_held(), scorer.chains_held()), (0, 0));
    let spent = &solved.1.ledger;
    assert_eq!(spent.generated_tokens as usize, generator.tokens_sampled);
    assert_eq!(spent.scored_tokens as usize, scorer.tokens_read);
    solved
}

fn has_no_memory_chain(result: &ProblemResult) -> bool {
    result
        .finished
        .iter()
        .any(|chain| chain.finish == Finish::NoMemory)
}

#[test]
fn every_capacity_down_to_nothing_ends() {
    for config in [beam(8, 2), beam(5, 1), best_of(6)] {
        for capacity in (0..200).step_by(6) {
            solve_within(&config, capacity);
        }
    }
}

#[test]
fn without_any_memory_every_problem_says_so() {
    for config in [beam(4, 2), best_of(4)] {
        let (results, summary) = solve_within(&config, 0);
        for result in results {
            assert_eq!(result.answer, None);
            assert_eq!(result.error, None);
            assert!(result.finished.iter().all(|c| c.finish == Finish::NoMemory));
            assert_eq!(result.ledger.generated_tokens, 0);
        }
        assert_eq!(summary.answered, 0);
        assert_eq!(summary.ledger.forward_passes, 0);
    }
}

#[test]
fn a_chain_without_memory_does_not_take_the_others_with_it() {
    // The cache holds the prompt and about two of the eight chains.
    let (results, _) = solve_within(&beam(8, 4), PROMPT_TOKENS + 3 * MAX_STEP);
    assert!(results.iter().any(has_no_memory_chain));
    assert!(results.iter().any(|result| result.answer.is_some()));
}

#[test]
fn memory_for_one_problem_is_enough_for_many() {
    let config = beam(8, 2);
    let (roomy, _) = solve_within(&config, usize::MAX);
    // Enough memory for any one of the problems by itself.
    let enough = 8 * (PROMPT_TOKENS + 40 * MAX_STEP);
    let (tight, _) = solve_within(&config, enough);
    assert!(!tight.iter().any(has_no_memory_chain));
    for (a, b) in roomy.iter().zip(&tight) {
        assert_eq!(a.tree, b.tree);
    }
}

#[test]
fn a_chain_the_scorer_cannot_hold_is_cut_short() {
    for config in [beam(4, 2), best_of(4)] {
        let mut generator = ScriptedGenerator::new(|place| match place.depth {
            0 => Said::step(format!("{}\n", place.index)),
            _ => Said::answer(place.before.len()),
        });
        let mut scorer = ScriptedScorer::fallible(|_, before, step| {
            if format!("{before}{step}").starts_with('0') {
                Err(ScoreError::NoMemory { tokens: 3 })
            } else {
                Ok(0.5)
            }
        });
        let (results, _) = solve(&mut generator, Some(&mut scorer), &config, problems(1));
        let cut: Vec<_> = results[0]
            .finished
            .iter()
            .filter(|chain| chain.finish == Finish::NoMemory)
            .collect();
        assert_eq!(cut.len(), 1);
        assert_eq!(cut[0].answer, None);
        assert!(results[0].answer.is_some());
        assert_eq!((generator.chains_held(), scorer.chains_held()), (0, 0));
    }
}
