//! Encodes texts and decodes tokens, and reads the files of a checkpoint that a chat needs.

mod declared;
mod limit;
mod trust;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use beamgen_files::caught;
use serde_json::Value;
use tokenizers::DecoderWrapper;

use self::declared::Declared;
pub use self::limit::TextLimit;
use self::trust::Growth;
use crate::error::Malformed;
use crate::generation::GenerationDefaults;
use crate::json_file::JsonFile;
use crate::{Checkpoint, Error, ModelConfig};

/// The tokenizer of a checkpoint.
#[derive(Debug)]
pub struct Tokenizer {
    path: PathBuf,
    inner: tokenizers::Tokenizer,
    /// The limit on the length of a text after normalisation.
    growth: Growth,
    /// The bytes of all tokens. Token `id` has `bytes[ends[id - 1]..ends[id]]`, and token 0
    /// `bytes[..ends[0]]`.
    bytes: Vec<u8>,
    ends: Vec<usize>,
    /// The bytes of the longest token, at least 1.
    longest: usize,
    special: Vec<bool>,
    eos_ids: Vec<u32>,
    special_tokens: BTreeMap<String, String>,
    /// Tokens to which the checkpoint's files give different ids, each with an explanation.
    contradicted: BTreeMap<String, String>,
    chat_template: Option<String>,
    generation: GenerationDefaults,
}

/// The tokens of a pair of texts, for encoders that read both at once.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TokenPair {
    /// The tokens of both texts, with the special tokens around and between them.
    pub tokens: Vec<u32>,
    /// The text of each token, 0 or 1, as the tokenizer's post-processor assigns it.
    pub types: Vec<u32>,
}

impl Tokenizer {
    /// Reads `tokenizer.json` and, if they exist, `tokenizer_config.json`,
    /// `special_tokens_map.json`, `added_tokens.json`, `chat_template.jinja`,
    /// `generation_config.json` and `config.json`. Tokens that only the other files declare are
    /// added like in `transformers` 5.
    ///
    /// The end-of-text tokens come from the first of these files that names any:
    /// `generation_config.json`, `config.json`, `tokenizer_config.json`.
    ///
    /// # Errors
    /// [`Error::Io`] without a `tokenizer.json`; [`Error::Tokenizer`] if it does not load;
    /// [`Error::Json`] and [`Error::BadField`] for the other files;
    /// [`Error::TokenizerMismatch`] if the other files name end-of-text tokens that the tokenizer
    /// lacks.
    pub fn load(checkpoint: impl Into<Checkpoint>) -> Result<Self, Error> {
        let checkpoint = checkpoint.into();
        let path = checkpoint.path_of("tokenizer.json");
        let text = checkpoint.required_text("tokenizer.json")?;
        let broken = |malformed: Malformed| Error::Tokenizer {
            path: path.clone(),
            reason: malformed.0,
        };
        let file = serde_json::from_str::<Value>(&text);
        let file = file.map_err(|error| Error::json(&path, error))?;
        let growth = trust::check(&file).map_err(broken)?;
        let config = JsonFile::load(&checkpoint, "tokenizer_config.json")?;
        let model = JsonFile::load(&checkpoint, "config.json")?;
        let declared = Declared::read(&checkpoint, &config, &file)?;
        let model_type = model.value["model_type"].as_str().unwrap_or_default();
        let contradicted = declared.contradicted(&file, model_type);
        // The crate parses the text itself. Without this line, two parsed trees would be in memory.
        drop(file);
        let special_tokens = declared.names();
        let inner = sane(|| {
            let mut inner = tokenizers::Tokenizer::from_bytes(text.as_bytes())?;
            declared.add(&mut inner, declared::rows(&model))?;
            Ok(inner)
        });
        let mut inner = inner.map_err(broken)?;
        // Padding and truncation are settings for training. `transformers` ignores both for a chat,
        // and a truncated prompt would be another question.
        inner.with_padding(None);
        inner
            .with_truncation(None)
            .map_err(|error| broken(Malformed(error.to_string())))?;
        let (bytes, ends, special) = token_table(&inner).map_err(broken)?;
        let chat_template = match checkpoint.text("chat_template.jinja")? {
            Some(text) => Some(text.into_owned()),
            None => config.chat_template()?,
        };
        let mut tokenizer = Self {
            path,
            inner,
            growth,
            longest: longest_token(&ends),
            bytes,
            ends,
            special,
            eos_ids: Vec::new(),
            special_tokens,
            contradicted,
            chat_template,
            generation: GenerationDefaults::read(&JsonFile::load(
                &checkpoint,
                "generation_config.json",
            )?)?,
        };
        tokenizer.eos_ids = tokenizer.find_eos(&checkpoint)?;
        Ok(tokenizer)
    }

    /// The directory or the GGUF file that the tokenizer comes from.
    #[must_use]
    pub fn checkpoint(&self) -> &Path {
        self.path.parent().unwrap_or(&self.path)
    }

    fn find_eos(&self, checkpoint: &Checkpoint) -> Result<Vec<u32>, Error> {
        for file in ["generation_config.json", "config.json"] {
            let ids = JsonFile::load(checkpoint, file)?.ids("eos_token_id")?;
            if let Some(id) = ids.iter().find(|id| self.token(**id).is_none()) {
                // An end-of-text token that the tokenizer lacks means that the files belong to
                // different models.
                return Err(self.mismatch(format!("{file} names token {id} as eos_token_id")));
            }
            if !ids.is_empty() {
                return Ok(ids);
            }
        }
        let Some(token) = self.special_token("eos_token") else {
            return Ok(Vec::new());
        };
        match self.id(token) {
            Some(id) => Ok(vec![id]),
            None => Err(self.mismatch(format!(
                "tokenizer_config.json names `{token}` as eos_token"
            ))),
        }
    }

    fn mismatch(&self, reason: String) -> Error {
        Error::TokenizerMismatch {
            path: self.path.clone(),
            reason,
        }
    }

    /// Checks that the tokenizer fits `model`: every token is within the model's vocabulary, and at
    /// least half of the vocabulary has tokens.
    ///
    /// # Errors
    /// [`Error::TokenizerMismatch`] with the numbers of tokens and of ids.
    pub fn check(&self, model: &ModelConfig) -> Result<(), Error> {
        let (tokens, vocab) = (self.len(), model.vocab_size);
        // Vocabularies are padded to round sizes. If half of the vocabulary has no tokens, the
        // tokenizer is another model's.
        if tokens <= vocab && tokens >= vocab / 2 {
            return Ok(());
        }
        let mut reason = format!("{tokens} tokens, the model's vocabulary has {vocab}");
        let first = u32::try_from(vocab).ok().and_then(|id| self.token(id));
        if let Some(token) = first {
            let token: String = token.chars().take(40).collect();
            reason += &format!("; the first one too many is {token:?}");
        }
        Err(self.mismatch(reason))
    }

    /// Encodes `text`. Special tokens that are written in `text` are recognised. With
    /// `add_special_tokens`, the post-processor's tokens (such as bos) are added.
    ///
    /// # Errors
    /// [`Error::Tokenizer`] if `text` is too long, or contains a token to which the checkpoint's
    /// files give different ids.
    pub fn encode(&self, text: &str, add_special_tokens: bool) -> Result<Vec<u32>, Error> {
        let tokens = self.may_encode(&[text]).and_then(|()| {
            let encoding = sane(|| self.inner.encode_fast(text, add_special_tokens))?;
            Ok(encoding.get_ids().to_vec())
        });
        tokens.map_err(|malformed| self.broken(malformed))
    }

    /// Encodes two texts as a pair, with the tokens that the post-processor adds to a pair.
    ///
    /// # Errors
    /// [`Error::Tokenizer`] if the texts are too long, or contain a token to which the checkpoint's
    /// files give different ids.
    pub fn encode_pair(&self, first: &str, second: &str) -> Result<TokenPair, Error> {
        let pair = self.may_encode(&[first, second]).and_then(|()| {
            let encoding = sane(|| self.inner.encode_fast((first, second), true))?;
            Ok(TokenPair {
                tokens: encoding.get_ids().to_vec(),
                types: encoding.get_type_ids().to_vec(),
            })
        });
        pair.map_err(|malformed| self.broken(malformed))
    }

    /// Refuses texts that may become too long, or that contain a token with contradictory ids.
    fn may_encode(&self, texts: &[&str]) -> Result<(), Malformed> {
        self.growth
            .check(texts.iter().map(|text| text.len()).sum())?;
        let mut contradicted = self.contradicted.iter();
        match contradicted.find(|(token, _)| texts.iter().any(|text| text.contains(*token))) {
            Some((_, how)) => Err(Malformed(how.clone())),
            None => Ok(()),
        }
    }

    /// Decodes `tokens`. Bytes that are not UTF-8 (such as a part of a character) become U+FFFD;
    /// unknown ids are left out.
    ///
    /// # Errors
    /// [`Error::Tokenizer`] if the crate `tokenizers` fails.
    pub fn decode(&self, tokens: &[u32], skip_special_tokens: bool) -> Result<String, Error> {
        sane(|| self.inner.decode(tokens, skip_special_tokens))
            .map_err(|malformed| self.broken(malformed))
    }

    fn broken(&self, malformed: Malformed) -> Error {
        Error::Tokenizer {
            path: self.path.clone(),
            reason: malformed.0,
        }
    }

    /// The bytes of a token; empty for an unknown id. A token may be a part of a character, so the
    /// bytes need not be UTF-8.
    #[must_use]
    pub fn token_bytes(&self, id: u32) -> &[u8] {
        let id = id as usize;
        match self.ends.get(id) {
            Some(&end) => &self.bytes[if id == 0 { 0 } else { self.ends[id - 1] }..end],
            None => &[],
        }
    }

    /// Whether a token is marked special (end of text, roles of a chat).
    #[must_use]
    pub fn is_special(&self, id: u32) -> bool {
        self.special.get(id as usize).copied().unwrap_or(false)
    }

    /// The id of a token, spelled as in the vocabulary; `None` if the vocabulary lacks the token.
    #[must_use]
    pub fn id(&self, token: &str) -> Option<u32> {
        self.inner.token_to_id(token)
    }

    /// The token with this id, spelled as in the vocabulary; `None` if no token has this id.
    #[must_use]
    pub fn token(&self, id: u32) -> Option<String> {
        self.inner.id_to_token(id)
    }

    /// The highest token id plus one. Ids may have gaps.
    #[must_use]
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// Whether the vocabulary has no tokens, so that no text can be encoded.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// The tokens that end a text. The list is empty if no file names any.
    #[must_use]
    pub fn eos_ids(&self) -> &[u32] {
        &self.eos_ids
    }

    /// Whether a token ends a text ([`eos_ids`](Self::eos_ids)).
    #[must_use]
    pub fn is_eos(&self, id: u32) -> bool {
        self.eos_ids.contains(&id)
    }

    /// The special tokens that have a name (such as `bos_token`), as pairs of name and text. Chat
    /// templates refer to these names.
    pub fn special_tokens(&self) -> impl Iterator<Item = (&str, &str)> {
        self.special_tokens
            .iter()
            .map(|(name, token)| (name.as_str(), token.as_str()))
    }

    /// The text of the special token with this name, such as `bos_token`.
    #[must_use]
    pub fn special_token(&self, name: &str) -> Option<&str> {
        self.special_tokens.get(name).map(String::as_str)
    }

    /// The Jinja source of the chat template, from `chat_template.jinja` or
    /// `tokenizer_config.json`.
    #[must_use]
    pub fn chat_template(&self) -> Option<&str> {
        self.chat_template.as_deref()
    }

    /// The sampling settings of `generation_config.json`.
    #[must_use]
    pub fn generation(&self) -> &GenerationDefaults {
        &self.generation
    }

    /// The wrapped tokenizer of the crate `tokenizers`, for what this type does not offer.
    #[must_use]
    pub fn inner(&self) -> &tokenizers::Tokenizer {
        &self.inner
    }
}

/// Calls the crate `tokenizers`. For some invalid files it panics, which becomes an error here.
fn sane<T>(f: impl FnOnce() -> tokenizers::Result<T>) -> Result<T, Malformed> {
    match caught(f) {
        Ok(done) => done.map_err(|error| Malformed(error.to_string())),
        Err(panic) => Err(Malformed(format!("the file cannot be used: {panic}"))),
    }
}

/// The way in which a vocabulary spells bytes as text.
#[derive(Clone, Copy)]
enum Spelling {
    /// A printable character for each byte (GPT-2 and its kin).
    ByteLevel,
    /// `▁` for a space, and `<0x0A>` for a byte without a token (`SentencePiece`).
    Fallback,
    /// The text itself.
    Plain,
}

impl Spelling {
    fn of(decoder: Option<&DecoderWrapper>) -> Self {
        match decoder {
            Some(DecoderWrapper::ByteLevel(_)) => Self::ByteLevel,
            Some(DecoderWrapper::ByteFallback(_) | DecoderWrapper::Metaspace(_)) => Self::Fallback,
            Some(DecoderWrapper::Sequence(parts)) => parts
                .get_decoders()
                .iter()
                .map(|d| Self::of(Some(d)))
                .find(|s| !matches!(s, Self::Plain))
                .unwrap_or(Self::Plain),
            _ => Self::Plain,
        }
    }

    fn bytes(self, token: &str, out: &mut Vec<u8>) {
        match self {
            Self::ByteLevel => {
                let start = out.len();
                for c in token.chars() {
                    if let Some(byte) = byte_of(c) {
                        out.push(byte);
                    } else {
                        // A character that no byte maps to means that the token is plain text.
                        out.truncate(start);
                        out.extend_from_slice(token.as_bytes());
                        return;
                    }
                }
            }
            Self::Fallback => {
                let byte = token
                    .strip_prefix("<0x")
                    .and_then(|t| t.strip_suffix('>'))
                    .filter(|t| t.len() == 2)
                    .and_then(|t| u8::from_str_radix(t, 16).ok());
                match byte {
                    Some(byte) => out.push(byte),
                    None => out.extend_from_slice(token.replace('▁', " ").as_bytes()),
                }
            }
            Self::Plain => out.extend_from_slice(token.as_bytes()),
        }
    }
}

/// Returns the byte that a character of a byte-level vocabulary represents. Printable Latin-1
/// characters represent themselves; the 68 other bytes are numbered from U+0100 on.
fn byte_of(c: char) -> Option<u8> {
    let itself = |b: u8| matches!(b, b'!'..=b'~' | 0xA1..=0xAC | 0xAE..=0xFF);
    match u32::from(c) {
        c @ 0..=0xFF => Some(c as u8).filter(|b| itself(*b)),
        // GPT-2 numbers the other bytes in rising order.
        c @ 0x100..=0x143 => (0..=255).filter(|b| !itself(*b)).nth((c - 0x100) as usize),
        _ => None,
    }
}

/// The bytes of all tokens, the end of each token in these bytes, and whether each token is
/// special.
type TokenTable = (Vec<u8>, Vec<usize>, Vec<bool>);

fn token_table(inner: &tokenizers::Tokenizer) -> Result<TokenTable, Malformed> {
    let spelling = Spelling::of(inner.get_decoder());
    let added = inner.get_added_vocabulary().get_added_tokens_decoder();
    let mut tokens: Vec<(u32, String)> = inner
        .get_vocab(true)
        .into_iter()
        .map(|(token, id)| (id, token))
        .collect();
    trust::check_ids(tokens.iter().map(|(id, token)| (*id, token.as_str())))?;
    // Sorted by id, the tokens fill the tables in one pass.
    tokens.sort_unstable();
    let (mut bytes, mut ends, mut special) = (Vec::new(), Vec::new(), Vec::new());
    for (id, token) in tokens {
        // Ids without a token become empty tokens.
        ends.resize(id as usize, bytes.len());
        special.resize(id as usize, false);
        match added.get(&id) {
            // Added tokens are matched in the text itself, so they are never spelled in bytes.
            Some(added) => bytes.extend_from_slice(added.content.as_bytes()),
            None => spelling.bytes(&token, &mut bytes),
        }
        ends.push(bytes.len());
        special.push(added.get(&id).is_some_and(|a| a.special));
    }
    Ok((bytes, ends, special))
}

fn longest_token(ends: &[usize]) -> usize {
    let starts = [0].into_iter().chain(ends.iter().copied());
    let lengths = ends.iter().zip(starts).map(|(end, start)| end - start);
    lengths.max().unwrap_or(0).max(1)
}

/// The text of a token, which is a string or an object with the field `content`.
fn content(value: &Value) -> Option<&str> {
    value.as_str().or_else(|| value.get("content")?.as_str())
}

impl JsonFile {
    /// Reads the chat template. If there are several, reads the one named `default`.
    fn chat_template(&self) -> Result<Option<String>, Error> {
        const FIELD: &str = "chat_template";
        let named: Vec<(Option<&str>, &Value)> = match self.value.get(FIELD) {
            None | Some(Value::Null) => return Ok(None),
            Some(Value::String(text)) => return Ok(Some(text.clone())),
            Some(Value::Object(all)) => all.iter().map(|(name, t)| (Some(&**name), t)).collect(),
            Some(Value::Array(all)) => {
                let entries = all.iter();
                entries
                    .map(|t| (t["name"].as_str(), &t["template"]))
                    .collect()
            }
            Some(_) => return Err(self.bad(FIELD, "a template, or several with names")),
        };
        let default = named.iter().rfind(|(name, _)| *name == Some("default"));
        if let Some(text) = default.and_then(|(_, template)| template.as_str()) {
            Ok(Some(text.to_owned()))
        } else {
            let names: Vec<&str> = named.iter().filter_map(|(name, _)| *name).collect();
            Err(Error::BadField {
                path: self.path.clone(),
                field: FIELD.into(),
                value: format!("templates named {names:?}"),
                expected: "a template named `default`; rename the template to use, or write it to \
                    chat_template.jinja"
                    .into(),
            })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn byte_level_characters_are_a_bijection() {
        let mut seen = [false; 256];
        for c in (0..0x200).filter_map(char::from_u32) {
            if let Some(byte) = byte_of(c) {
                assert!(!std::mem::replace(&mut seen[byte as usize], true), "{c:?}");
            }
        }
        assert!(seen.iter().all(|s| *s));
        assert_eq!(byte_of('Ġ'), Some(b' '));
        assert_eq!(byte_of('Ċ'), Some(b'\n'));
        assert_eq!(byte_of(' '), None);
    }

    #[test]
    fn spellings() {
        let spell = |s: Spelling, token: &str| {
            let mut out = Vec::new();
            s.bytes(token, &mut out);
            out
        };
        assert_eq!(spell(Spelling::ByteLevel, "Ġa"), b" a");
        assert_eq!(spell(Spelling::ByteLevel, "Ã"), [0xC3]);
        assert_eq!(spell(Spelling::ByteLevel, "日本"), "日本".as_bytes());
        assert_eq!(spell(Spelling::Fallback, "<0x0A>"), b"\n");
        assert_eq!(spell(Spelling::Fallback, "▁the"), b" the");
        assert_eq!(spell(Spelling::Plain, "▁"), "▁".as_bytes());
    }
}
