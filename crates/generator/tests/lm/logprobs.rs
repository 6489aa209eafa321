//! Log-probabilities that are stored for each token, and biases that are added to logits.

use beamgen_engine::{Append, DeviceChoice, Engine, EngineConfig, Model, Output, Want, WeightType};
use beamgen_engine::{Weights, log_prob};
use beamgen_generator::{GeneratorConfig, LmGenerator};
use beamgen_search::*;

use crate::runs::*;
use crate::tiny;

fn asking(logprobs: usize) -> GeneratorConfig {
    GeneratorConfig {
        logprobs: Some(logprobs),
        ..settings()
    }
}

/// Returns the nodes of all trees without the log-probabilities of their tokens.
fn bare(results: &[ProblemResult]) -> Vec<Node> {
    let nodes = results.iter().flat_map(|result| result.tree.nodes());
    nodes
        .map(|(_, node)| Node {
            token_logprobs: Vec::new(),
            ..node.clone()
        })
        .collect()
}

/// Compares stored log-probabilities with those computed in float64 from the logits of a new
/// sequence.
fn compare(result: &ProblemResult, id: NodeId, generator: &LmGenerator, count: usize) {
    // At most half the distance of two float32 numbers, and the 3e-7 of the sum.
    const TOLERANCE: f64 = 4e-6;
    let node = result.tree.node(id);
    let mut read = generator.prompt(&result.problem).unwrap();
    for &above in result.tree.path(id).iter().filter(|&&above| above != id) {
        read.extend(&result.tree.node(above).tokens);
    }
    let mut engine = tiny::engine(generator.engine().model(), 400);
    let seq = engine.create();
    assert_eq!(node.token_logprobs.len(), node.tokens.len());
    let tokenizer = generator.tokenizer();
    for (kept, &token) in node.token_logprobs.iter().zip(&node.tokens) {
        let item = Append {
            seq,
            tokens: &read,
            want: Want::Last,
        };
        let rows = engine.forward(&[item], Output::Logits).unwrap();
        let row = rows.row(0);
        let sum: f64 = row.iter().map(|x| f64::from(*x).exp()).sum();
        let mut sorted: Vec<(u32, f32)> = (0..).zip(row.iter().copied()).collect();
        // A stable sort: of equal logits the lowest id comes first.
        sorted.sort_by(|a, b| b.1.total_cmp(&a.1));
        assert_eq!(kept.chosen.token, token);
        assert_eq!(kept.chosen.logprob, log_prob(row, token));
        assert_eq!(kept.chosen.bytes, tokenizer.token_bytes(token));
        assert_eq!(kept.in_text, token != tiny::END && token != tiny::BEGIN);
        assert_eq!(kept.top.len(), count);
        for (kept, (token, logit)) in kept.top.iter().zip(&sorted) {
            assert_eq!(kept.token, *token);
            assert_eq!(kept.bytes, tokenizer.token_bytes(*token));
            let want = f64::from(*logit) - sum.ln();
            assert!((f64::from(kept.logprob) - want).abs() < TOLERANCE);
        }
        read = vec![token];
    }
    let sum: f64 = node
        .token_logprobs
        .iter()
        .map(|kept| f64::from(kept.chosen.logprob))
        .sum();
    assert_eq!(sum as f32, node.logprob);
}

#[test]
fn kept_log_probabilities_are_the_models_and_change_nothing() {
    let paused = SearchConfig {
        early_rejection: 3,
        ..beam(8, 4, 3)
    };
    for config in [beam(6, 2, 4), best_of(5, 4), paused] {
        let (plain, _) = solve(&mut generator(4000, settings()), &config, problems(6));
        let nodes = plain.iter().flat_map(|result| result.tree.nodes());
        assert!(
            nodes
                .into_iter()
                .all(|(_, node)| node.token_logprobs.is_empty())
        );
        for count in [0, 4, 20] {
            let mut generator = generator(4000, asking(count));
            let (results, _) = solve(&mut generator, &config, problems(6));
            assert!(bare(&results) == bare(&plain), "{count} alternatives");
            let mut compared = 0;
            for result in &results {
                for (id, node) in result.tree.nodes().skip(1) {
                    // A step that was pruned at its pause has log-probabilities of its tokens up to
                    // there.
                    compare(result, id, &generator, count);
                    compared += node.tokens.len();
                }
                let chain = result.finished[0].node;
                let kept = result.tree.token_logprobs(chain).count();
                assert_eq!(kept, result.tree.token_count(chain));
            }
            assert!(compared > 200, "{compared} tokens");
        }
    }
}

/// Sampling settings change which token is chosen, not the log-probabilities that are stored.
#[test]
fn log_probabilities_are_those_before_temperature_filters_and_bias() {
    let config = GeneratorConfig {
        sampling: SamplingSettings {
            temperature: Some(0.4),
            top_k: Some(5),
            repetition_penalty: Some(1.3),
            ..SamplingSettings::default()
        },
        logit_bias: [(3, 2.5), (7, -4.0)].into(),
        ..asking(3)
    };
    let mut generator = generator(4000, config);
    let (results, _) = solve(&mut generator, &beam(6, 2, 2), problems(4));
    for result in &results {
        for (id, _) in result.tree.nodes().skip(1) {
            compare(result, id, &generator, 3);
        }
    }
}

#[test]
fn the_device_keeps_what_the_processor_keeps() {
    if !beamgen_emulated_cuda::load() {
        return;
    }
    let compute = DeviceChoice::Cuda(0).open().unwrap();
    let config = tiny::config(200);
    let weights = Weights::from_tensors(tiny::random::random_weights(&config)).unwrap();
    let pool = beamgen_engine::ThreadPool::new(1);
    let model = Model::on(&compute, config, &weights, WeightType::F32, &pool).unwrap();
    let engine = EngineConfig {
        kv_bytes: 4 << 20,
        max_rows: 48,
        threads: 1,
        ..EngineConfig::default()
    };
    let engine = Engine::new(model.into(), engine).unwrap();
    let biased = GeneratorConfig {
        logit_bias: [(tiny::END, -100.0), (9, 1.0)].into(),
        ..asking(5)
    };
    let tokenizer = tiny::tokenizer();
    let mut on_device = LmGenerator::new(engine, tokenizer, biased.clone()).unwrap();
    let (results, _) = solve(&mut on_device, &beam(4, 2, 2), problems(3));
    let (host, _) = solve(&mut generator(4000, biased), &beam(4, 2, 2), problems(3));
    let mut tokens = 0;
    for (result, host) in results.iter().zip(&host) {
        for ((_, node), (_, host)) in result.tree.nodes().zip(host.tree.nodes()) {
            assert_eq!(node.tokens, host.tokens);
            assert!(!node.tokens.contains(&tiny::END));
            tokens += node.tokens.len();
            for (kept, host) in node.token_logprobs.iter().zip(&host.token_logprobs) {
                assert!((kept.chosen.logprob - host.chosen.logprob).abs() < 1e-4);
                let ids =
                    |kept: &TokenLogprobs| kept.top.iter().map(|t| t.token).collect::<Vec<_>>();
                assert_eq!(ids(kept), ids(host));
                let chosen = kept.top.iter().find(|top| top.token == kept.chosen.token);
                assert!(chosen.is_none_or(|top| top.logprob == kept.chosen.logprob));
            }
        }
    }
    assert!(tokens > 50, "{tokens} tokens");
}

#[test]
fn a_bias_forbids_and_favours_tokens() {
    let with = |bias: &[(u32, f32)]| {
        let config = GeneratorConfig {
            logit_bias: bias.iter().copied().collect(),
            ..settings()
        };
        let (results, _) = solve(&mut generator(4000, config), &best_of(8, 4), problems(6));
        let trees = results.iter().flat_map(|result| result.tree.nodes());
        let tokens = trees.flat_map(|(_, node)| node.tokens.clone());
        tokens.collect::<Vec<u32>>()
    };
    let plain = with(&[]);
    assert!(plain.contains(&tiny::END) && plain.contains(&8));
    assert!(with(&[(3, 0.0)]) == plain);
    let never = with(&[(tiny::END, -100.0), (8, -100.0)]);
    assert!(!never.contains(&tiny::END) && !never.contains(&8));
    let always = with(&[(8, 100.0)]);
    assert!(always.iter().all(|&token| token == 8));
}

#[test]
fn a_bias_of_a_token_that_is_missing_is_refused() {
    let tokens = tiny::tokenizer().len() as u32;
    let config = GeneratorConfig {
        logit_bias: [(tokens, 1.0)].into(),
        ..settings()
    };
    let engine = tiny::engine(&tiny::model(200), 400);
    let error = LmGenerator::new(engine, tiny::tokenizer(), config).unwrap_err();
    let message = error.to_string();
    assert!(
        message.contains("logit_bias") && message.contains(&tokens.to_string()),
        "{message}"
    );
}

#[cfg(not(feature = "structured"))]
#[test]
fn a_build_without_grammars_refuses_them_by_name() {
    let config = GeneratorConfig {
        grammar: Some(Grammar::JsonObject),
        ..settings()
    };
    let engine = tiny::engine(&tiny::model(200), 400);
    let error = LmGenerator::new(engine, tiny::tokenizer(), config.clone()).unwrap_err();
    let message = error.to_string();
    assert!(
        message.contains("`grammar`") && message.contains("structured"),
        "{message}"
    );
    let own = beamgen_generator::check_grammar(&Grammar::JsonObject).unwrap_err();
    assert_eq!(own.to_string(), message);
    let mut generator = generator(400, settings());
    let refused = Generator::open(&mut generator, &"1".into(), 1, &config).unwrap_err();
    assert_eq!(refused, GenError::Settings(message));
}
