//! Logits of tiny Llama, Qwen2 and Qwen3 checkpoints against those of `transformers`
//! (tests/fixtures/make_fixtures.py).

mod common;

use std::sync::Arc;

use beamgen_engine::{Append, Engine, EngineConfig, IsaChoice, Model, Output, Want};
use common::fixture;
use safetensors::SafeTensors;

/// Two float32 implementations of the same sums; logits are of the order of 10.
const TOLERANCE: f32 = 1e-4;

struct Expected(Vec<u8>);

impl Expected {
    fn load(name: &str) -> Self {
        Self(std::fs::read(fixture(name).join("expected.safetensors")).unwrap())
    }

    fn words<T>(&self, name: &str, value: impl Fn([u8; 4]) -> T) -> Vec<T> {
        let file = SafeTensors::deserialize(&self.0).unwrap();
        let tensor = file.tensor(name).unwrap();
        tensor
            .data()
            .as_chunks::<4>()
            .0
            .iter()
            .map(|w| value(*w))
            .collect()
    }

    fn floats(&self, name: &str) -> Vec<f32> {
        self.words(name, f32::from_le_bytes)
    }

    fn tokens(&self, i: usize) -> Vec<u32> {
        self.words(&format!("tokens.{i}"), u32::from_le_bytes)
    }

    fn rows(&self, i: usize) -> Vec<usize> {
        self.words(&format!("rows.{i}"), |w| u32::from_le_bytes(w) as usize)
    }
}

#[track_caller]
fn assert_close(got: &[f32], want: &[f32]) {
    assert_eq!(got.len(), want.len());
    for (i, (g, w)) in got.iter().zip(want).enumerate() {
        assert!(
            (g - w).abs() <= TOLERANCE * (1.0 + w.abs()),
            "at {i}: {g} instead of {w}"
        );
    }
}

fn check(name: &str) {
    let model = Arc::new(Model::load(&fixture(name)).unwrap());
    let expected = Expected::load(name);
    let largest = expected
        .floats("logits.2")
        .iter()
        .fold(0.0f32, |m, x| m.max(x.abs()));
    assert!(largest > 1.0, "logits that say something");
    for isa in [IsaChoice::Auto, IsaChoice::Avx2, IsaChoice::Portable] {
        let config = EngineConfig {
            isa,
            threads: 1,
            ..EngineConfig::default()
        };
        // A machine without the tier has nothing to compare.
        let Ok(mut engine) = Engine::new(Arc::clone(&model), config) else {
            continue;
        };
        // All three sequences in one ragged call.
        let tokens = [0, 1, 2].map(|i| expected.tokens(i));
        let rows = [0, 1, 2].map(|i| expected.rows(i));
        let seqs = [0, 1, 2].map(|_| engine.create());
        let items = [0, 1, 2].map(|i| Append {
            seq: seqs[i],
            tokens: &tokens[i],
            want: Want::At(&rows[i]),
        });
        let logits = engine.forward(&items, Output::Logits).unwrap();
        let want: Vec<f32> = (0..3)
            .flat_map(|i| expected.floats(&format!("logits.{i}")))
            .collect();
        let got: Vec<f32> = logits.iter().flatten().copied().collect();
        assert_close(&got, &want);

        // Token by token, hidden states.
        for (i, tokens) in tokens.iter().enumerate() {
            engine.truncate(seqs[i], 0);
            let mut last = Vec::new();
            for token in tokens {
                let item = Append {
                    seq: seqs[i],
                    tokens: &[*token],
                    want: Want::Last,
                };
                last = engine
                    .forward(&[item], Output::Hidden)
                    .unwrap()
                    .row(0)
                    .to_vec();
            }
            assert_close(&last, &expected.floats(&format!("hidden.{i}")));
        }
    }
}

#[test]
fn llama_with_all_biases_in_float32() {
    check("llama");
}

#[test]
fn qwen2_tied_in_bfloat16() {
    check("qwen2");
}

#[test]
fn qwen3_sharded_in_float16() {
    check("qwen3");
}
