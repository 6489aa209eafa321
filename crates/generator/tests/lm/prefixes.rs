//! A prefix that problems share is read once a run, and the chains stay the same.

use beamgen_generator::{GeneratorConfig, LmGenerator};
use beamgen_search::*;

use crate::runs::*;
use crate::tiny;

fn run_with(prefix_cache: bool, config: &SearchConfig) -> (Vec<ProblemResult>, RunSummary) {
    let settings = GeneratorConfig {
        system_prompt: Some("abc ".repeat(5)),
        ..settings()
    };
    let engine = tiny::engine_with(&tiny::model(200), 4000, prefix_cache);
    let mut generator = LmGenerator::new(engine, tiny::tokenizer(), settings).unwrap();
    let solved = solve(&mut generator, config, problems(9));
    assert!(generator.engine().is_empty());
    assert_eq!(generator.engine().kv().pages_used, 0);
    solved
}

#[test]
fn a_system_prompt_is_read_once_a_run() {
    for in_flight in [1, 4] {
        for mut config in [beam(6, 2, 4), best_of(5, 4)] {
            config.in_flight = in_flight;
            let (expected, alone) = run_with(false, &config);
            let (results, summary) = run_with(true, &config);
            for (result, expected) in results.iter().zip(&expected) {
                let steps = |result: &ProblemResult| -> Vec<(Vec<u32>, f32)> {
                    let nodes = result.tree.nodes();
                    nodes
                        .map(|(_, node)| (node.tokens.clone(), node.logprob))
                        .collect()
                };
                assert_eq!(steps(result), steps(expected));
            }
            let (found, least) = (summary.ledger.prefix_tokens, summary.ledger.least.generate);
            assert_eq!(alone.ledger.prefix_tokens, 0);
            assert_eq!(alone.ledger.executed.generate, least);
            // Every problem but the first finds at least the whole pages of the system prompt.
            assert!(found >= 8 * 16, "{found} tokens, {in_flight} in flight");
            assert!(summary.ledger.executed.generate < least);
            assert_eq!(alone.ledger.excess(), Some(1.0), "the scorer reads nothing");
            assert!(summary.ledger.excess().unwrap() < 1.0);
        }
    }
}
