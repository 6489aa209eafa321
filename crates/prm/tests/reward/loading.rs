//! Loads checkpoint folders, correct and faulty ones.

use std::path::Path;

use beamgen_engine::ThreadPool;
use beamgen_prm::{
    Classes, Error, Head, HeadSpec, Normaliser, PrmSpec, RewardModel, Tokenise, same_tokenizer,
};

use crate::models::*;
use crate::tiny;

fn make(spec: &PrmSpec, width: usize) -> Result<RewardModel, Error> {
    let engine = tiny::engine(&tiny::model(100), 10);
    let head = Head::linear(vec![0.0; width], 0.0);
    RewardModel::new(engine, None, tiny::tokenizer(), spec, Some(head))
}

fn unfit(spec: &PrmSpec) -> String {
    let width = tiny::model(100).config().hidden_size;
    let error = make(spec, width).unwrap_err();
    assert!(matches!(error, Error::Unfit { .. }), "{error}");
    let text = error.to_string();
    assert!(!text.contains('\n'), "{text}");
    text
}

#[test]
fn a_step_token_must_be_one_token() {
    let hidden = tiny::model(100).config().hidden_size;
    assert!(make(&spec("\n"), hidden).is_ok());
    assert!(make(&spec("\n\n"), hidden).is_ok());
    let error = unfit(&spec("a\n"));
    assert!(
        error.contains("step.tag") && error.contains("2 tokens"),
        "{error}"
    );
    let error = make(&spec("\n"), hidden + 1).unwrap_err().to_string();
    assert!(error.contains("`head`"), "{error}");
}

#[test]
fn a_spec_that_cannot_be_run_is_named_with_its_field() {
    let plain = || {
        let mut plain = spec("\n");
        plain.step = Default::default();
        plain.step.text = "{{ step }}\n".into();
        plain
    };
    let hidden = tiny::model(100).config().hidden_size;
    // `.` and the newline are one token here, but it stays inside its segment.
    assert!(make(&plain(), hidden).is_ok());

    let mut other = plain();
    other.step.tag = Some("?".into());
    assert!(unfit(&other).contains("step.tag"), "{}", unfit(&other));

    other = plain();
    other.step.text = "{{ stp }}\n".into();
    assert!(unfit(&other).contains("step.text"), "{}", unfit(&other));
    other.step.text = "{{ step }".into();
    assert!(unfit(&other).contains("step.text"), "{}", unfit(&other));
    other.step.text = "a\n".into();
    assert!(unfit(&other).contains("step.text"), "{}", unfit(&other));

    other = plain();
    other.prompt.text = Some("{{ question }}".into());
    assert!(unfit(&other).contains("`prompt`"), "{}", unfit(&other));

    // The step's last `.` and the newline before the next step would be one token.
    other = plain();
    other.step.text = "\n{{ step }}".into();
    let error = unfit(&other);
    assert!(error.contains("step.tokenise"), "{error}");
    other.step.tokenise = Tokenise::Pieces;
    other.step.separator = Some("\n".into());
    assert!(make(&other, hidden).is_ok());

    other = plain();
    other.normaliser = Normaliser::Softmax(Classes::One(1));
    assert!(unfit(&other).contains("normaliser"), "{}", unfit(&other));

    other = plain();
    other.head = HeadSpec::LogRatio(beamgen_prm::LogRatio { beta: 1.0 });
    assert!(
        unfit(&other).contains("head.log-ratio"),
        "{}",
        unfit(&other)
    );

    // The template of this tiny model writes only the first message of a chat.
    other = plain();
    other.prompt.text = None;
    assert!(unfit(&other).contains("`prompt`"), "{}", unfit(&other));
    other.step.turns = true;
    other.step.verdict = Some("+".into());
    assert!(unfit(&other).contains("step.turns"), "{}", unfit(&other));
}

#[test]
fn a_directory_without_its_files_is_an_error_that_names_them() {
    let dir = tempfile::tempdir().unwrap();
    let load = |dir: &Path| {
        let config = on_cpu();
        RewardModel::load(dir, None, None, config, ThreadPool::new(1))
            .unwrap_err()
            .to_string()
    };
    assert!(load(dir.path()).contains("config.json"));
    let fixtures = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/fixtures/prm");
    let config = Path::new(fixtures).join("step-token/config.json");
    std::fs::copy(config, dir.path().join("config.json")).unwrap();
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

/// A template may ask for the date, and the same chain must be the same tokens tomorrow.
#[test]
fn the_date_of_a_chat_template_can_be_set() {
    let dir = tempfile::tempdir().unwrap();
    let template = "{{ strftime_now('%d %m %Y') }}\n\
        {% for message in messages %}{{ message.content }}\n{% endfor %}";
    tiny::write_tokenizer(dir.path(), Some(template));
    let tokenizer = std::sync::Arc::new(beamgen_engine::Tokenizer::load(dir.path()).unwrap());
    let written = |date: &str| {
        let engine = tiny::engine(&tiny::model(100), 10);
        let mut spec = spec("\n");
        spec.prompt.text = None;
        spec.prompt.date = Some(date.to_owned());
        let head = Head::linear(vec![0.0; engine.model().config().hidden_size], 0.0);
        let model = RewardModel::new(engine, None, tokenizer.clone(), &spec, Some(head))?;
        Ok::<_, Error>(model.written("a", &["b"]).unwrap().tokens)
    };
    let tokens = written("2026-01-31").unwrap();
    let text = tokenizer.decode(&tokens, false).unwrap();
    assert!(text.starts_with("31 01 2026\na"), "{text}");
    let error = written("yesterday").unwrap_err().to_string();
    assert!(error.contains("prompt.date"), "{error}");
}
