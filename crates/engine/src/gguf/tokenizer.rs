//! Converts a GGUF file's metadata to `tokenizer.json` and `tokenizer_config.json`.

mod byte_level;
mod sentencepiece;

use serde_json::{Value, json};

use super::Gguf;
use crate::Error;

const MODEL: &str = "tokenizer.ggml.model";
const PRE: &str = "tokenizer.ggml.pre";
const TOKENS: &str = "tokenizer.ggml.tokens";
const TYPES: &str = "tokenizer.ggml.token_type";

/// Types of tokens, with the numbers of llama.cpp's `llama_token_type`.
const UNKNOWN: i64 = 2;
const CONTROL: i64 = 3;
const USER_DEFINED: i64 = 4;
const UNUSED: i64 = 5;

/// The vocabulary of a file.
struct Vocabulary<'a> {
    tokens: Vec<&'a str>,
    /// The type of each token, by id.
    types: Vec<i64>,
}

impl<'a> Vocabulary<'a> {
    fn of(file: &'a Gguf) -> Result<Self, Error> {
        let tokens = file.strings(TOKENS)?.ok_or_else(|| file.missing(TOKENS))?;
        let types = file.integers(TYPES)?.ok_or_else(|| file.missing(TYPES))?;
        // Types are looked up by token id, so each token needs one.
        if types.len() != tokens.len() {
            let expected = format!("one for each of {} tokens", tokens.len());
            return Err(file.bad(TYPES, &format!("a list of {}", types.len()), &expected));
        }
        Ok(Self { tokens, types })
    }

    /// The tokens with their ids, without those that only fill up the table.
    fn used(&self) -> impl Iterator<Item = (usize, &'a str)> {
        let tokens = self.tokens.iter().copied().enumerate();
        tokens.filter(|(id, _)| self.types[*id] != UNUSED)
    }

    /// The vocabulary as the field `vocab` of a BPE model: a map from tokens to ids.
    fn as_json(&self) -> Value {
        let pairs = self.used().map(|(id, token)| (token.to_owned(), id.into()));
        Value::Object(pairs.collect())
    }

    /// The field `added_tokens`: tokens that are recognised in a text before the merges. Control
    /// tokens are special, so that decoding can leave them out; user-defined tokens are not.
    fn added(&self) -> Value {
        let added = self.used().filter_map(|(id, token)| {
            let special = match self.types[id] {
                UNKNOWN | CONTROL => true,
                USER_DEFINED => false,
                _ => return None,
            };
            Some(json!({
                "id": id,
                "content": token,
                "single_word": false,
                "lstrip": false,
                "rstrip": false,
                "normalized": false,
                "special": special,
            }))
        });
        Value::Array(added.collect())
    }
}

pub(super) fn tokenizer(file: &Gguf) -> Result<Value, Error> {
    let vocabulary = Vocabulary::of(file)?;
    let mut json = match file.required_string(MODEL)? {
        "gpt2" => byte_level::parts(file, &vocabulary)?,
        "llama" => sentencepiece::parts(file, &vocabulary)?,
        other => {
            let supported = "only `gpt2` (byte-level BPE) and `llama` (SentencePiece)";
            return Err(file.unsupported(MODEL, &format!("`{other}`"), supported));
        }
    };
    json["version"] = "1.0".into();
    json["truncation"] = Value::Null;
    json["padding"] = Value::Null;
    json["added_tokens"] = vocabulary.added();
    json["post_processor"] = around(file, &vocabulary)?;
    Ok(json)
}

/// The field `post_processor`, which adds the bos and eos tokens to every text; `null` if neither
/// is added.
fn around(file: &Gguf, vocabulary: &Vocabulary<'_>) -> Result<Value, Error> {
    let mut tokens = serde_json::Map::new();
    let mut special = |key: &str, wanted: bool| -> Result<Option<Value>, Error> {
        if !wanted {
            return Ok(None);
        }
        let Some((id, token)) = token(file, vocabulary, key)? else {
            return Ok(None);
        };
        let entry = json!({ "id": token, "ids": [id], "tokens": [token] });
        tokens.insert(token.into(), entry);
        Ok(Some(
            json!({ "SpecialToken": { "id": token, "type_id": 0 } }),
        ))
    };
    let bos = special("tokenizer.ggml.bos_token_id", adds_bos(file)?)?;
    let adds_eos = file.flag("tokenizer.ggml.add_eos_token")?.unwrap_or(false);
    let eos = special("tokenizer.ggml.eos_token_id", adds_eos)?;
    if tokens.is_empty() {
        return Ok(Value::Null);
    }
    let around = |name: &str| -> Vec<Value> {
        let text = json!({ "Sequence": { "id": name, "type_id": 0 } });
        bos.iter()
            .cloned()
            .chain([text])
            .chain(eos.iter().cloned())
            .collect()
    };
    // The library also encodes pairs of texts. Each text of a pair gets the tokens of a single one.
    let pair = [around("A"), around("B")].concat();
    Ok(json!({
        "type": "TemplateProcessing",
        "single": around("A"),
        "pair": pair,
        "special_tokens": tokens,
    }))
}

/// Whether texts begin with the bos token. Without the flag in the file, llama.cpp's default for
/// the kind of tokenizer applies.
fn adds_bos(file: &Gguf) -> Result<bool, Error> {
    if let Some(given) = file.flag("tokenizer.ggml.add_bos_token")? {
        return Ok(given);
    }
    if file.required_string(MODEL)? == "llama" {
        return Ok(true);
    }
    let pre = file.string(PRE)?;
    Ok(pre.is_some_and(|pre| crate::byte_level::LLAMA3.contains(&pre)))
}

/// Returns the token whose id is stored at `key`, with the id; `None` if the file lacks the key.
fn token<'a>(
    file: &Gguf,
    vocabulary: &Vocabulary<'a>,
    key: &str,
) -> Result<Option<(u64, &'a str)>, Error> {
    let Some(id) = file.integer(key)? else {
        return Ok(None);
    };
    let token = usize::try_from(id)
        .ok()
        .and_then(|i| vocabulary.tokens.get(i));
    if let Some(token) = token {
        Ok(Some((id, token)))
    } else {
        let expected = format!("one of {} tokens", vocabulary.tokens.len());
        Err(file.bad(key, &id.to_string(), &expected))
    }
}

pub(super) fn tokenizer_config(file: &Gguf) -> Result<Value, Error> {
    let vocabulary = Vocabulary::of(file)?;
    let mut config = json!({ "add_bos_token": adds_bos(file)? });
    for (field, key) in [
        ("bos_token", "tokenizer.ggml.bos_token_id"),
        ("eos_token", "tokenizer.ggml.eos_token_id"),
        ("unk_token", "tokenizer.ggml.unknown_token_id"),
        ("pad_token", "tokenizer.ggml.padding_token_id"),
    ] {
        if let Some((_, token)) = token(file, &vocabulary, key)? {
            config[field] = token.into();
        }
    }
    if let Some(template) = file.string("tokenizer.chat_template")? {
        config["chat_template"] = template.into();
    }
    Ok(config)
}
