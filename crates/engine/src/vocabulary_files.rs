//! Builds `tokenizer.json` from the older pair of files `vocab.json` and `merges.txt`, as the tokenizer classes of
//! `transformers` do (`models/qwen2/tokenization_qwen2.py`, `models/gpt2/tokenization_gpt2.py`).

use std::path::Path;

use serde_json::{Map, Value, json};

use crate::byte_level::PreTokenizer;
use crate::error::Malformed;
use crate::json_file::JsonFile;
use crate::{Checkpoint, Error};

pub(crate) const VOCABULARY: &str = "vocab.json";
pub(crate) const MERGES: &str = "merges.txt";

/// The class that `transformers` uses for a tokenizer.
struct Class {
    name: &'static str,
    /// The values of `model_type` in `config.json` that select the class if `tokenizer_config.json` names none.
    models: &'static [&'static str],
    /// The pre-tokenizer, by its name in GGUF files.
    splits: &'static str,
}

const CLASSES: [Class; 2] = [
    Class {
        name: "Qwen2Tokenizer",
        models: &["qwen2", "qwen2_moe", "qwen3", "qwen3_moe"],
        splits: "qwen2",
    },
    Class {
        name: "GPT2Tokenizer",
        models: &["gpt2"],
        splits: "gpt-2",
    },
];

/// The token that both classes use as their special tokens unless the files name others.
const END: &str = "<|endoftext|>";

/// Returns the text of `tokenizer.json`.
pub(crate) fn tokenizer(checkpoint: &Checkpoint) -> Result<String, Error> {
    let config = JsonFile::load(checkpoint, "tokenizer_config.json")?;
    let pre = pre_tokenizer(checkpoint, &config)?;
    let vocabulary = JsonFile::load(checkpoint, VOCABULARY)?;
    if !vocabulary.value.is_object() {
        return Err(broken(
            &vocabulary.path,
            "it is not an object of ids by tokens",
        ));
    }
    let path = checkpoint.path_of(MERGES);
    let merges = merges(&checkpoint.required_text(MERGES)?);
    let merges = merges.map_err(|malformed| broken(&path, &malformed.0))?;
    let end = vocabulary.value[END].as_u64();
    let mut file = pre.parts(vocabulary.value, merges);
    if flag(&config, "add_prefix_space") {
        add_prefix_space(&mut file["pre_tokenizer"]);
    }
    file["added_tokens"] = end.map_or_else(|| json!([]), |id| json!([added(id)]));
    Ok(file.to_string())
}

fn pre_tokenizer(
    checkpoint: &Checkpoint,
    config: &JsonFile,
) -> Result<&'static PreTokenizer, Error> {
    let model = JsonFile::load(checkpoint, "config.json")?;
    let model = model.value["model_type"].as_str().unwrap_or_default();
    let name = config.value["tokenizer_class"].as_str();
    let name = name.map(|name| name.trim_end_matches("Fast"));
    let class = CLASSES.iter().find(|class| match name {
        Some(name) => name == class.name,
        None => class.models.contains(&model),
    });
    let pre = class.and_then(|class| PreTokenizer::named(class.splits));
    let reason = || {
        let folder = checkpoint.path().display();
        let name = name.map_or_else(
            || format!("a tokenizer without tokenizer_class of a model {model:?}"),
            |name| format!("a {name}"),
        );
        format!(
            "{VOCABULARY} and {MERGES} of {name} are not read, only those of Qwen2Tokenizer and GPT2Tokenizer; convert it once with \
             Python's transformers: AutoTokenizer.from_pretrained({folder:?}).save_pretrained({folder:?})"
        )
    };
    if flag(config, "add_bos_token") {
        let reason = "add_bos_token is not supported with vocab.json and merges.txt; add the token to the chat template";
        return Err(broken(&config.path, reason));
    }
    pre.ok_or_else(|| broken(&checkpoint.path_of(VOCABULARY), &reason()))
}

fn flag(config: &JsonFile, field: &str) -> bool {
    config.value[field].as_bool().unwrap_or(false)
}

fn broken(path: &Path, reason: &str) -> Error {
    Error::Tokenizer {
        path: path.to_owned(),
        reason: reason.to_owned(),
    }
}

/// Returns the pairs in the text of `merges.txt`: a line each, with a space between the two tokens.
fn merges(text: &str) -> Result<Value, Malformed> {
    let lines = text.lines().enumerate();
    let lines =
        lines.filter(|(i, line)| !(line.is_empty() || (*i == 0 && line.starts_with("#version:"))));
    lines
        .map(|(i, line)| match line.split_once(' ') {
            Some((left, right)) if !right.contains(' ') => Ok(json!([left, right])),
            _ => Err(Malformed(format!(
                "line {}: expected two tokens with a space between them",
                i + 1
            ))),
        })
        .collect()
}

/// Sets `add_prefix_space` of the byte-level step, which may be the last of a sequence.
fn add_prefix_space(pre_tokenizer: &mut Value) {
    let step = match pre_tokenizer["pretokenizers"].as_array_mut() {
        Some(steps) => steps.last_mut(),
        None => Some(pre_tokenizer),
    };
    if let Some(step) = step {
        step["add_prefix_space"] = true.into();
    }
}

fn added(id: u64) -> Value {
    let mut token = Map::new();
    for field in ["single_word", "lstrip", "rstrip", "normalized"] {
        token.insert(field.to_owned(), false.into());
    }
    token.insert("id".to_owned(), id.into());
    token.insert("content".to_owned(), END.into());
    token.insert("special".to_owned(), true.into());
    Value::Object(token)
}
