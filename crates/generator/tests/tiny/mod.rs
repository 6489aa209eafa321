//! A tiny model with random weights and a tokenizer of single characters. Shared with the tests
//! of the reward model.
#![allow(dead_code)]

use std::path::Path;
use std::sync::Arc;

use beamgen_engine::{Engine, EngineConfig, Model, ModelConfig, Tokenizer, WeightType, Weights};
use serde_json::{Map, Value, json};

#[path = "../../../engine/tests/common/mod.rs"]
pub(crate) mod random;

pub(crate) const BEGIN: u32 = 0;
pub(crate) const END: u32 = 1;

/// Characters with a token each, then pairs with one. `Ġ` is a space, `Ċ` a newline, `Ã©` and
/// `Ã` + `©` an é in one token and in two.
const CHARACTERS: &str = "abcdeĠĊ0123456789+=?.Ã©";
const PAIRS: [&str; 3] = [".Ċ", "ĊĊ", "ab"];

/// Tokens of several characters in a vocabulary of all bytes. Some contain the end of one part of a
/// JSON text and the beginning of the next; one contains the beginning of a new line.
const JSON_PIECES: [&str; 7] = ["{\"", "\":", "\",", "\"}", "\":Ġ", ",Ċ", "},Ċ"];

/// Writes the tokenizer's files into a checkpoint folder.
pub(crate) fn write_tokenizer(dir: &Path, template: Option<&str>) {
    write_tokenizer_of(dir, CHARACTERS, &PAIRS, template);
}

/// Writes the files of a tokenizer with a token for each byte.
pub(crate) fn write_tokenizer_of_bytes(dir: &Path, template: Option<&str>) {
    // GPT-2 writes bytes as characters: printable ones of Latin-1 as they are, others from U+0100
    // on.
    let is_itself = |byte: u8| matches!(byte, b'!'..=b'~' | 0xA1..=0xAC | 0xAE..=0xFF);
    let itself = (0..=255).filter(|&byte| is_itself(byte)).map(char::from);
    let others = (0..=255).filter(|&byte| !is_itself(byte)).count() as u32;
    let others = (0x100..0x100 + others).filter_map(char::from_u32);
    let characters: String = itself.chain(others).collect();
    write_tokenizer_of(dir, &characters, &JSON_PIECES, template);
}

fn write_tokenizer_of(dir: &Path, characters: &str, pieces: &[&str], template: Option<&str>) {
    let mut vocab = Map::new();
    let specials = ["<|begin|>", "<|end|>"];
    let characters = characters.chars().map(String::from);
    let texts = pieces.iter().map(|&piece| piece.to_owned());
    let all = specials
        .iter()
        .map(|&s| s.to_owned())
        .chain(characters)
        .chain(texts);
    for (id, token) in all.enumerate() {
        vocab.insert(token, id.into());
    }
    // Longer pieces have no merge. A model may sample them, but the tokenizer never makes them of a
    // text.
    let merges = pieces.iter().filter(|piece| piece.chars().count() == 2);
    let merges: Vec<Value> = merges
        .map(|pair| pair.chars().map(String::from).collect::<Vec<_>>().into())
        .collect();
    let byte_level = json!({
        "type": "ByteLevel",
        "add_prefix_space": false,
        "trim_offsets": true,
        "use_regex": false,
    });
    let added: Vec<Value> = specials
        .iter()
        .enumerate()
        .map(|(id, content)| {
            json!({
                "id": id,
                "content": content,
                "single_word": false,
                "lstrip": false,
                "rstrip": false,
                "normalized": false,
                "special": true,
            })
        })
        .collect();
    let tokenizer = json!({
        "version": "1.0",
        "truncation": null,
        "padding": null,
        "added_tokens": added,
        "normalizer": null,
        "pre_tokenizer": byte_level,
        "post_processor": null,
        "decoder": byte_level,
        "model": {
            "type": "BPE",
            "dropout": null,
            "unk_token": null,
            "continuing_subword_prefix": null,
            "end_of_word_suffix": null,
            "fuse_unk": false,
            "byte_fallback": false,
            "ignore_merges": false,
            "vocab": vocab,
            "merges": merges,
        },
    });
    let mut config = json!({ "bos_token": "<|begin|>", "eos_token": "<|end|>" });
    if let Some(template) = template {
        config["chat_template"] = template.into();
    }
    std::fs::write(dir.join("tokenizer.json"), tokenizer.to_string()).unwrap();
    std::fs::write(dir.join("tokenizer_config.json"), config.to_string()).unwrap();
}

/// A chat template that writes the begin token, the problem and a newline.
pub(crate) const TEMPLATE: &str = "{{ bos_token }}{{ messages[0].content }}{{ '\n' }}";

pub(crate) fn tokenizer() -> Arc<Tokenizer> {
    let dir = tempfile::tempdir().unwrap();
    write_tokenizer(dir.path(), Some(TEMPLATE));
    Arc::new(Tokenizer::load(dir.path()).unwrap())
}

/// Returns a tokenizer with a token for each byte, so that it can write any JSON.
pub(crate) fn tokenizer_of_bytes(template: &str) -> Arc<Tokenizer> {
    let dir = tempfile::tempdir().unwrap();
    write_tokenizer_of_bytes(dir.path(), Some(template));
    Arc::new(Tokenizer::load(dir.path()).unwrap())
}

pub(crate) fn config(context: usize) -> ModelConfig {
    config_for(&tokenizer(), context)
}

fn config_for(tokenizer: &Tokenizer, context: usize) -> ModelConfig {
    ModelConfig {
        vocab_size: tokenizer.len(),
        max_position_embeddings: context,
        ..random::tiny_config()
    }
}

pub(crate) fn model(context: usize) -> Arc<Model> {
    let config = config(context);
    let weights = Weights::from_tensors(random::random_weights(&config)).unwrap();
    Arc::new(Model::from_weights(config, &weights, WeightType::Auto).unwrap())
}

/// Returns a random model with the vocabulary of [`tokenizer_of_bytes`].
pub(crate) fn model_of_bytes(context: usize) -> Arc<Model> {
    let config = config_for(&tokenizer_of_bytes(TEMPLATE), context);
    let weights = Weights::from_tensors(random::random_weights(&config)).unwrap();
    Arc::new(Model::from_weights(config, &weights, WeightType::Auto).unwrap())
}

/// Returns a model without a language-model head, like many reward models.
pub(crate) fn headless_model(context: usize) -> Arc<Model> {
    let config = ModelConfig {
        tie_word_embeddings: false,
        causal_lm: false,
        ..config(context)
    };
    let tensors = random::random_weights(&config);
    let tensors = tensors
        .into_iter()
        .filter(|(name, _)| name != "lm_head.weight");
    let weights = Weights::from_tensors(tensors).unwrap();
    Arc::new(Model::from_weights(config, &weights, WeightType::Auto).unwrap())
}

/// An engine with `pages` pages of 4 tokens.
pub(crate) fn engine(model: &Arc<Model>, pages: usize) -> Engine {
    // A test that reads the same tokens twice compares two computations.
    engine_with(model, pages, false)
}

/// An engine like [`engine`]; `prefix_cache` says whether sequences reuse prefixes of others.
pub(crate) fn engine_with(model: &Arc<Model>, pages: usize, prefix_cache: bool) -> Engine {
    let c = model.config();
    let page = 4 * 2 * c.num_hidden_layers * c.num_key_value_heads * c.head_dim * size_of::<f32>();
    let config = EngineConfig {
        page_size: 4,
        kv_bytes: pages * page,
        threads: 1,
        prefix_cache,
        ..EngineConfig::default()
    };
    Engine::new(Arc::clone(model), config).unwrap()
}
