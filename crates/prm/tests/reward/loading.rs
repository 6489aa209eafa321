//! From a checkpoint directory, and what is wrong with one.

use std::path::Path;

use beamgen_engine::{EngineConfig, Tensor, ThreadPool, Weights};
use beamgen_prm::{Error, Head, RewardModel, same_tokenizer};

use crate::models::*;
use crate::tiny;

fn head_tensors(hidden: usize) -> Vec<(String, Tensor)> {
    let tensor = |name: &str, shape: &[usize], data| {
        let shape = shape.to_vec();
        (name.to_owned(), Tensor { shape, data })
    };
    vec![
        tensor("score.weight", &[1, hidden], vec![0.5; hidden]),
        tensor("score.bias", &[1], vec![-1.0]),
    ]
}

#[test]
fn the_head_is_found_among_the_tensors() {
    let weights = Weights::from_tensors(head_tensors(3)).unwrap();
    let head = Head::load(&spec("\n"), &weights, 3).unwrap();
    assert_eq!(head, Head::new(vec![0.5; 3], -1.0));
    assert!(Head::load(&spec("\n"), &weights, 4).is_err());
    let mut other = spec("\n");
    other.weight = "v_head.weight".into();
    let error = Head::load(&other, &weights, 3).unwrap_err().to_string();
    assert!(error.contains("v_head.weight"), "{error}");
    other = spec("\n");
    other.bias = None;
    let head = Head::load(&other, &weights, 3).unwrap();
    assert_eq!(head, Head::new(vec![0.5; 3], 0.0));
}

#[test]
fn a_step_token_must_be_one_token() {
    let engine = || tiny::engine(&tiny::model(100), 10);
    let hidden = engine().model().config().hidden_size;
    let make = |step_token: &str, width: usize| {
        let head = Head::new(vec![0.0; width], 0.0);
        RewardModel::new(
            engine(),
            tiny::tokenizer(),
            &spec(step_token),
            head,
            renderer(),
        )
    };
    assert!(make("\n", hidden).is_ok());
    assert!(make("\n\n", hidden).is_ok());
    let error = make("a\n", hidden).unwrap_err();
    assert!(matches!(error, Error::StepToken { count: 2, .. }));
    let error = make("\n", hidden + 1).unwrap_err();
    assert!(matches!(error, Error::HeadWidth { .. }));
}

#[test]
fn a_directory_without_its_files_is_an_error_that_names_them() {
    let dir = tempfile::tempdir().unwrap();
    let load = |dir: &Path| {
        let config = EngineConfig::default();
        let pool = ThreadPool::new(1);
        RewardModel::load(dir, config, pool, tiny::tokenizer(), renderer())
            .unwrap_err()
            .to_string()
    };
    assert!(load(dir.path()).contains("prm.json"));
    let spec = serde_json::to_string(&spec("\n")).unwrap();
    std::fs::write(dir.path().join("prm.json"), spec).unwrap();
    assert!(load(dir.path()).contains("safetensors"));
}

#[test]
fn tokenizers_are_the_same_if_their_files_are() {
    let (a, b) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    tiny::write_tokenizer(a.path(), None);
    assert!(same_tokenizer(a.path(), b.path()).is_err());
    tiny::write_tokenizer(b.path(), Some(tiny::TEMPLATE));
    assert!(same_tokenizer(a.path(), b.path()).unwrap());
    std::fs::write(b.path().join("tokenizer.json"), "{}").unwrap();
    assert!(!same_tokenizer(a.path(), b.path()).unwrap());
}
