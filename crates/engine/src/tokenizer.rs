//! Text to tokens and back, with what a chat needs to know beside it.

mod declared;
mod limit;
mod trust;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde_json::Value;
use tokenizers::DecoderWrapper;

use self::declared::Declared;
pub use self::limit::TextLimit;
use self::trust::Growth;
use crate::error::Malformed;
use crate::generation::GenerationDefaults;
use crate::json_file::JsonFile;
use crate::panics::caught;
use crate::{Checkpoint, Error, ModelConfig};

/// The tokenizer of a checkpoint.
#[derive(Debug)]
pub struct Tokenizer {
    path: PathBuf,
    inner: tokenizers::Tokenizer,
    /// How long a text may become before it is cut into tokens.
    growth: Growth,
    /// Bytes of token `id` at `bytes[ends[id - 1]..ends[id]]`.
    bytes: Vec<u8>,
    ends: Vec<usize>,
    /// Bytes of the longest token.
    longest: usize,
    special: Vec<bool>,
    eos_ids: Vec<u32>,
    special_tokens: BTreeMap<String, String>,
    /// Tokens whose ids the files contradict each other about, each with how.
    contradicted: BTreeMap<String, String>,
    chat_template: Option<String>,
    generation: GenerationDefaults,
}

/// Two texts as an encoder reads them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TokenPair {
    /// Of both, with special tokens.
    pub tokens: Vec<u32>,
    /// For each token which text it is of, 0 or 1, as the tokenizer's post-processor says.
    pub types: Vec<u32>,
}

impl Tokenizer {
    /// Reads `tokenizer.json` and, where they exist, `tokenizer_config.json`,
    /// `special_tokens_map.json`, `added_tokens.json`, `chat_template.jinja`,
    /// `generation_config.json` and `config.json`. Tokens that only these declare are added as
    /// `transformers` 5 adds them.
    ///
    /// The end-of-text tokens are those of the first of `generation_config.json`,
    /// `config.json`, `tokenizer_config.json` that names any.
    ///
    /// # Errors
    /// [`Error::Io`] without a `tokenizer.json`; [`Error::Tokenizer`] if it does not load;
    /// [`Error::Json`] and [`Error::BadField`] for the other files;
    /// [`Error::TokenizerMismatch`] if they name tokens that it does not have.
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
        drop(file);
        let special_tokens = declared.names();
        let inner = sane(|| {
            let mut inner = tokenizers::Tokenizer::from_bytes(text.as_bytes())?;
            declared.add(&mut inner, declared::rows(&model))?;
            Ok(inner)
        });
        let mut inner = inner.map_err(broken)?;
        // They say how batches were cut when the model was trained. `transformers` ignores both for
        // a chat; a cut prompt would be another question.
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

    /// The checkpoint that the tokenizer is of: its directory or GGUF file.
    #[must_use]
    pub fn checkpoint(&self) -> &Path {
        self.path.parent().unwrap_or(&self.path)
    }

    fn find_eos(&self, checkpoint: &Checkpoint) -> Result<Vec<u32>, Error> {
        for file in ["generation_config.json", "config.json"] {
            let ids = JsonFile::load(checkpoint, file)?.ids("eos_token_id")?;
            if let Some(id) = ids.iter().find(|id| self.token(**id).is_none()) {
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

    /// Checks that the tokenizer can be that model's: every token is inside the model's
    /// vocabulary, which may have some unused ids at its end, but not half of it.
    ///
    /// # Errors
    /// [`Error::TokenizerMismatch`] with both numbers.
    pub fn check(&self, model: &ModelConfig) -> Result<(), Error> {
        let (tokens, vocab) = (self.len(), model.vocab_size);
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

    /// Tokens of `text`. Special tokens written out in it are recognised;
    /// `add_special_tokens` also adds those that the tokenizer puts around every text.
    ///
    /// # Errors
    /// [`Error::Tokenizer`].
    pub fn encode(&self, text: &str, add_special_tokens: bool) -> Result<Vec<u32>, Error> {
        let tokens = self.may_encode(&[text]).and_then(|()| {
            let encoding = sane(|| self.inner.encode_fast(text, add_special_tokens))?;
            Ok(encoding.get_ids().to_vec())
        });
        tokens.map_err(|malformed| self.broken(malformed))
    }

    /// Tokens of two texts with those that the tokenizer puts around a pair, as an encoder reads
    /// them.
    ///
    /// # Errors
    /// [`Error::Tokenizer`].
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

    fn may_encode(&self, texts: &[&str]) -> Result<(), Malformed> {
        self.growth
            .check(texts.iter().map(|text| text.len()).sum())?;
        let is_used = |token: &str| texts.iter().any(|text| text.contains(token));
        match self.contradicted.iter().find(|(token, _)| is_used(token)) {
            Some((_, how)) => Err(Malformed(how.clone())),
            None => Ok(()),
        }
    }

    /// Text of `tokens`. Bytes that are not UTF-8 (a character cut in two) become U+FFFD;
    /// unknown ids are left out.
    ///
    /// # Errors
    /// [`Error::Tokenizer`].
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

    /// The bytes that a token stands for; none for an unknown id. A token need not hold whole
    /// characters: boundaries are looked for in bytes.
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

    /// The id of a token as the vocabulary spells it.
    #[must_use]
    pub fn id(&self, token: &str) -> Option<u32> {
        self.inner.token_to_id(token)
    }

    /// A token as the vocabulary spells it.
    #[must_use]
    pub fn token(&self, id: u32) -> Option<String> {
        self.inner.id_to_token(id)
    }

    /// The highest id plus one.
    #[must_use]
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// Whether there are no tokens.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// The tokens that end a text; may be none.
    #[must_use]
    pub fn eos_ids(&self) -> &[u32] {
        &self.eos_ids
    }

    /// Whether a token ends a text.
    #[must_use]
    pub fn is_eos(&self, id: u32) -> bool {
        self.eos_ids.contains(&id)
    }

    /// The special tokens that have a name in `tokenizer_config.json`, for chat templates:
    /// `bos_token`, `eos_token`, `pad_token` and others.
    pub fn special_tokens(&self) -> impl Iterator<Item = (&str, &str)> {
        self.special_tokens
            .iter()
            .map(|(name, token)| (name.as_str(), token.as_str()))
    }

    /// The special token of that name, such as `bos_token`.
    #[must_use]
    pub fn special_token(&self, name: &str) -> Option<&str> {
        self.special_tokens.get(name).map(String::as_str)
    }

    /// The Jinja template of `chat_template.jinja` or of `tokenizer_config.json`.
    #[must_use]
    pub fn chat_template(&self) -> Option<&str> {
        self.chat_template.as_deref()
    }

    /// The sampling settings of `generation_config.json`.
    #[must_use]
    pub fn generation(&self) -> &GenerationDefaults {
        &self.generation
    }

    /// The tokenizer itself, for what is not wrapped.
    #[must_use]
    pub fn inner(&self) -> &tokenizers::Tokenizer {
        &self.inner
    }
}

/// What the crate `tokenizers` does, which panics at some files that it should refuse.
fn sane<T>(f: impl FnOnce() -> tokenizers::Result<T>) -> Result<T, Malformed> {
    match caught(f) {
        Ok(done) => done.map_err(|error| Malformed(error.to_string())),
        Err(panic) => Err(Malformed(format!("the file cannot be used: {panic}"))),
    }
}

/// How the vocabulary spells bytes.
#[derive(Clone, Copy)]
enum Spelling {
    /// A printable character for each byte (GPT-2 and its kin).
    ByteLevel,
    /// `▁` for a space, `<0x0A>` for bytes that have no token (`SentencePiece`).
    Fallback,
    /// As it is.
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
                        // Not spelled in bytes at all.
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

/// The byte that a character of a byte-level vocabulary stands for: printable Latin-1 stands
/// for itself, the 68 others are counted from U+0100 on.
fn byte_of(c: char) -> Option<u8> {
    let itself = |b: u8| matches!(b, b'!'..=b'~' | 0xA1..=0xAC | 0xAE..=0xFF);
    match u32::from(c) {
        c @ 0..=0xFF => Some(c as u8).filter(|b| itself(*b)),
        c @ 0x100..=0x143 => (0..=255).filter(|b| !itself(*b)).nth((c - 0x100) as usize),
        _ => None,
    }
}

/// Bytes of all tokens, one after the other; where each ends; which are special.
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
    tokens.sort_unstable();
    let (mut bytes, mut ends, mut special) = (Vec::new(), Vec::new(), Vec::new());
    for (id, token) in tokens {
        // Ids may have gaps.
        ends.resize(id as usize, bytes.len());
        special.resize(id as usize, false);
        match added.get(&id) {
            // Added tokens are spelled as they are.
            Some(added) => bytes.extend_from_slice(added.content.as_bytes()),
            None => spelling.bytes(&token, &mut bytes),
        }
        ends.push(bytes.len());
        special.push(added.get(&id).is_some_and(|a| a.special));
    }
    Ok((bytes, ends, special))
}

/// The length of the longest token, 1 at least.
fn longest_token(ends: &[usize]) -> usize {
    let starts = [0].into_iter().chain(ends.iter().copied());
    let lengths = ends.iter().zip(starts).map(|(end, start)| end - start);
    lengths.max().unwrap_or(0).max(1)
}

/// A token: a string, or an object with its `content`.
fn content(value: &Value) -> Option<&str> {
    value.as_str().or_else(|| value.get("content")?.as_str())
}

impl JsonFile {
    /// A template, or the one named `default` of several.
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
                expected: "one named `default`; rename the one to use, or write it to \
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
