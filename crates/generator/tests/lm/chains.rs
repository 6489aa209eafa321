//! Chains are what the model writes without other chains in the batch, and no token is read twice.

use beamgen_engine::rng::Key;
use beamgen_engine::{Append, Output, Want, sample};
use beamgen_generator::{GeneratorConfig, SamplingSettings, sampling_params};
use beamgen_search::*;

use crate::runs::*;
use crate::tiny;

/// Samples a node's tokens again from nothing: a fresh sequence, one token at a time.
fn said_alone(result: &ProblemResult, id: NodeId, config: &GeneratorConfig) -> (Vec<u32>, f32) {
    let node = result.tree.node(id);
    let generator = generator(400, config.clone());
    let mut read = generator.prompt(&result.problem).unwrap();
    let mut before = 0;
    for &above in result.tree.path(id).iter().filter(|&&above| above != id) {
        read.extend(&result.tree.node(above).tokens);
        before += result.tree.node(above).tokens.len();
    }
    let mut engine = tiny::engine(generator.engine().model(), 400);
    let seq = engine.create();
    let key = Key {
        seed: config.seed,
        problem: result.problem.key(),
        chain: node.stream,
    };
    let (mut said, mut logprob) = (Vec::new(), 0.0);
    while said.len() < node.tokens.len() {
        let item = Append {
            seq,
            tokens: &read,
            want: Want::Last,
        };
        let rows = engine.forward(&[item], Output::Logits).unwrap();
        let position = (before + said.len()) as u32;
        let sampled = sample(
            rows.row(0),
            &sampling_params(config.sampling),
            &mut key.at(position),
        );
        logprob += f64::from(sampled.logprob);
        said.push(sampled.token);
        read = vec![sampled.token];
    }
    (said, logprob as f32)
}

#[test]
fn every_step_is_what_the_model_says_alone() {
    for config in [beam(6, 2, 4), best_of(5, 4)] {
        let mut generator = generator(4000, settings());
        let (results, _) = solve(&mut generator, &config, problems(12));
        let (mut steps, mut deepest) = (0, 0);
        for result in &results {
            for (id, node) in result.tree.nodes().skip(1) {
                let (said, logprob) = said_alone(result, id, &settings());
                assert_eq!(node.tokens, said);
                assert_eq!(node.logprob, logprob);
                steps += 1;
                deepest = deepest.max(node.depth);
            }
        }
        assert!(steps > 60 && deepest >= 3, "{steps} steps, {deepest} deep");
        assert!(generator.engine().is_empty());
    }
}

/// The prompt of a problem is read once, and every token of a step except its last. The last token
/// is read once if the chain continues, however many children it has.
#[test]
fn nothing_is_read_twice() {
    for config in [beam(8, 4, 3), best_of(6, 3)] {
        let mut generator = generator(4000, settings());
        let (results, summary) = solve(&mut generator, &config, problems(7));
        let mut read = summary.ledger.prompt_tokens as usize;
        for result in &results {
            for (_, node) in result.tree.nodes().skip(1) {
                read += node.tokens.len() - 1;
                read += usize::from(node.state == State::Expanded);
            }
        }
        assert_eq!(generator.tokens_read() as usize, read);
        let (ran, least) = (summary.ledger.executed, summary.ledger.least);
        assert_eq!(ran.generate, least.generate);
        let own = results.iter().map(|result| result.ledger.least.generate);
        assert_eq!(own.sum::<u64>(), least.generate);
        let own: u64 = results
            .iter()
            .map(|result| result.ledger.executed.generate)
            .sum();
        // The operations of a pass are shared by rows, and each share is rounded down.
        assert!(ran.generate - own < 10_000, "{own} of {}", ran.generate);
        let prompts: usize = problems(7)
            .iter()
            .map(|problem| generator.prompt(problem).unwrap().len())
            .sum();
        assert_eq!(summary.ledger.prompt_tokens as usize, prompts);
    }
}

/// The beginnings of steps are needed to reject them; speculative steps after pruned chains are not.
#[test]
fn only_dropped_work_exceeds_the_least() {
    let speculative = SearchConfig {
        speculate: true,
        ..beam(8, 4, 3)
    };
    let rejecting = SearchConfig {
        early_rejection: 4,
        ..beam(8, 4, 3)
    };
    for (config, exceeds) in [(rejecting, false), (speculative, true)] {
        let mut generator = generator(4000, settings());
        let (_, summary) = solve(&mut generator, &config, problems(7));
        let (ran, least) = (summary.ledger.executed, summary.ledger.least);
        assert!(ran.generate >= least.generate, "{config:?}");
        assert_eq!(ran.generate > least.generate, exceeds, "{config:?}");
    }
}

#[test]
fn steps_end_at_boundaries_and_their_texts_are_their_tokens() {
    let mut generator = generator(4000, settings());
    let (results, _) = solve(&mut generator, &best_of(16, 8), problems(8));
    let mut seen = Vec::new();
    for node in results
        .iter()
        .flat_map(|r| r.tree.nodes().skip(1).map(|(_, n)| n))
    {
        let closed = node.text.trim_start().contains('\n');
        match node.finish() {
            None => assert!(closed, "{node:?}"),
            Some(Finish::Answer) => assert!(closed && node.text.contains('=')),
            Some(Finish::EndOfText) => assert_eq!(node.tokens.last(), Some(&tiny::END)),
            Some(Finish::StepCap) => assert_eq!(node.tokens.len(), 12),
            Some(_) => {}
        }
        if node.finish() == Some(Finish::StepCap) {
            assert!(!closed);
        }
        // The token `ĊĊ` may hold the end of a step and the blank line after it. A limit may cut an
        // é in two.
        let text = generator.tokenizer().decode(&node.tokens, true).unwrap();
        let inner = |text: &str| text.trim_matches(['\n', '\u{fffd}']).to_owned();
        assert_eq!(inner(&node.text), inner(&text));
        seen.extend(node.finish());
    }
    for finish in [Finish::Answer, Finish::EndOfText, Finish::StepCap] {
        assert!(seen.contains(&finish), "no {finish} in {seen:?}");
    }
}

#[test]
fn temperature_zero_says_the_same_under_every_seed() {
    let tree = |seed| {
        let config = GeneratorConfig {
            seed,
            sampling: SamplingSettings {
                temperature: Some(0.0),
                ..SamplingSettings::default()
            },
            ..settings()
        };
        let greedy = SearchConfig {
            strategy: StrategyKind::GREEDY,
            ..beam(1, 1, 4)
        };
        let (results, _) = solve(&mut generator(4000, config), &greedy, problems(3));
        results.into_iter().map(|r| r.tree).collect::<Vec<_>>()
    };
    assert_eq!(tree(1), tree(2));
}

#[test]
fn seeds_and_problems_have_chains_of_their_own() {
    let texts = |seed, id: &str| {
        let config = GeneratorConfig { seed, ..settings() };
        let problem = Problem {
            id: id.into(),
            ..problems(1).remove(0)
        };
        let (results, _) = solve(&mut generator(4000, config), &best_of(4, 1), vec![problem]);
        results[0].tree.clone()
    };
    assert_eq!(texts(1, "a"), texts(1, "a"));
    assert_ne!(texts(1, "a"), texts(2, "a"));
    assert_ne!(texts(1, "a"), texts(1, "b"));
}

#[test]
fn company_changes_nothing() {
    for config in [beam(8, 4, 1), beam(5, 2, 1), best_of(6, 1)] {
        let solved = |in_flight| {
            let config = SearchConfig {
                in_flight,
                ..config.clone()
            };
            let results = solve(&mut generator(20_000, settings()), &config, problems(30)).0;
            without_shares(results)
        };
        let alone = solved(1);
        assert!(solved(7) == alone);
        assert!(solved(64) == alone);
    }
}
