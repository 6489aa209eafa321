//! Sequence classifiers as reward models: the scores of `transformers`, and what is refused.

#[path = "../../engine/tests/common/every_field.rs"]
#[allow(dead_code, reason = "what decoders list is not for classifiers")]
mod every_field;

use std::path::{Path, PathBuf};

use beamgen_candle_backend::CandleClassifier;
use beamgen_engine::Checkpoint;
use beamgen_search::{Problem, ScoreError, ScoreItem, Scorer, StepRef};
use candle_core::{Device, Tensor, safetensors};
use every_field::{EVERYWHERE, Inert, Tally};
use serde_json::Value;

/// A fixture, made by `make_classifiers.py`: the scores that `transformers` gives to the steps of a
/// chain, and the number of tokens that it read for each step.
#[derive(serde::Deserialize)]
struct Scores {
    problem: String,
    steps: Vec<String>,
    scores: Vec<f32>,
    tokens: Vec<usize>,
}

fn fixtures() -> Vec<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let folders = std::fs::read_dir(root.join("tests/classifiers")).unwrap();
    folders.map(|entry| entry.unwrap().path()).collect()
}

fn problem(text: &str) -> Problem {
    Problem {
        id: "p".into(),
        text: text.into(),
        answer: None,
        ..Problem::default()
    }
}

fn item(id: beamgen_search::ScoreId, steps: &[String]) -> ScoreItem<'_> {
    let step = |text| StepRef {
        text,
        tokens: &[],
        finish: None,
    };
    ScoreItem {
        id,
        steps: steps.iter().map(|text| step(text)).collect(),
    }
}

fn load(folder: &Path) -> Result<impl Scorer + use<>, beamgen_candle_backend::Error> {
    CandleClassifier::open(&Checkpoint::from(folder))?.load(u64::MAX)
}

#[test]
fn scores_are_those_of_transformers() {
    let folders = fixtures();
    assert_eq!(folders.len(), 6);
    for folder in folders {
        let mut scorer = load(&folder).unwrap();
        let text = std::fs::read_to_string(folder.join("scores.json")).unwrap();
        let chains: Vec<Scores> = serde_json::from_str(&text).unwrap();
        for chain in &chains {
            let whole = scorer.open(&problem(&chain.problem), 0).unwrap();
            let results = scorer.score(&[item(whole, &chain.steps)]).unwrap();
            let scored = results[0].as_ref().unwrap();
            let found = scored.probabilities.iter().flatten();
            for (found, wanted) in found.zip(&chain.scores) {
                let (name, off) = (folder.display(), (found - wanted).abs());
                assert!(off < 1e-5, "{name}: {found}, not {wanted}");
            }
            assert_eq!(scored.read_tokens, chain.tokens.iter().sum::<usize>());
        }
    }
}

#[test]
fn a_chain_longer_than_the_context_fails_alone() {
    for folder in fixtures() {
        let mut scorer = load(&folder).unwrap();
        let (long, short) = (problem(&"12 ".repeat(400)), problem("12"));
        let (long, short) = (
            scorer.open(&long, 0).unwrap(),
            scorer.open(&short, 1).unwrap(),
        );
        let steps = ["34 - 5 = 29\n".to_owned()];
        let results = scorer
            .score(&[item(long, &steps), item(short, &steps)])
            .unwrap();
        let too_long = matches!(results[0], Err(ScoreError::TooLong { context: 200, .. }));
        assert!(too_long, "{}: {:?}", folder.display(), results[0]);
        assert!(results[1].is_ok());
    }
}

/// Adds a third label that always has the logit of the first label.
fn with_third_label(folder: &Path) {
    let file = folder.join("model.safetensors");
    let mut tensors = safetensors::load(&file, &Device::Cpu).unwrap();
    let of_labels = |name: &str| name.starts_with("classifier") && !name.contains("dense");
    for (_, tensor) in tensors.iter_mut().filter(|(name, _)| of_labels(name)) {
        let first = tensor.narrow(0, 0, 1).unwrap();
        *tensor = Tensor::cat(&[&*tensor, &first], 0).unwrap();
    }
    safetensors::save(&tensors, file).unwrap();
}

/// A model of entailment reads the context with the earlier steps as premise and the step as
/// hypothesis. The expected scores with three labels are computed from the scores that
/// `transformers` gives with two.
#[test]
fn a_model_of_entailment_says_whether_a_step_follows_from_the_context() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/classifiers");
    for family in ["deberta-v2", "modernbert", "xlm-roberta"] {
        let folder = root.join(family);
        let two = edited(&folder, |config| {
            config["id2label"] = serde_json::json!({"0": "Entailment", "1": "not_entailment"});
        });
        let three = edited(&folder, |config| {
            config["id2label"] =
                serde_json::json!({"0": "contradiction", "1": "ENTAILMENT", "2": "neutral"});
        });
        with_third_label(three.path());
        let opened = CandleClassifier::open(&Checkpoint::from(three.path())).unwrap();
        assert_eq!((opened.label(), opened.entails()), ("ENTAILMENT", true));
        let text = std::fs::read_to_string(folder.join("scores.json")).unwrap();
        let chains: Vec<Scores> = serde_json::from_str(&text).unwrap();
        let mut right = load(&folder).unwrap();
        for (labels, expected) in [
            (&two, (|right| 1.0 - right) as fn(f32) -> f32),
            (&three, |right| right / (2.0 - right)),
        ] {
            let mut scorer = load(labels.path()).unwrap();
            for chain in &chains {
                let given = Problem {
                    context: vec!["Given.".to_owned(), chain.problem.clone()],
                    ..problem("Not read: 日本")
                };
                let id = scorer.open(&given, 0).unwrap();
                let results = scorer.score(&[item(id, &chain.steps)]).unwrap();
                let found = results[0].as_ref().unwrap().probabilities.clone();
                let mut premise = format!("Given.\n\n{}\n\n", chain.problem);
                for (found, step) in found.iter().zip(&chain.steps) {
                    let pair = right.open(&problem(premise.trim_end()), 0).unwrap();
                    let results = right.score(&[item(pair, std::slice::from_ref(step))]);
                    let known = results.unwrap()[0].as_ref().unwrap().probabilities[0];
                    let off = (found.unwrap() - expected(known.unwrap())).abs();
                    assert!(off < 1e-5, "{family}: {off}");
                    premise += step;
                }
                assert_eq!(found.len(), chain.steps.len());
            }
            // Here the context is the text of a problem in the fixture, so the score is that of the
            // fixture.
            let alone = Problem {
                context: vec![chains[0].problem.clone()],
                ..Problem::default()
            };
            let id = scorer.open(&alone, 0).unwrap();
            let first = std::slice::from_ref(&chains[0].steps[0]);
            let results = scorer.score(&[item(id, first)]).unwrap();
            let found = results[0].as_ref().unwrap().probabilities[0].unwrap();
            assert!((found - expected(chains[0].scores[0])).abs() < 1e-5);
            // Without context there is no premise, so the model abstains and reads nothing.
            let id = scorer.open(&problem("12 * 3"), 0).unwrap();
            let results = scorer.score(&[item(id, &chains[1].steps)]).unwrap();
            let scored = results[0].as_ref().unwrap();
            assert_eq!(scored.probabilities, [None, None, None]);
            assert_eq!(scored.read_tokens, 0);
        }
    }
}

/// Copies a fixture to a temporary folder and edits its `config.json`.
fn edited(folder: &Path, edit: impl FnOnce(&mut Value)) -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    for file in [
        "model.safetensors",
        "tokenizer.json",
        "tokenizer_config.json",
    ] {
        std::fs::copy(folder.join(file), dir.path().join(file)).unwrap();
    }
    let text = std::fs::read_to_string(folder.join("config.json")).unwrap();
    let mut config: Value = serde_json::from_str(&text).unwrap();
    edit(&mut config);
    std::fs::write(dir.path().join("config.json"), config.to_string()).unwrap();
    dir
}

fn refusal(family: &str, edit: impl FnOnce(&mut Value)) -> String {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/classifiers");
    match load(edited(&root.join(family), edit).path()) {
        Ok(_) => panic!("{family} is taken"),
        Err(error) => error.to_string(),
    }
}

#[test]
fn what_candle_would_compute_otherwise_is_refused_by_name() {
    let refused = |family, edit: fn(&mut Value), word: &str| {
        let message = refusal(family, edit);
        assert!(message.contains(word), "{message}");
        assert_eq!(message.lines().count(), 1, "{message}");
    };
    refused(
        "xlm-roberta",
        |config| config["position_embedding_type"] = "relative_key".into(),
        "position_embedding_type",
    );
    refused(
        "xlm-roberta",
        |config| config["is_decoder"] = true.into(),
        "is_decoder",
    );
    refused(
        "deberta-v2",
        |config| config["conv_kernel_size"] = 3.into(),
        "conv_kernel_size",
    );
    refused(
        "modernbert",
        |config| config["classifier_activation"] = "relu".into(),
        "classifier_activation",
    );
    refused(
        "modernbert",
        |config| config["layer_types"][1] = "full_attention".into(),
        "layer_types",
    );
    refused(
        "modernbert",
        |config| config["id2label"] = serde_json::json!({"0": "right"}),
        "one label",
    );
    refused(
        "deberta-v2",
        |config| config["id2label"]["2"] = "unsure".into(),
        "called \"entailment\"",
    );
    refused(
        "deberta-v2",
        |config| config["problem_type"] = "multi_label_classification".into(),
        "problem_type",
    );
    refused(
        "deberta-v2",
        |config| config["architectures"][0] = "DebertaV2ForMaskedLM".into(),
        "DebertaV2ForSequenceClassification",
    );
    refused(
        "deberta-v2",
        |config| config["num_hidden_layers"] = 2.into(),
        "has no tensor deberta.encoder.layer.2",
    );
}

#[rustfmt::skip]
const INERT: &[Inert] = &[
    Inert { of: &[], reason: "one class is enough", fields: &["architectures"] },
    Inert { of: &[], reason: "used in training only", fields: &[
        "attention_probs_dropout_prob", "hidden_dropout_prob", "pooler_dropout", "cls_dropout", "classifier_dropout",
        "attention_dropout", "embedding_dropout", "mlp_dropout", "initializer_cutoff_factor"] },
    Inert { of: &[], reason: "of the head that predicts words", fields: &[
        "tie_word_embeddings", "decoder_bias", "sparse_prediction", "sparse_pred_ignore_index", "legacy"] },
    Inert { of: &["deberta-v2*", "modernbert*"], reason: "is no decoder in any case", fields: &["is_decoder"] },
    Inert { of: &["xlm-roberta*"], reason: "of decoders", fields: &["use_cache"] },
    Inert { of: &["deberta-v2*", "modernbert*"], reason: "no text is padded", fields: &["pad_token_id", "cls_token_id"] },
    Inert { of: &["deberta-v2*", "xlm-roberta*"], reason: "nothing is rotated", fields: &["rope_scaling"] },
    Inert { of: &["deberta-v2*"], reason: "without convolution, which is refused", fields: &["conv_act", "conv_groups"] },
    Inert { of: &["deberta-v2*"], reason: "below 1 it is max_position_embeddings", fields: &["max_relative_positions=0"] },
    Inert { of: &["deberta-v2*"], reason: "the order does not matter, nor other names", fields: &[
        "pos_att_type=[\"c2p\",\"p2c\"]", "pos_att_type=[\"p2c\",\"c2p\",\"p2cx\"]"] },
    Inert { of: &["modernbert*"], reason: "layer_types says it", fields: &["global_attn_every_n_layers=null", "global_attn_every_n_layers=4", "global_attn_every_n_layers=8"] },
    Inert { of: &["modernbert*"], reason: "half of it, rounded down, is used", fields: &["local_attention=17"] },
    Inert { of: &["modernbert*"], reason: "how it is computed, and nothing else", fields: &[
        "deterministic_flash_attn", "reference_compile", "repad_logits_with_grad"] },
    Inert { of: &["modernbert*"], reason: "it cannot be pruned", fields: &["pruned_heads"] },
    Inert { of: &[], reason: "the number of labels counts, and whether one excludes the other", fields: &[
        "problem_type=\"regression\"", "problem_type=\"single_label_classification\"", "problem_type=\"multi_label_classification\""] },
];

#[test]
fn no_field_is_passed_over() {
    let mut tally = Tally::default();
    for folder in fixtures() {
        let name = folder.file_name().unwrap().to_string_lossy().into_owned();
        let text = std::fs::read_to_string(folder.join("config.json")).unwrap();
        let dir = edited(&folder, |_| {});
        tally.add(
            &name,
            &serde_json::from_str(&text).unwrap(),
            &[EVERYWHERE, INERT],
            |config| {
                std::fs::write(dir.path().join("config.json"), config.to_string()).unwrap();
                let model = CandleClassifier::open(&Checkpoint::from(dir.path()));
                let model = model.map_err(|error| error.to_string())?;
                let (context, label) = (model.context(), model.label().to_owned());
                let mut scorer = model.load(u64::MAX).map_err(|error| error.to_string())?;
                let id = scorer
                    .open(&problem("Mia has 34 pens, and 12 more."), 0)
                    .unwrap();
                let steps = [
                    "Mia: 34 + 12 = 46.\n".to_owned(),
                    "The answer is 46.\n".to_owned(),
                ];
                let results = scorer.score(&[item(id, &steps)]).unwrap();
                let scored = results[0]
                    .as_ref()
                    .map_err(|error| format!("late:\n{error}"))?;
                Ok((context, label, scored.probabilities.clone()))
            },
        );
    }
    tally.check(&[EVERYWHERE, INERT]);
}

/// Sets each field to many values: the model is refused or works, but never panics.
#[test]
fn no_configuration_brings_it_down() {
    let wrong = [
        0.into(),
        3.into(),
        (1_u64 << 40).into(),
        1e30.into(),
        Value::Null,
        "x".into(),
    ];
    let mut refused = 0;
    for folder in fixtures() {
        let text = std::fs::read_to_string(folder.join("config.json")).unwrap();
        let config: Value = serde_json::from_str(&text).unwrap();
        let fields = config.as_object().unwrap().keys();
        for (field, value) in fields.flat_map(|f| wrong.iter().map(move |w| (f, w))) {
            let dir = edited(&folder, |config| config[field] = value.clone());
            let Ok(mut scorer) = load(dir.path()) else {
                refused += 1;
                continue;
            };
            let id = scorer.open(&problem("12 * 3"), 0).unwrap();
            let results = scorer.score(&[item(id, &["36\n".to_owned()])]).unwrap();
            if let Ok(scored) = &results[0] {
                assert!(scored.probabilities[0].is_some_and(|p| (0.0..=1.0).contains(&p)));
            }
        }
    }
    assert!(refused > 200, "{refused}");
}
