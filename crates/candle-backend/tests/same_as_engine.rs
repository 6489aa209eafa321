//! For families that both the engine and candle-transformers implement, chains are the same:
//! boundaries, sampling and random numbers are the same code.

use std::path::Path;
use std::sync::Arc;

use beamgen::generator::TokenLogprobs;
use beamgen::{Config, Problem, Solver};
use beamgen_candle_backend::CandleModel;
use beamgen_engine::{Checkpoint, DeviceChoice, Tokenizer, Weights};

const FILES: [&str; 3] = [
    "tokenizer.json",
    "tokenizer_config.json",
    "generation_config.json",
];

/// The texts of a problem's nodes, and the log-probabilities of their tokens.
type Written = (Vec<String>, Vec<TokenLogprobs>);

fn written(mut solver: Solver) -> Vec<Written> {
    let problems = ["Mia has 34 pens.", "3 + 4", "12 * 3 = ?"];
    let problems = problems.iter().enumerate().map(|(i, text)| Problem {
        id: i.to_string(),
        text: (*text).to_owned(),
        answer: None,
        // Only the third problem has given steps: two of them.
        steps: vec!["12 a".to_owned(); i / 2 * 2],
        ..Problem::default()
    });
    let mut written: Vec<Written> = Vec::new();
    let solved = solver.solve_all(problems, |result| {
        let nodes = || result.tree.nodes().map(|(_, node)| node);
        let kept = nodes().flat_map(|node| node.token_logprobs.clone());
        let texts = nodes().map(|node| node.text.clone());
        written.push((texts.collect(), kept.collect()));
    });
    solved.unwrap();
    written.sort_by(|a, b| a.0.cmp(&b.0));
    written
}

/// Compares log-probabilities. Tokens must be equal; numbers may differ, since sums have another
/// order.
fn assert_near(own: &[TokenLogprobs], candle: &[TokenLogprobs]) {
    assert_eq!(own.len(), candle.len());
    for (own, candle) in own.iter().zip(candle) {
        assert_eq!(own.chosen.token, candle.chosen.token);
        assert_eq!((own.top.len(), candle.top.len()), (2, 2));
        let pairs = own.top.iter().zip(&candle.top);
        for (own, candle) in pairs.chain([(&own.chosen, &candle.chosen)]) {
            assert!(
                (own.logprob - candle.logprob).abs() < 1e-3,
                "{own:?}, {candle:?}"
            );
        }
    }
}

#[test]
fn sampled_chains_are_those_of_the_engine() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    for family in ["llama", "mistral", "qwen2", "qwen3", "phi3"] {
        let dir = tempfile::tempdir().unwrap();
        for file in ["config.json", "model.safetensors"] {
            std::fs::copy(
                root.join("tests/fixtures").join(family).join(file),
                dir.path().join(file),
            )
            .unwrap();
        }
        for file in FILES {
            let from = root.join("../../tests/fixtures/tokenizer").join(file);
            std::fs::copy(from, dir.path().join(file)).unwrap();
        }
        let mut config = Config::default();
        config.engine.device = DeviceChoice::Cpu;
        config.search.n = 4;
        config.generator.max_step_tokens = 12;
        config.generator.max_chain_tokens = 40;
        config.generator.logprobs = Some(2);
        config.generator.logit_bias = [(5, 2.0), (9, -100.0)].into();
        config.generator.boundaries = vec![" ".into(), "a".into(), "e".into()];
        let words = |_: &Problem, steps: &[&str]| 1.0 / steps.len() as f32;
        let checkpoint = Checkpoint::from(dir.path());
        let tokenizer = Arc::new(Tokenizer::load(checkpoint.clone()).unwrap());
        let weights = Weights::load(checkpoint.clone()).unwrap();
        let values = |name| weights.shape(name).unwrap().iter().product::<usize>();
        let weights: usize = 4 * weights.names().map(values).sum::<usize>();
        // With 0 steps are written at once, with 4 they are paused and resumed.
        for early_rejection in [0, 4] {
            config.search.early_rejection = early_rejection;
            let builder = || {
                Solver::builder()
                    .config(config.clone())
                    .step_scorer("short", words)
            };
            let own = written(builder().generator(dir.path()).build().unwrap());
            assert!(
                own.iter()
                    .any(|(texts, _)| texts.iter().any(|text| text.len() > 8)),
                "{family}: {own:?}"
            );
            // Memory for all problems at once, then for the chains of only one problem. A token
            // takes 256 bytes.
            for tokens in [1 << 20, 500] {
                let model =
                    CandleModel::open(&checkpoint, Arc::clone(&tokenizer), &config.generator);
                let memory = (weights + 256 * tokens) as u64;
                let candle = model.unwrap().load(memory).unwrap();
                let candle = written(
                    builder()
                        .custom_generator("candle", candle)
                        .build()
                        .unwrap(),
                );
                assert_eq!(own.len(), candle.len());
                for ((own, kept), (candle, there)) in own.iter().zip(&candle) {
                    assert_eq!(own, candle, "{family}, {early_rejection}, {tokens}");
                    assert_near(kept, there);
                }
            }
        }
    }
}
