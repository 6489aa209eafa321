//! Compares tokens that files next to `tokenizer.json` declare with those of `transformers` 5.

use std::fs;
use std::path::Path;

use crate::common::{fixture, tiny_config};
use beamgen_engine::{Error, ModelConfig, Tokenizer};
use serde_json::{Value, json};

/// The first free id after the vocabulary and the three tokens that the file adds itself.
const NEXT: u32 = 40;

fn cases() -> Value {
    let text = fs::read_to_string(fixture("tokens/cases.json")).unwrap();
    serde_json::from_str(&text).unwrap()
}

fn write(dir: &Path, files: &Value) {
    for (name, value) in files.as_object().unwrap() {
        fs::write(dir.join(name), value.to_string()).unwrap();
    }
}

/// Loads the first case's tokenizer with other files next to it.
fn with(files: &Value) -> Result<Tokenizer, Error> {
    let dir = tempfile::tempdir().unwrap();
    let tokenizer = json!({"tokenizer.json": cases()["tokenizers"]["llama"]});
    write(dir.path(), &tokenizer);
    write(dir.path(), files);
    Tokenizer::load(dir.path())
}

#[test]
fn as_transformers_adds_them() {
    let all = cases();
    let mut wrong = Vec::new();
    for case in all["cases"].as_array().unwrap() {
        let mut files = case["files"].clone();
        if let Some(kind) = files["tokenizer.json"].as_str().map(str::to_owned) {
            files["tokenizer.json"] = all["tokenizers"][&kind].clone();
        }
        let dir = tempfile::tempdir().unwrap();
        write(dir.path(), &files);
        let tokenizer = Tokenizer::load(dir.path()).unwrap();
        let texts = all["texts"].as_array().unwrap().iter();
        let tokens: Vec<Vec<u32>> = texts
            .map(|text| tokenizer.encode(text.as_str().unwrap(), false).unwrap())
            .collect();
        let added = tokenizer.inner().get_added_vocabulary();
        let mut added: Vec<_> = added.get_added_tokens_decoder().iter().collect();
        added.sort_by_key(|(id, _)| **id);
        let added: Vec<Value> = added
            .into_iter()
            .map(|(id, t)| {
                json!([
                    id,
                    t.content,
                    t.special,
                    t.lstrip,
                    t.rstrip,
                    t.normalized,
                    t.single_word
                ])
            })
            .collect();
        if json!(tokens) != case["tokens"] || json!(added) != case["added"] {
            let expected = (&case["tokens"], &case["added"]);
            wrong.push(format!(
                "{}:\n {} {}\n {expected:?}",
                case["name"],
                json!(tokens),
                json!(added)
            ));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn a_declared_token_is_known_in_every_way() {
    let decoder = json!({"40": {"content": "<new>", "special": true}});
    let config = json!({"added_tokens_decoder": decoder, "eos_token": "<new>"});
    let tokenizer = with(&json!({"tokenizer_config.json": config})).unwrap();
    assert_eq!(tokenizer.encode("<new>", false).unwrap(), [NEXT]);
    assert!(tokenizer.is_special(NEXT) && tokenizer.is_eos(NEXT));
    assert_eq!(tokenizer.token_bytes(NEXT), b"<new>");
    assert_eq!(tokenizer.len(), NEXT as usize + 1);
    assert_eq!(tokenizer.decode(&[0, NEXT], true).unwrap(), "a");
}

/// A token without a row in the embedding would be read from other memory.
#[test]
fn a_declared_token_without_a_row_is_refused_by_name() {
    let decoder = json!({"40": {"content": "<new>"}});
    let config = json!({"added_tokens_decoder": decoder});
    let tokenizer = with(&json!({"tokenizer_config.json": config})).unwrap();
    let model = |vocab_size| ModelConfig {
        vocab_size,
        ..tiny_config()
    };
    tokenizer.check(&model(41)).unwrap();
    let error = tokenizer.check(&model(40)).unwrap_err().to_string();
    assert!(
        error.contains("41 tokens") && error.contains("\"<new>\""),
        "{error}"
    );
}

/// `transformers` gives a padding token outside the vocabulary a new id. If the model has no row
/// for that id, the token is encoded as plain text.
#[test]
fn a_special_token_without_id_needs_a_row() {
    for (rows, ids) in [(41, 1), (40, 5)] {
        let files = json!({
            "tokenizer_config.json": {"pad_token": "<new>"},
            "config.json": {"model_type": "llama", "vocab_size": rows},
        });
        let tokenizer = with(&files).unwrap();
        assert_eq!(tokenizer.encode("<new>", false).unwrap().len(), ids);
        assert_eq!(tokenizer.special_token("pad_token"), Some("<new>"));
    }
    let error = with(&json!({"tokenizer_config.json": {"eos_token": "<new>"}}));
    let error = error.unwrap_err().to_string();
    assert!(
        error.contains("<new>") && error.contains("eos_token"),
        "{error}"
    );
}

/// `transformers` 4 and 5 read such files in two ways, so a text with a token of two ids is refused.
#[test]
fn files_that_contradict_each_other_are_refused_where_it_counts() {
    let token = |content: &str| json!({"content": content, "special": true});
    for (decoder, bad, good) in [
        (
            json!({"38": token("<new>")}),
            &["<new>"][..],
            &["<A>", "<|end|>"][..],
        ),
        (
            json!({"38": token("<B>"), "39": token("<A>")}),
            &["<A>", "<B>"],
            &["<|end|>"],
        ),
        (json!({"40": token("<A>")}), &["<A>"], &["<B>"]),
        (
            json!({"37": token("<|end|>"), "40": token("<new>")}),
            &[],
            &["<new>", "<A>"],
        ),
    ] {
        let config = json!({"added_tokens_decoder": decoder});
        let config_of = |kind: &str| json!({"tokenizer_config.json": config, "config.json": {"model_type": kind}});
        let tokenizer = with(&config_of("qwen2")).unwrap();
        for text in bad {
            for error in [
                tokenizer.encode(&format!("a{text}"), false).unwrap_err(),
                tokenizer.encode_pair("a", text).unwrap_err(),
            ] {
                let error = error.to_string();
                assert!(
                    error.contains("tokenizer.json: tokenizer_config.json gives"),
                    "{error}"
                );
                assert!(error.contains(&format!("{text:?}")), "{error}");
            }
        }
        for text in good {
            let tokens = tokenizer.encode(text, false).unwrap();
            assert_eq!(tokens, [tokenizer.id(text).unwrap()]);
        }
        assert!(
            with(&config_of("llama"))
                .unwrap()
                .encode("<A><B><new>", false)
                .is_ok()
        );
    }
}

#[test]
fn broken_lists_are_named() {
    for (file, text, field) in [
        (
            "tokenizer_config.json",
            json!({"added_tokens_decoder": {"x": {"content": "<new>"}}}),
            "added_tokens_decoder",
        ),
        (
            "tokenizer_config.json",
            json!({"added_tokens_decoder": {"40": "<new>"}}),
            "added_tokens_decoder",
        ),
        (
            "tokenizer_config.json",
            json!({"added_tokens_decoder": []}),
            "added_tokens_decoder",
        ),
        ("added_tokens.json", json!({"<new>": "40"}), "<new>"),
    ] {
        let error = with(&json!({file: text})).unwrap_err().to_string();
        assert!(error.contains(file) && error.contains(field), "{error}");
    }
}
