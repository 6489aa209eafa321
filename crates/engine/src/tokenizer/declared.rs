//! Adds the tokens that files next to `tokenizer.json` declare, like `transformers` 5 does.

use std::collections::{BTreeMap, HashMap, HashSet};

use serde_json::{Map, Value};
use tokenizers::AddedToken;

use super::content;
use crate::json_file::JsonFile;
use crate::{Checkpoint, Error};

const DECODER: &str = "added_tokens_decoder";
const EXTRA: &str = "extra_special_tokens";
/// The older name of [`EXTRA`].
const ADDITIONAL: &str = "additional_special_tokens";

/// The special tokens that every tokenizer in `transformers` may have, in the order in which they
/// are added.
const NAMED: [&str; 7] = [
    "bos_token",
    "eos_token",
    "unk_token",
    "sep_token",
    "pad_token",
    "cls_token",
    "mask_token",
];

/// The tokens that a checkpoint declares outside `tokenizer.json`.
pub(super) struct Declared {
    /// The fields of `tokenizer_config.json`, overridden by those of `special_tokens_map.json`.
    fields: Map<String, Value>,
    by_id: BTreeMap<u32, AddedToken>,
    /// Special tokens with a name and no id, in the order in which they are added.
    named: Vec<AddedToken>,
    /// Special tokens with neither name nor id, which are added last.
    extra: Vec<AddedToken>,
}

impl Declared {
    /// Reads `tokenizer_config.json`. If that file does not list the added tokens, also reads
    /// `special_tokens_map.json` and `added_tokens.json`. `file` is the parsed `tokenizer.json`.
    pub(super) fn read(
        checkpoint: &Checkpoint,
        config: &JsonFile,
        file: &Value,
    ) -> Result<Self, Error> {
        let own = config.value.as_object().cloned().unwrap_or_default();
        // Newer files list every added token with its id. The older files are then ignored.
        let Some(decoder) = own.get(DECODER) else {
            let map = JsonFile::load(checkpoint, "special_tokens_map.json")?.value;
            let map = map.as_object().cloned().unwrap_or_default();
            let (named, extra) = (named(&own, &map), extra(&own, &map));
            let old = JsonFile::load(checkpoint, "added_tokens.json")?;
            return Ok(Self {
                by_id: old_added(&old, file, named.iter().chain(&extra))?,
                named,
                extra,
                fields: own.into_iter().chain(map).collect(),
            });
        };
        let bad = || config.bad(DECODER, "an object of tokens by their ids");
        let entries = decoder.as_object().ok_or_else(bad)?.iter();
        let by_id = entries.map(|(id, token)| Some((id.parse().ok()?, from_object(token)?)));
        Ok(Self {
            by_id: by_id.collect::<Option<_>>().ok_or_else(bad)?,
            named: named(&own, &Map::new()),
            extra: extra(&own, &Map::new()),
            fields: own,
        })
    }

    /// The named special tokens as pairs of name and text, for chat templates.
    pub(super) fn names(&self) -> BTreeMap<String, String> {
        let fields = self.fields.iter();
        let tokens = fields.filter(|(name, _)| name.ends_with("_token"));
        let extra = self.fields.get(EXTRA).and_then(Value::as_object);
        tokens
            .chain(extra.into_iter().flatten())
            .filter_map(|(name, value)| Some((name.clone(), content(value)?.to_owned())))
            .collect()
    }

    /// Declared tokens that contradict `tokenizer.json`, each with an explanation: the declared id
    /// has another token there, or the token has another id there. `transformers` 4 follows
    /// `tokenizer.json`. Version 5 follows the declared ids for the tokenizer classes that it
    /// rebuilds, so only these classes are checked.
    pub(super) fn contradicted(&self, file: &Value, model_type: &str) -> BTreeMap<String, String> {
        let mut contradicted = BTreeMap::new();
        if !self.fields.contains_key(DECODER) || !self.is_rebuilt(file, model_type) {
            return contradicted;
        }
        let declared = self.by_id.iter();
        let ids: HashMap<&str, u32> = declared.map(|(id, t)| (t.content.as_str(), *id)).collect();
        for own in file["added_tokens"].as_array().into_iter().flatten() {
            let (Some(own_id), Some(own)) = (own["id"].as_u64(), own["content"].as_str()) else {
                continue;
            };
            let own_id = u32::try_from(own_id).unwrap_or(u32::MAX);
            let same_id = self
                .by_id
                .get(&own_id)
                .map(|token| (own_id, token.content.as_str()));
            let same_token = ids.get(own).map(|id| (*id, own));
            for (id, token) in same_id.into_iter().chain(same_token) {
                if (id, token) != (own_id, own) {
                    let reason = format!(
                        "tokenizer_config.json gives the id {id} to {token:?}, this file {own_id} to \
                         {own:?}; correct the wrong one"
                    );
                    contradicted.insert(token.to_owned(), reason);
                }
            }
        }
        contradicted
    }

    /// Whether `transformers` 5 rebuilds the tokenizer from the vocabulary and the declared tokens.
    fn is_rebuilt(&self, file: &Value, model_type: &str) -> bool {
        let class = self.fields.get("tokenizer_class").and_then(Value::as_str);
        let class = class.unwrap_or_default().trim_end_matches("Fast");
        match model_type {
            "qwen2" | "qwen3" => true,
            "mistral" | "phi3" => false,
            _ if class == "Qwen2Tokenizer" => true,
            // Llama's class is used with two kinds of vocabularies, and `transformers` rebuilds
            // only `SentencePiece` ones.
            _ => {
                class == "LlamaTokenizer"
                    && ["pre_tokenizer", "decoder"]
                        .iter()
                        .all(|field| !file[field].to_string().contains("\"ByteLevel\""))
            }
        }
    }

    /// Adds the tokens that the vocabulary lacks. Tokens with an id come first, in the order of
    /// ids; each gets the next free id. Special tokens come next, until the model's embedding has
    /// no more of its `rows` free.
    pub(super) fn add(
        self,
        inner: &mut tokenizers::Tokenizer,
        rows: usize,
    ) -> tokenizers::Result<()> {
        // The crate gives each new token the next free id, so the order matters.
        inner.add_tokens(self.by_id.into_values())?;
        let added = inner.get_added_vocabulary().get_added_tokens_decoder();
        let after_added = added.keys().max().map_or(0, |id| *id as usize + 1);
        let mut next = after_added.max(inner.get_vocab_size(false));
        let eos = self.fields.get("eos_token").and_then(content);
        let mut seen = HashSet::new();
        let mut tokens = Vec::new();
        let named = self.named.into_iter().map(|token| (token, true));
        for (token, has_name) in named.chain(self.extra.into_iter().map(|token| (token, false))) {
            // A text may have several names, such as a padding token that also ends texts.
            if !seen.insert(token.content.clone()) {
                continue;
            }
            let Some(id) = inner.token_to_id(&token.content) else {
                // The model was never trained to write a token that the vocabulary lacks, so that
                // token cannot end its texts.
                if next < rows && eos != Some(&token.content) {
                    next += 1;
                    tokens.push(token);
                }
                continue;
            };
            match added.get(&id) {
                // A named token is special even if the list of ids says otherwise.
                Some(known) if has_name => tokens.push(known.clone().special(true)),
                Some(_) => {}
                None => tokens.push(token),
            }
        }
        inner.add_tokens(tokens).map(|_| ())
    }
}

/// The named special tokens of `tokenizer_config.json` and `special_tokens_map.json`. The second
/// file has priority.
fn named(config: &Map<String, Value>, map: &Map<String, Value>) -> Vec<AddedToken> {
    let custom = config.keys().chain(map.keys()).map(String::as_str);
    let custom = custom.filter(|name| name.ends_with("_token") && !NAMED.contains(name));
    let names = NAMED.into_iter().chain(custom);
    let tokens = names.filter_map(|name| {
        map.get(name)
            .and_then(|value| from_text_or_object(value, true))
            .or_else(|| from_text_or_object(config.get(name)?, false))
    });
    let lists = [config.get(EXTRA), map.get(EXTRA)].into_iter().flatten();
    let more = lists.filter_map(Value::as_object).flat_map(Map::values);
    tokens
        .chain(more.filter_map(|value| from_text_or_object(value, false)))
        .map(|token| token.special(true))
        .collect()
}

/// The special tokens without a name. `additional_special_tokens` is used if `extra_special_tokens`
/// is empty, and the list of `special_tokens_map.json` if `tokenizer_config.json` has none.
fn extra(config: &Map<String, Value>, map: &Map<String, Value>) -> Vec<AddedToken> {
    let list = |fields: &Map<String, Value>, name: &str| fields.get(name)?.as_array().cloned();
    let new = list(config, EXTRA).filter(|list| !list.is_empty());
    let from_config = new.or_else(|| list(config, ADDITIONAL));
    let from_map = list(map, EXTRA).or_else(|| match from_config {
        Some(_) => None,
        None => list(map, ADDITIONAL),
    });
    let tokens = |list: Option<Vec<Value>>, is_map| {
        let values = list.into_iter().flatten();
        values.filter_map(move |value| from_text_or_object(&value, is_map))
    };
    tokens(from_config, false)
        .chain(tokens(from_map, true))
        .collect()
}

/// Reads a special token. In `special_tokens_map.json` (`is_map`), an object is always special.
fn from_text_or_object(value: &Value, is_map: bool) -> Option<AddedToken> {
    match value {
        Value::String(text) => Some(AddedToken::from(text, true)),
        Value::Object(flags) if is_map => {
            let mut flags = flags.clone();
            flags.insert("special".into(), true.into());
            from_object(&flags.into())
        }
        _ => from_object(value),
    }
}

fn from_object(value: &Value) -> Option<AddedToken> {
    let flag = |name: &str| value[name].as_bool().unwrap_or(false);
    let token = AddedToken::from(value["content"].as_str()?, flag("special"));
    let normalized = value["normalized"].as_bool().unwrap_or(token.normalized);
    Some(
        token
            .single_word(flag("single_word"))
            .lstrip(flag("lstrip"))
            .rstrip(flag("rstrip"))
            .normalized(normalized),
    )
}

/// The tokens of `added_tokens.json`, except those whose ids `tokenizer.json` has.
fn old_added<'a>(
    old: &JsonFile,
    file: &Value,
    special: impl Iterator<Item = &'a AddedToken>,
) -> Result<BTreeMap<u32, AddedToken>, Error> {
    let own = file["added_tokens"].as_array();
    let own: HashSet<_> = own
        .into_iter()
        .flatten()
        .map(|t| t["id"].as_u64())
        .collect();
    let special: HashSet<&str> = special.map(|token| token.content.as_str()).collect();
    let entries = old.value.as_object().into_iter().flatten();
    let mut all = BTreeMap::new();
    for (text, id) in entries {
        let number = id.as_u64().and_then(|id| u32::try_from(id).ok());
        let id = number.ok_or_else(|| old.bad(text, "a token's id"))?;
        if !own.contains(&Some(u64::from(id))) {
            all.insert(id, AddedToken::from(text, special.contains(text.as_str())));
        }
    }
    Ok(all)
}

/// The rows of the model's embedding, by `config.json`; unlimited if the file does not say.
pub(super) fn rows(config: &JsonFile) -> usize {
    let rows = config.value["vocab_size"].as_u64();
    rows.and_then(|rows| usize::try_from(rows).ok())
        .unwrap_or(usize::MAX)
}
