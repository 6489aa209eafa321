//! Training from a checkpoint, compared with `transformers` and torch
//! (`tests/fixtures/train/make_losses.py`).

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use beamgen_engine::{
    Append, Engine, EngineConfig, Model, ModelConfig, Output, Want, WeightType, Weights,
};
use beamgen_train::candle_core::Tensor;
use beamgen_train::tune::{
    Data, Decay, Decoder, Example, Features, Fit, Input, Lora, Recipe, Report, Trained, fit,
};

const STEPS: usize = 20;
const BATCH: usize = 4;

fn fixture(name: &str) -> PathBuf {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/fixtures")).join(name)
}

fn open(name: &str) -> (ModelConfig, Weights) {
    let folder = fixture(name);
    (
        ModelConfig::load(folder.as_path()).unwrap(),
        Weights::load(folder.as_path()).unwrap(),
    )
}

/// Returns the examples that `make_losses.py` computes too.
fn examples(vocab: usize) -> Vec<Example> {
    let example = |i: usize| {
        let n = 8 + i * 5 % 17;
        let ids: Vec<u32> = (0..n)
            .map(|t| ((i * 31 + t * t * 7 + 11 * t) % vocab) as u32)
            .collect();
        let next = (n / 2..n - 1)
            .map(|t| (t as u32, ids[t + 1], 1.0))
            .collect();
        Example {
            ids,
            next,
            ..Example::default()
        }
    };
    (0..STEPS * BATCH).map(example).collect()
}

/// The recipe of `make_losses.py`.
fn recipe(train: Trained) -> Recipe {
    Recipe {
        train,
        learning_rate: 5e-3,
        warmup: 0.2,
        decay: Decay::Cosine,
        weight_decay: 0.1,
        betas: (0.9, 0.95),
        // Small micro-batches, so that every batch is split.
        micro_tokens: 40,
        ..Recipe::default()
    }
}

/// Trains for `stop_after` updates; returns the losses.
fn losses(
    decoder: &Decoder,
    recipe: &Recipe,
    examples: &[Example],
    features: Option<Features>,
    state: Option<&Path>,
    stop_after: Option<usize>,
) -> Vec<f64> {
    let order = (0..STEPS).map(|s| (BATCH * s..BATCH * (s + 1)).collect());
    let mut losses = Vec::new();
    fit(
        decoder,
        Fit {
            recipe,
            head: None,
            ratio: None,
            data: Data {
                examples,
                train: (0..examples.len()).collect(),
                held_out: Vec::new(),
            },
            features,
            state,
            order: Some(order.collect()),
            stop_after,
            evaluate_every: 100,
        },
        &mut |report| {
            if let Report::Step { loss, .. } = report {
                losses.push(loss);
            }
            Ok(())
        },
    )
    .unwrap();
    losses
}

fn golden() -> BTreeMap<String, Vec<f64>> {
    let text = std::fs::read_to_string(fixture("train/losses.json")).unwrap();
    serde_json::from_str(&text).unwrap()
}

fn close(ours: &[f64], theirs: &[f64], tolerance: f64, what: &str) {
    assert_eq!(ours.len(), theirs.len(), "{what}");
    for (step, (a, b)) in ours.iter().zip(theirs).enumerate() {
        assert!(
            (a - b).abs() < tolerance,
            "{what}, step {step}: {a} against {b}"
        );
    }
}

#[test]
fn the_first_losses_are_those_of_torch_for_every_family() {
    let golden = golden();
    for name in ["llama", "mistral", "qwen2", "qwen3", "phi3", "phi3-partial"] {
        let (config, weights) = open(name);
        let examples = examples(config.vocab_size);
        let decoder = Decoder::load(config, &weights, Trained::ALL, true, 64).unwrap();
        let ours = losses(&decoder, &recipe(Trained::ALL), &examples, None, None, None);
        close(&ours, &golden[&format!("{name} all")], 1e-3, name);
    }
}

#[test]
fn the_losses_over_features_are_those_of_torch_with_frozen_layers() {
    let golden = golden();
    for name in ["llama", "mistral", "qwen2", "qwen3", "phi3", "phi3-partial"] {
        let (config, weights) = open(name);
        let examples = examples(config.vocab_size);
        let dir = tempfile::tempdir().unwrap();
        let features = Features::open(
            &dir.path().join("features"),
            &config,
            Weights::load(fixture(name).as_path()).unwrap(),
            WeightType::Auto,
            1,
            &examples,
            &mut |_, _| (),
        )
        .unwrap();
        let top = Trained::top(1);
        let decoder = Decoder::load(config, &weights, top, true, 64).unwrap();
        let ours = losses(
            &decoder,
            &recipe(top),
            &examples,
            Some(features),
            None,
            None,
        );
        // The outputs of frozen layers are stored in bf16, so the tolerance is larger.
        close(&ours, &golden[&format!("{name} top=1")], 5e-2, name);
    }
}

/// Makes a decoder with adapters whose matrices `A` are those of `make_losses.py`.
fn adapted(name: &str) -> Decoder {
    let (config, weights) = open(name);
    let mut decoder = Decoder::load(config, &weights, Trained::ALL, true, 64).unwrap();
    let lora = Lora {
        rank: 3,
        alpha: 5.0,
    };
    decoder.adapt(lora, 0).unwrap();
    for (name, var) in decoder.vars() {
        if name.ends_with("lora_A.weight") {
            let values = (0..var.elem_count()).map(|n| ((n as f64).sin() / 2.0) as f32);
            let values = Tensor::from_iter(values, var.device()).unwrap();
            var.set(&values.reshape(var.shape()).unwrap()).unwrap();
        }
    }
    decoder
}

#[test]
fn the_losses_of_adapters_are_those_of_peft() {
    let golden = golden();
    for name in ["llama", "qwen2", "phi3"] {
        let decoder = adapted(name);
        let examples = examples(decoder.config.vocab_size);
        let ours = losses(&decoder, &recipe(Trained::ALL), &examples, None, None, None);
        close(&ours, &golden[&format!("{name} lora")], 1e-3, name);
    }
}

#[test]
fn merged_adapters_compute_the_same() {
    for name in ["qwen2", "phi3"] {
        let decoder = adapted(name);
        let examples = examples(decoder.config.vocab_size);
        let recipe = Recipe {
            learning_rate: 5e-2,
            ..recipe(Trained::ALL)
        };
        losses(&decoder, &recipe, &examples, None, None, None);
        let (config, weights) = open(name);
        let own = decoder.tensors().unwrap();
        let tensors = weights.names().map(|name| {
            let mut tensor = weights.tensor(name).unwrap();
            if let Some(own) = own.get(name) {
                let merged: Vec<f32> = own.flatten_all().unwrap().to_vec1().unwrap();
                assert_ne!(merged, tensor.data, "{name}");
                tensor.data = merged;
            }
            (name.to_owned(), tensor)
        });
        let merged = Weights::from_tensors(tensors.collect::<Vec<_>>()).unwrap();
        let merged = Decoder::load(config, &merged, Trained::ALL, true, 64).unwrap();
        let hidden = |decoder: &Decoder| {
            let ids = &examples[3].ids;
            let at: Vec<u32> = (0..ids.len() as u32).collect();
            let hidden = decoder
                .forward(Input::Tokens(ids), ids.len(), Some(&at))
                .unwrap();
            hidden.flatten_all().unwrap().to_vec1::<f32>().unwrap()
        };
        for (a, b) in hidden(&decoder).iter().zip(hidden(&merged)) {
            assert!((a - b).abs() < 1e-4, "{name}: {a} against {b}");
        }
    }
}

#[test]
fn a_decoder_computes_what_the_engine_computes() {
    for name in ["llama", "mistral", "qwen2", "qwen3", "phi3", "phi3-partial"] {
        let (config, weights) = open(name);
        let example = &examples(config.vocab_size)[3];
        let model = Model::load(fixture(name).as_path()).unwrap();
        let mut engine = Engine::new(model.into(), EngineConfig::default()).unwrap();
        let rows: Vec<usize> = vec![2, 5, example.ids.len() - 1];
        let item = Append {
            seq: engine.create(),
            tokens: &example.ids,
            want: Want::At(&rows),
        };
        let expected = engine.forward(&[item], Output::Hidden).unwrap();
        let decoder = Decoder::load(config, &weights, Trained::ALL, true, 64).unwrap();
        let at: Vec<u32> = rows.iter().map(|&row| row as u32).collect();
        let ours = decoder
            .forward(Input::Tokens(&example.ids), example.ids.len(), Some(&at))
            .unwrap()
            .to_vec2::<f32>()
            .unwrap();
        for (ours, expected) in ours.iter().zip(expected.iter()) {
            for (a, b) in ours.iter().zip(expected) {
                assert!((a - b).abs() < 1e-4, "{name}: {a} against {b}");
            }
        }
    }
}

#[test]
fn a_resumed_run_ends_with_the_same_bytes() {
    let dir = tempfile::tempdir().unwrap();
    let (config, weights) = open("qwen2");
    let examples = examples(config.vocab_size);
    let run = |state: &str, stops: &[Option<usize>]| {
        let path = dir.path().join(state);
        let mut all = Vec::new();
        for &stop in stops {
            let load = Decoder::load(config.clone(), &weights, Trained::ALL, true, 64);
            let (decoder, recipe) = (load.unwrap(), recipe(Trained::ALL));
            all.extend(losses(
                &decoder,
                &recipe,
                &examples,
                None,
                Some(&path),
                stop,
            ));
        }
        (all, std::fs::read(path).unwrap())
    };
    let whole = run("whole", &[None]);
    let resumed = run("resumed", &[Some(3), Some(9), None]);
    assert_eq!(whole.0, resumed.0);
    assert!(whole.1 == resumed.1);
}
