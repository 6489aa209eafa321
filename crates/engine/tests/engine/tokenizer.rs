//! The tokenizer wrapper on the fixture's byte-level BPE.

use std::fs;

use crate::common::{fixture, tiny_config};
use beamgen_engine::{
    ChatTemplate, Error, GenerationDefaults, ModelConfig, SamplingSettings, Tokenizer,
};
use serde_json::{Value, json};

fn load() -> Tokenizer {
    Tokenizer::load(&fixture("tokenizer")).unwrap()
}

/// Loads a copy of the fixture's tokenizer in which `text` replaces the contents of `file`.
fn with(file: &str, text: &str) -> Result<Tokenizer, Error> {
    let dir = tempfile::tempdir().unwrap();
    for entry in fs::read_dir(fixture("tokenizer")).unwrap() {
        let entry = entry.unwrap();
        fs::copy(entry.path(), dir.path().join(entry.file_name())).unwrap();
    }
    fs::write(dir.path().join(file), text).unwrap();
    Tokenizer::load(dir.path())
}

#[test]
fn encodes_as_the_python_tokenizer_did() {
    let tokenizer = load();
    let expected: Value =
        serde_json::from_str(&fs::read_to_string(fixture("tokenizer/expected.json")).unwrap())
            .unwrap();
    let text = expected["text"].as_str().unwrap();
    let ids = tokenizer.encode(text, false).unwrap();
    assert_eq!(json!(ids), expected["tokens"]);
    assert_eq!(tokenizer.decode(&ids, false).unwrap(), text);
    assert_eq!(
        tokenizer.decode(&ids, true).unwrap(),
        text.replace("<|end|>", "")
    );
}

#[test]
fn bytes_of_tokens_join_to_the_text() {
    let tokenizer = load();
    for text in [
        "- Leo: 34 + 8 = 42.\n",
        "é日本語🙂",
        "\n\n\t  x",
        "a<|end|>b",
        "\u{0}\u{7f}\u{ad}",
    ] {
        let ids = tokenizer.encode(text, false).unwrap();
        let bytes: Vec<u8> = ids
            .iter()
            .flat_map(|id| tokenizer.token_bytes(*id))
            .copied()
            .collect();
        assert_eq!(bytes, text.as_bytes());
    }
    assert_eq!(tokenizer.token_bytes(u32::MAX), b"");
    let newline = tokenizer.encode("\n", false).unwrap();
    assert_eq!(tokenizer.token_bytes(newline[0]), b"\n");
}

#[test]
fn knows_what_a_chat_needs() {
    let tokenizer = load();
    assert_eq!(tokenizer.eos_ids(), [1]);
    assert!(tokenizer.is_eos(1) && tokenizer.is_special(1) && !tokenizer.is_special(5));
    assert_eq!(tokenizer.special_token("bos_token"), Some("<|begin|>"));
    assert_eq!(tokenizer.special_token("eos_token"), Some("<|end|>"));
    assert_eq!(tokenizer.id("<|user|>"), Some(2));
    assert_eq!(tokenizer.token(2).as_deref(), Some("<|user|>"));
    assert!(tokenizer.chat_template().unwrap().contains("messages"));
}

/// The expected 24 tokens are those of `transformers` 5.23 for this chat (`apply_chat_template(...,
/// add_generation_prompt=True)`), with any of the settings below.
#[test]
fn truncation_and_padding_of_the_file_do_not_change_a_chat() {
    let bundled = concat!(env!("CARGO_MANIFEST_DIR"), "/../../models/abacus/generator");
    let question = "Mia has 34 pens. Leo has 8 pens more than Mia. How many pens does Leo have?";
    let tokens = |field: &str, value: Value| {
        let dir = tempfile::tempdir().unwrap();
        for file in ["tokenizer_config.json", "config.json"] {
            fs::copy(format!("{bundled}/{file}"), dir.path().join(file)).unwrap();
        }
        let text = fs::read_to_string(format!("{bundled}/tokenizer.json")).unwrap();
        let mut file: Value = serde_json::from_str(&text).unwrap();
        file[field] = value;
        fs::write(dir.path().join("tokenizer.json"), file.to_string()).unwrap();
        let tokenizer = Tokenizer::load(dir.path()).unwrap();
        let template = ChatTemplate::of(&tokenizer).unwrap();
        let prompt = template.prompt(None, question).unwrap();
        tokenizer.encode(&prompt, false).unwrap()
    };
    let plain = tokens("truncation", Value::Null);
    assert_eq!(plain.len(), 24);
    let truncation = json!({"direction": "Right", "max_length": 16,
        "strategy": "LongestFirst", "stride": 0});
    assert_eq!(tokens("truncation", truncation), plain);
    // Encoding with this stride would make the crate `tokenizers` panic.
    let stride = json!({"direction": "Right", "max_length": 4,
        "strategy": "LongestFirst", "stride": 9});
    assert_eq!(tokens("truncation", stride), plain);
    for length in [200, 100_000_000] {
        let padding = json!({"strategy": {"Fixed": length}, "direction": "Right",
            "pad_to_multiple_of": null, "pad_id": 0, "pad_type_id": 0, "pad_token": "<|end|>"});
        assert_eq!(tokens("padding", padding), plain);
    }
}

/// The crate `tokenizers` would panic at these merges, and allocate 32 GB for the table of tokens.
#[test]
fn a_file_that_lies_is_refused() {
    let text = fs::read_to_string(fixture("tokenizer/tokenizer.json")).unwrap();
    let refused = |edit: &dyn Fn(&mut Value), words: &[&str]| {
        let mut file: Value = serde_json::from_str(&text).unwrap();
        edit(&mut file);
        let error = with("tokenizer.json", &file.to_string()).unwrap_err();
        assert!(matches!(error, Error::Tokenizer { .. }), "{error}");
        let error = error.to_string();
        assert!(!error.contains('\n'), "{error}");
        for word in words {
            assert!(error.contains(word), "{error} lacks {word}");
        }
    };
    let long = "a".repeat(100);
    refused(
        &|file| {
            file["model"]["vocab"][&long] = 400.into();
            file["model"]["merges"][3] = json!([long, long]);
        },
        &["tokenizer.json", "merge 3", "makes no token"],
    );
    refused(
        &|file| file["model"]["continuing_subword_prefix"] = "####".into(),
        &["merge 0", "makes no token"],
    );
    refused(
        &|file| file["model"]["vocab"]["!"] = u32::MAX.into(),
        &["\"!\"", "4294967295", "beyond any vocabulary"],
    );
}

/// Files at which the crate `tokenizers` would panic or use gigabytes must give an error, at the
/// latest when a text is encoded.
#[test]
fn files_that_the_crate_would_panic_at_are_errors() {
    let text = fs::read_to_string(fixture("tokenizer/tokenizer.json")).unwrap();
    let file: Value = serde_json::from_str(&text).unwrap();
    let refusal = |text: &str| {
        let encoded = with("tokenizer.json", text).and_then(|t| t.encode(&"ab ™ ".repeat(9), true));
        let error = encoded.expect_err(&text.chars().take(80).collect::<String>());
        let line = error.to_string();
        assert!(line.contains("tokenizer.json"), "{line}");
        assert!(!line.contains('\n') && line.len() < 600, "{line}");
        line
    };
    let edited = |field: &str, value: Value| {
        let mut file = file.clone();
        file[field] = value;
        refusal(&file.to_string())
    };
    // The values of the field `decoder` are not valid JSON.
    for decoder in ["{", "[", "{\"type\": }", "\"\\ud800\"", "1e999"] {
        let mut marked = file.clone();
        marked["decoder"] = "DECODER".into();
        refusal(&marked.to_string().replace("\"DECODER\"", decoder));
    }
    let line = edited("pre_tokenizer", json!({"type": "FixedLength", "length": 0}));
    assert!(line.contains("FixedLength"), "{line}");
    for map in [
        "",
        "AAAA",
        "AAAAAA==",
        "/////w==",
        "////fwAAAAA=",
        "not base64",
    ] {
        let line = edited(
            "normalizer",
            json!({"type": "Precompiled", "precompiled_charsmap": map}),
        );
        assert!(line.contains("Precompiled"), "{line}");
    }
    // The trie has an offset that leads out of it.
    let line = edited(
        "normalizer",
        json!({"type": "Precompiled", "precompiled_charsmap": "BAAAAP////9hAA=="}),
    );
    assert!(line.contains("cannot be used"), "{line}");
    let a = |content: String| json!({"type": "Replace", "pattern": {"String": "a"}, "content": content});
    let four = vec![a("a".repeat(100)); 4];
    let line = edited(
        "normalizer",
        json!({"type": "Sequence", "normalizers": four}),
    );
    assert!(line.contains("bytes of one"), "{line}");
    let line = edited("decoder", json!({"type": "Sequence", "decoders": four}));
    assert!(line.contains("decoder"), "{line}");
    let two = vec![a("a".repeat(300)); 2];
    let long = json!({"type": "Sequence", "normalizers": two});
    let mut grows = file.clone();
    grows["normalizer"] = long;
    let tokenizer = with("tokenizer.json", &grows.to_string()).unwrap();
    assert!(tokenizer.encode("a", false).unwrap().len() > 30_000);
    let error = tokenizer.encode(&"a".repeat(1000), false).unwrap_err();
    assert!(error.to_string().contains("normalised"), "{error}");
    let mut random = file.clone();
    random["model"]["dropout"] = 0.5.into();
    assert!(refusal(&random.to_string()).contains("dropout"));
    // This regular expression may fail, but it must not abort the process.
    let mut regex = file;
    regex["normalizer"] = json!({"type": "Replace", "pattern": {"Regex": "\\G"}, "content": "x"});
    let encoded = with("tokenizer.json", &regex.to_string()).and_then(|t| t.encode("ab", true));
    if let Err(error) = encoded {
        assert!(error.to_string().contains("tokenizer.json"), "{error}");
    }
}

#[test]
fn the_template_of_its_own_file_comes_first() {
    assert_eq!(
        with("chat_template.jinja", "own").unwrap().chat_template(),
        Some("own")
    );
    let list = json!({"chat_template": [
        {"name": "tool_use", "template": "a"}, {"name": "default", "template": "b"}]});
    let object = json!({"chat_template": {"tool_use": "a", "default": "b"}});
    for config in [list, object] {
        let tokenizer = with("tokenizer_config.json", &config.to_string()).unwrap();
        assert_eq!(tokenizer.chat_template(), Some("b"));
    }
}

#[test]
fn templates_without_a_default_are_refused_by_their_names() {
    for (templates, names) in [
        (
            json!([{"name": "chat", "template": "a"}, {"name": "rag", "template": "b"}]),
            "[\"chat\", \"rag\"]",
        ),
        (json!({"rag": "b"}), "[\"rag\"]"),
        (json!({"default": 7}), "[\"default\"]"),
        (json!([]), "[]"),
        (json!(7), "7"),
    ] {
        let config = json!({"chat_template": templates}).to_string();
        let error = with("tokenizer_config.json", &config)
            .unwrap_err()
            .to_string();
        for word in ["tokenizer_config.json", "`chat_template`", names] {
            assert!(error.contains(word), "{error}");
        }
    }
    // `chat_template.jinja` has priority, so the template without a default is not used.
    let dir = tempfile::tempdir().unwrap();
    let file = fixture("tokenizer").join("tokenizer.json");
    fs::copy(file, dir.path().join("tokenizer.json")).unwrap();
    let config = r#"{"chat_template": {"rag": "b"}}"#;
    fs::write(dir.path().join("tokenizer_config.json"), config).unwrap();
    fs::write(dir.path().join("chat_template.jinja"), "own").unwrap();
    let tokenizer = Tokenizer::load(dir.path()).unwrap();
    assert_eq!(tokenizer.chat_template(), Some("own"));
}

#[test]
fn named_tokens_come_from_the_old_map_too() {
    let named = |config: Value| {
        let dir = tempfile::tempdir().unwrap();
        let tokenizer = fixture("tokenizer").join("tokenizer.json");
        fs::copy(tokenizer, dir.path().join("tokenizer.json")).unwrap();
        let map = r#"{"bos_token": {"content": "<|user|>"}, "pad_token": "<|end|>"}"#;
        fs::write(dir.path().join("special_tokens_map.json"), map).unwrap();
        let config = config.to_string();
        fs::write(dir.path().join("tokenizer_config.json"), config).unwrap();
        let tokenizer = Tokenizer::load(dir.path()).unwrap();
        let tokens = tokenizer.special_tokens();
        tokens
            .map(|(name, token)| format!("{name}={token}"))
            .collect::<Vec<_>>()
    };
    let old = json!({"bos_token": "<|begin|>", "eos_token": "<|end|>", "add_bos_token": true});
    assert_eq!(
        named(old),
        [
            "bos_token=<|user|>",
            "eos_token=<|end|>",
            "pad_token=<|end|>"
        ]
    );
    let new = json!({"bos_token": "<|begin|>", "unk_token": null, "added_tokens_decoder": {},
        "extra_special_tokens": {"image_token": "<image>"}});
    assert_eq!(named(new), ["bos_token=<|begin|>", "image_token=<image>"]);
}

#[test]
fn end_of_text_falls_back_from_file_to_file() {
    let tokenizer = with("generation_config.json", "{}").unwrap();
    assert_eq!(
        tokenizer.eos_ids(),
        [1],
        "by the name in tokenizer_config.json"
    );
    let tokenizer = with("generation_config.json", r#"{"eos_token_id": [3, 1]}"#).unwrap();
    assert_eq!(tokenizer.eos_ids(), [3, 1]);
    let error = with("generation_config.json", r#"{"eos_token_id": "x"}"#).unwrap_err();
    assert!(error.to_string().contains("eos_token_id"), "{error}");
}

#[test]
fn sampling_defaults_are_those_of_the_file_if_it_samples() {
    let read = |file: &str| with("generation_config.json", file).map(|t| t.generation().clone());
    let settings = r#""temperature": 0.5, "top_k": 20, "top_p": 0.75, "min_p": 0.25,
        "repetition_penalty": 1.5, "typical_p": 1.0, "num_beams": 1, "suppress_tokens": null"#;
    let samples = read(&format!(r#"{{"do_sample": true, {settings}}}"#)).unwrap();
    let all = SamplingSettings {
        temperature: Some(0.5),
        top_k: Some(20),
        top_p: Some(0.75),
        min_p: Some(0.25),
        repetition_penalty: Some(1.5),
    };
    assert_eq!(samples.sampling, all);
    assert!(samples.notes.is_empty());
    let greedy = read(&format!("{{{settings}}}")).unwrap().sampling;
    let penalty = SamplingSettings {
        repetition_penalty: Some(1.5),
        ..SamplingSettings::default()
    };
    assert_eq!(greedy, penalty);
    assert_eq!(read("{}").unwrap(), GenerationDefaults::default());

    let notes = read(r#"{"no_repeat_ngram_size": 3, "suppress_tokens": [1]}"#).unwrap();
    assert_eq!(notes.notes.len(), 2);
    assert!(notes.notes[0].contains("`no_repeat_ngram_size` = 3"));
    for (field, value) in [
        ("temperature", "-1"),
        ("top_p", "0"),
        ("top_k", "\"all\""),
        ("repetition_penalty", "0.0"),
    ] {
        let error = read(&format!(r#"{{"do_sample": true, "{field}": {value}}}"#)).unwrap_err();
        let line = error.to_string();
        assert!(line.contains("generation_config.json"), "{line}");
        assert!(line.contains(field) && line.contains(value), "{line}");
    }
}

#[test]
fn a_tokenizer_of_another_model_is_refused() {
    let tokenizer = load();
    let config = |vocab_size| ModelConfig {
        vocab_size,
        ..tiny_config()
    };
    let n = tokenizer.len();
    assert!(tokenizer.check(&config(n)).is_ok());
    assert!(
        tokenizer.check(&config(n + 60)).is_ok(),
        "unused ids at the end"
    );
    for vocab in [n - 1, 3 * n] {
        let error = tokenizer.check(&config(vocab)).unwrap_err();
        assert!(matches!(error, Error::TokenizerMismatch { .. }));
        let message = error.to_string();
        assert!(message.contains(&n.to_string()) && message.contains(&vocab.to_string()));
    }
    let error = with("generation_config.json", r#"{"eos_token_id": 99999}"#).unwrap_err();
    assert!(
        matches!(error, Error::TokenizerMismatch { .. }) && error.to_string().contains("99999")
    );
}

#[test]
fn broken_files_are_named() {
    let error = with("tokenizer.json", "{\"model\": 1}").unwrap_err();
    assert!(
        matches!(error, Error::Tokenizer { .. }) && error.to_string().contains("tokenizer.json")
    );
    let error = with("tokenizer_config.json", "{").unwrap_err();
    assert!(
        error.to_string().contains("tokenizer_config.json"),
        "{error}"
    );
    let dir = tempfile::tempdir().unwrap();
    let error = Tokenizer::load(dir.path()).unwrap_err();
    assert!(error.to_string().contains("tokenizer.json"), "{error}");
}

#[test]
fn the_older_pair_of_files_gives_the_tokens_of_transformers() {
    for name in ["vocabulary-qwen2", "vocabulary-gpt2", "vocabulary-space"] {
        let folder = fixture(name);
        assert!(!folder.join("tokenizer.json").exists());
        let tokenizer = Tokenizer::load(&folder).unwrap();
        let expected = fs::read_to_string(folder.join("expected.json")).unwrap();
        let expected: Vec<Value> = serde_json::from_str(&expected).unwrap();
        assert!(expected.len() > 5);
        for row in expected {
            let text = row["text"].as_str().unwrap();
            let tokens = tokenizer.encode(text, false).unwrap();
            assert_eq!(json!(tokens), row["tokens"], "{name}: {text:?}");
        }
    }
}

#[test]
fn an_older_pair_of_files_that_cannot_be_read_says_so() {
    let refused = |file: &str, text: Option<&str>| {
        let dir = tempfile::tempdir().unwrap();
        for entry in fs::read_dir(fixture("vocabulary-qwen2")).unwrap() {
            let entry = entry.unwrap();
            fs::copy(entry.path(), dir.path().join(entry.file_name())).unwrap();
        }
        match text {
            Some(text) => fs::write(dir.path().join(file), text).unwrap(),
            None => fs::remove_file(dir.path().join(file)).unwrap(),
        }
        Tokenizer::load(dir.path()).unwrap_err().to_string()
    };
    let class = r#"{"tokenizer_class": "RobertaTokenizerFast"}"#;
    let bos = r#"{"tokenizer_class": "GPT2Tokenizer", "add_bos_token": true}"#;
    let cases: [(&str, Option<&str>, [&str; 2]); 7] = [
        (
            "merges.txt",
            None,
            ["tokenizer.json", "vocab.json needs merges.txt"],
        ),
        (
            "merges.txt",
            Some("#version: 0.2\na b c\n"),
            ["merges.txt", "line 2"],
        ),
        (
            "merges.txt",
            Some("a \u{1f642}\n"),
            ["tokenizer.json", "merge 0"],
        ),
        ("vocab.json", Some("[1]"), ["vocab.json", "not an object"]),
        ("vocab.json", Some("{"), ["vocab.json", "line 1"]),
        (
            "tokenizer_config.json",
            Some(class),
            ["RobertaTokenizer", "save_pretrained"],
        ),
        (
            "tokenizer_config.json",
            Some(bos),
            ["tokenizer_config.json", "add_bos_token"],
        ),
    ];
    for (file, text, words) in cases {
        let error = refused(file, text);
        for word in words {
            assert!(error.contains(word), "{error:?} lacks {word:?}");
        }
    }
}
