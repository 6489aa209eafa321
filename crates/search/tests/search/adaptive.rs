//! Tests of best-of-N that samples only as many chains as a problem needs ([`AdaptiveN`]).

use beamgen_search::*;

use crate::scripted::*;

/// Writes a digit and then an answer with that digit. The rate of right answers differs by problem.
fn said(place: &Place<'_>) -> Said {
    match place.depth {
        0 => Said::step(format!("{}\n", place.draw(1) % 10)),
        _ => Said::answer(place.before.trim()),
    }
}

/// Scores a chain that begins with 9 as almost surely right, and other chains as almost surely
/// wrong.
fn score(_: &Problem, before: &str, step: &str) -> f32 {
    if format!("{before}{step}").starts_with('9') {
        0.97
    } else {
        0.05
    }
}

fn adaptive(confidence: f32) -> SearchConfig {
    SearchConfig {
        confidence,
        ..best_of(64)
    }
}

fn solved(config: &SearchConfig) -> Vec<ProblemResult> {
    let mut generator = ScriptedGenerator::new(said);
    let mut scorer = ScriptedScorer::new(score);
    let (results, _) = solve(&mut generator, Some(&mut scorer), config, problems(20));
    assert_eq!((generator.chains_held(), scorer.chains_held()), (0, 0));
    results
}

#[test]
fn sampling_ends_when_the_answer_is_sure_enough_and_the_chains_are_those_of_best_of_n() {
    let (all, some) = (solved(&best_of(64)), solved(&adaptive(0.95)));
    let chains = |result: &ProblemResult| result.tree.node(ChainTree::ROOT).children.len();
    let mut fewer = 0;
    for (all, some) in all.iter().zip(&some) {
        assert_eq!(chains(all), 64);
        assert!(chains(some) <= 64);
        fewer += usize::from(chains(some) < 64);
        // Chain i of the adaptive search is chain i of best-of-N.
        for (a, b) in all.finished.iter().zip(&some.finished) {
            assert_eq!((&a.answer, a.score), (&b.answer, b.score));
        }
        let sure = some.score.is_some_and(|score| score >= 0.95);
        assert!(sure || chains(some) > 20, "{} chains", chains(some));
    }
    assert!(fewer > 15, "{fewer} of 20 problems need fewer chains");
}

#[test]
fn with_a_sure_score_sampling_ends_at_that_score_and_goes_on_to_n_below_it() {
    let sure = SearchConfig {
        sure_score: 0.97,
        ..adaptive(0.999)
    };
    let chains = |result: &ProblemResult| result.tree.node(ChainTree::ROOT).children.len();
    let results = solved(&sure);
    let is_sure = |result: &ProblemResult| result.score.is_some_and(|score| score >= 0.97);
    for result in &results {
        assert!(is_sure(result) || chains(result) == 64);
    }
    let early = results.iter().filter(|result| chains(result) < 64).count();
    assert!(early > 10, "{early} of 20 problems ended early");
    let unreachable = SearchConfig {
        sure_score: 0.98,
        ..sure
    };
    assert!(solved(&unreachable).iter().all(|r| chains(r) == 64));
}

#[test]
fn a_higher_confidence_draws_more() {
    let tokens = |confidence| -> u64 {
        let results = solved(&adaptive(confidence));
        results
            .iter()
            .map(|result| result.ledger.generated_tokens)
            .sum()
    };
    assert!(tokens(0.2) < tokens(0.96));
    assert!(tokens(0.96) < tokens(0.999));
}

#[test]
fn confidence_is_for_best_of_n_and_below_one() {
    let wrong = SearchConfig {
        confidence: 0.9,
        ..beam(8, 2)
    };
    let error = wrong.validate().unwrap_err().to_string();
    assert!(error.contains("best-of-n"), "{error}");
    assert!(adaptive(1.0).validate().is_err());
    let lonely = SearchConfig {
        sure_score: 0.5,
        ..best_of(8)
    };
    let error = lonely.validate().unwrap_err().to_string();
    assert!(error.contains("confidence"), "{error}");
    // A `sure_score` is written to the run file, and read again.
    let set = SearchConfig {
        sure_score: 0.5,
        ..adaptive(0.75)
    };
    let json = serde_json::to_string(&set).unwrap();
    assert_eq!(serde_json::from_str::<SearchConfig>(&json).unwrap(), set);
}
