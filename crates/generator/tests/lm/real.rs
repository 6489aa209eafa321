//! Properties of published checkpoints: sampling defaults, padded vocabularies, several end-of-text
//! tokens, templates with a date.

use std::sync::Arc;

use beamgen_engine::rng::Key;
use beamgen_engine::{
    Append, Model, ModelConfig, Output, Sampler, SamplingParams, Tokenizer, Want, WeightType,
    Weights,
};
use beamgen_generator::{
    Error, GeneratorConfig, LmGenerator, SamplingSettings, sampling_params, sampling_settings,
};
use beamgen_search::*;

use crate::runs::*;
use crate::tiny;

fn tokenizer(template: &str, generation: &str) -> Arc<Tokenizer> {
    let dir = tempfile::tempdir().unwrap();
    tiny::write_tokenizer(dir.path(), Some(template));
    std::fs::write(dir.path().join("generation_config.json"), generation).unwrap();
    Arc::new(Tokenizer::load(dir.path()).unwrap())
}

fn with(tokenizer: Arc<Tokenizer>, config: GeneratorConfig) -> Result<LmGenerator, Error> {
    LmGenerator::new(tiny::engine(&tiny::model(200), 4000), tokenizer, config)
}

#[test]
fn the_checkpoint_says_what_the_user_does_not() {
    let file = r#"{"do_sample": true, "temperature": 0.5, "top_k": 7, "num_beams": 4}"#;
    let config = GeneratorConfig {
        sampling: SamplingSettings {
            top_k: Some(3),
            ..SamplingSettings::default()
        },
        ..settings()
    };
    let generator = with(tokenizer(tiny::TEMPLATE, file), config).unwrap();
    let params = SamplingParams {
        temperature: 0.5,
        top_k: 3,
        ..SamplingParams::default()
    };
    assert_eq!(generator.config().sampling, sampling_settings(params));
    assert_eq!(generator.notes().len(), 1);

    let explicit = GeneratorConfig {
        sampling: sampling_settings(params),
        ..settings()
    };
    let trees = |generator: &mut LmGenerator| {
        let (results, _) = solve(generator, &beam(6, 2, 3), problems(4));
        results.into_iter().map(|r| r.tree).collect::<Vec<_>>()
    };
    let plain = trees(&mut crate::runs::generator(4000, settings()));
    let mut generator = generator;
    let said = trees(&mut generator);
    assert_eq!(said, trees(&mut crate::runs::generator(4000, explicit)));
    assert_ne!(said, plain);
}

/// The prompt counts as well, and every step above.
#[test]
fn repeating_has_its_penalty_over_prompt_and_chain() {
    let config = GeneratorConfig {
        sampling: SamplingSettings {
            repetition_penalty: Some(1.7),
            ..SamplingSettings::default()
        },
        ..settings()
    };
    let mut generator = generator(4000, config.clone());
    let (results, _) = solve(&mut generator, &beam(6, 2, 4), problems(6));
    let mut engine = tiny::engine(generator.engine().model(), 400);
    let mut deepest = 0;
    for result in &results {
        let prompt = generator.prompt(&result.problem).unwrap();
        for chain in &result.finished {
            let seq = engine.create();
            let (mut read, mut said) = (prompt.clone(), prompt.clone());
            let path = result.tree.path(chain.node);
            deepest = deepest.max(path.len());
            for node in path.iter().map(|&id| result.tree.node(id)) {
                for &token in &node.tokens {
                    let item = Append {
                        seq,
                        tokens: &read,
                        want: Want::Last,
                    };
                    let rows = engine.forward(&[item], Output::Logits).unwrap();
                    let key = Key {
                        seed: config.seed,
                        problem: result.problem.key(),
                        chain: node.stream,
                    };
                    let mut draw = key.at((said.len() - prompt.len()) as u32);
                    let params = sampling_params(config.sampling);
                    let again = Sampler::new().sample_after(&said, rows.row(0), &params, &mut draw);
                    assert_eq!(again.token, token);
                    said.push(token);
                    read = vec![token];
                }
            }
            engine.free(seq);
        }
    }
    assert!(deepest >= 2);
}

#[test]
fn ids_that_are_no_token_are_never_sampled() {
    let tokens = tiny::tokenizer().len();
    let config = ModelConfig {
        vocab_size: 2 * tokens,
        ..tiny::config(200)
    };
    let weights = Weights::from_tensors(tiny::random::random_weights(&config)).unwrap();
    let model = Arc::new(Model::from_weights(config, &weights, WeightType::Auto).unwrap());
    let engine = tiny::engine(&model, 4000);
    let mut generator = LmGenerator::new(engine, tiny::tokenizer(), settings()).unwrap();
    let (results, _) = solve(&mut generator, &best_of(16, 4), problems(4));
    let nodes = results.iter().flat_map(|r| r.tree.nodes());
    let sampled: Vec<u32> = nodes.flat_map(|(_, n)| n.tokens.clone()).collect();
    assert!(sampled.len() > 500);
    assert!(sampled.iter().all(|&id| (id as usize) < tokens));
}

#[test]
fn any_of_several_end_of_text_tokens_ends_a_chain() {
    let dot = tiny::tokenizer().id(".").unwrap();
    let file = format!(r#"{{"eos_token_id": [{}, {dot}]}}"#, tiny::END);
    let mut generator = with(tokenizer(tiny::TEMPLATE, &file), settings()).unwrap();
    let (results, _) = solve(&mut generator, &best_of(32, 4), problems(6));
    let mut last = Vec::new();
    for (_, node) in results.iter().flat_map(|r| r.tree.nodes().skip(1)) {
        let inner = node.tokens.split_last().map_or(&[][..], |(_, inner)| inner);
        assert!(!inner.iter().any(|id| [tiny::END, dot].contains(id)));
        if node.finish() == Some(Finish::EndOfText) {
            last.extend(node.tokens.last().copied());
        }
    }
    assert!(last.contains(&dot) && last.contains(&tiny::END));
}

#[test]
fn a_date_is_a_setting_if_the_template_asks_for_it() {
    let dated = |date: Option<&str>, template| {
        let config = GeneratorConfig {
            date: date.map(str::to_owned),
            ..settings()
        };
        with(tokenizer(template, "{}"), config)
    };
    let asks = "{{ strftime_now('%d.%m.') }}";
    let generator = dated(Some("2025-03-01"), asks).unwrap();
    let prompt = generator
        .tokenizer()
        .decode(&generator.prompt("x").unwrap(), true);
    assert_eq!(prompt.unwrap(), "01.03.");
    assert_eq!(generator.config().date.as_deref(), Some("2025-03-01"));
    assert!(dated(None, asks).unwrap().config().date.is_some());
    let never = dated(Some("2025-03-01"), tiny::TEMPLATE).unwrap();
    assert_eq!(never.config().date, None);
    let error = dated(Some("tomorrow"), asks).unwrap_err().to_string();
    assert!(error.contains("tomorrow"), "{error}");
}
