//! Builds `tokenizer.json` from the older pair of files `vocab.json` and `merges.txt`.
//!
//! The result is that of the tokenizer classes of `transformers`:
//! `models/qwen2/tokenization_qwen2.py` and `models/gpt2/tokenization_gpt2.py`.

use std::borrow::Cow;
use std::path::Path;

use serde_json::{Map, Value, json};

use crate::Error;
use crate::byte_level::PreTokenizer;
use crate::error::Malformed;

pub(crate) const VOCABULARY: &str = "vocab.json";
pub(crate) const MERGES: &str = "merges.txt";
const CONFIG: &str = "tokenizer_config.json";

/// The class that `transformers` uses for a tokenizer.
struct Class {
    name: &'static str,
    /// The values of `model_type` that select the class if `tokenizer_config.json` names none.
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

/// A text, or `None` if its file does not exist.
type Text = Result<Option<Cow<'static, str>>, Error>;

/// The other files of a folder.
pub(crate) struct Files<'a> {
    /// The folder, for messages.
    pub folder: &'a Path,
    /// Reads a text file.
    pub read: &'a dyn Fn(&str) -> Text,
}

impl Files<'_> {
    /// Reads a JSON file. The value is `null` if the file does not exist.
    fn json(&self, file: &str) -> Result<Value, Error> {
        let parse = |text: Cow<'_, str>| {
            serde_json::from_str(&text).map_err(|error| Error::json(&self.folder.join(file), error))
        };
        (self.read)(file)?.map_or(Ok(Value::Null), parse)
    }

    fn broken(&self, file: &str, reason: impl Into<String>) -> Error {
        Error::Tokenizer {
            path: self.folder.join(file),
            reason: reason.into(),
        }
    }
}

/// Returns the text of `tokenizer.json`.
pub(crate) fn tokenizer(files: &Files<'_>) -> Result<String, Error> {
    let config = files.json(CONFIG)?;
    let pre = pre_tokenizer(files, &config)?;
    let vocabulary = files.json(VOCABULARY)?;
    if !vocabulary.is_object() {
        return Err(files.broken(VOCABULARY, "it is not an object of ids by tokens"));
    }
    let merges = merges(&(files.read)(MERGES)?.unwrap_or_default());
    let merges = merges.map_err(|malformed| files.broken(MERGES, malformed.0))?;
    let end = vocabulary[END].as_u64();
    let mut file = pre.parts(vocabulary, merges);
    if flag(&config, "add_prefix_space") {
        add_prefix_space(&mut file["pre_tokenizer"]);
    }
    file["added_tokens"] = end.map_or_else(|| json!([]), |id| json!([added(id)]));
    Ok(file.to_string())
}

fn pre_tokenizer(files: &Files<'_>, config: &Value) -> Result<&'static PreTokenizer, Error> {
    if flag(config, "add_bos_token") {
        let reason = "add_bos_token is not supported with vocab.json and merges.txt; add the token to the chat template";
        return Err(files.broken(CONFIG, reason));
    }
    let model = files.json("config.json")?;
    let model = model["model_type"].as_str().unwrap_or_default();
    let name = config["tokenizer_class"].as_str();
    let name = name.map(|name| name.trim_end_matches("Fast"));
    let class = CLASSES.iter().find(|class| match name {
        Some(name) => name == class.name,
        None => class.models.contains(&model),
    });
    let pre = class.and_then(|class| PreTokenizer::named(class.splits));
    pre.ok_or_else(|| {
        let folder = files.folder.display();
        let name = name.map_or_else(
            || format!("a tokenizer without tokenizer_class of a model {model:?}"),
            |name| format!("a {name}"),
        );
        let reason = format!(
            "{VOCABULARY} and {MERGES} of {name} are not read, only those of Qwen2Tokenizer and GPT2Tokenizer; convert it once with \
             Python's transformers: AutoTokenizer.from_pretrained({folder:?}).save_pretrained({folder:?})"
        );
        files.broken(VOCABULARY, reason)
    })
}

fn flag(config: &Value, field: &str) -> bool {
    config[field].as_bool().unwrap_or(false)
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
