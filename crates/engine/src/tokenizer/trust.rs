//! Checks a `tokenizer.json` for contents at which the crate `tokenizers` would panic or exhaust
//! the memory.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;

use crate::error::Malformed;

/// The highest allowed token id plus one. Tables have an entry per id, and no known vocabulary has
/// a million tokens.
pub(super) const MOST_TOKENS: u32 = 1 << 22;
/// The most bytes of a normalised text. The crate uses 16 further bytes for each of them.
const MOST_BYTES: f64 = (64 << 20) as f64;
/// The most bytes that one byte may become. T5's normaliser, one of the largest, makes at most 800.
const MOST_GROWTH: f64 = 1e5;
/// The most pieces in a template of a post-processor.
const MOST_PIECES: usize = 64;

/// The limit `factor * n + more` on the length of a text of `n` bytes after normalisation.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Growth {
    factor: f64,
    more: f64,
}

impl Growth {
    const NONE: Self = Self::by(1.0);

    const fn by(factor: f64) -> Self {
        Self { factor, more: 0.0 }
    }

    fn then(self, next: Self) -> Self {
        Self {
            factor: self.factor * next.factor,
            more: self.more * next.factor + next.more,
        }
    }

    /// Refuses a text of `len` bytes if it may exceed [`MOST_BYTES`].
    pub(super) fn check(self, len: usize) -> Result<(), Malformed> {
        let bytes = self.factor * len as f64 + self.more;
        if bytes <= MOST_BYTES {
            Ok(())
        } else {
            Err(Malformed(format!(
                "a text of {len} bytes may have {bytes:.0} bytes when it is normalised, more than \
                 {MOST_BYTES}"
            )))
        }
    }

    /// The growth of a text by a normaliser, a pre-tokenizer or a decoder, in bytes of UTF-8.
    /// Unicode's longest decomposition turns 3 bytes into 33, and its longest lower case 2 bytes
    /// into 3.
    fn of(step: &Value) -> Result<Self, Malformed> {
        let text = |field: &str| step[field].as_str().unwrap_or_default();
        let length = |field: &str| text(field).len() as f64;
        Ok(match text("type") {
            "Sequence" => {
                let parts = ["normalizers", "pretokenizers", "decoders"];
                let parts = parts.iter().filter_map(|field| step[field].as_array());
                parts.flatten().try_fold(Self::NONE, |all, part| {
                    Self::of(part).map(|part| Self::then(all, part))
                })?
            }
            "Replace" => {
                let content = length("content");
                match step["pattern"]["String"].as_str() {
                    Some(pattern) if !pattern.is_empty() => {
                        Self::by((content / pattern.len() as f64).max(1.0))
                    }
                    // A regular expression or an empty pattern may match before every byte.
                    _ => Self::by(1.0 + content),
                }
            }
            "Prepend" => Self {
                factor: 1.0,
                more: length("prepend"),
            },
            "Precompiled" => Self::by(precompiled(text("precompiled_charsmap"))?),
            "NFKC" | "NFKD" => Self::by(11.0),
            "NFC" | "NFD" | "BertNormalizer" => Self::by(3.0),
            "Lowercase" | "ByteLevel" => Self::by(2.0),
            "Metaspace" => Self {
                factor: 3.0,
                more: 3.0,
            },
            "FixedLength" if step["length"].as_u64() == Some(0) => {
                return Err("pre_tokenizer: FixedLength of 0".into());
            }
            _ => Self::NONE,
        })
    }
}

/// Checks `SentencePiece`'s table of replacements, which consists of the length of a trie, the
/// trie, and texts that end in a zero byte. Returns the length of the longest text.
fn precompiled(table: &str) -> Result<f64, Malformed> {
    let broken = |what: &str| format!("normalizer: Precompiled: {what}");
    let bytes = STANDARD.decode(table);
    let bytes = bytes.map_err(|error| broken(&error.to_string()))?;
    let (length, rest) = bytes
        .split_first_chunk()
        .ok_or_else(|| broken("the table is empty"))?;
    let length = u32::from_le_bytes(*length) as usize;
    // The trie is an array of 32-bit numbers.
    if length == 0 || !length.is_multiple_of(4) || length > rest.len() {
        let bytes = bytes.len();
        return Err(broken(&format!("{length} bytes of {bytes} are its trie")).into());
    }
    let texts = rest[length..].split(|byte| *byte == 0);
    Ok(texts.map(<[u8]>::len).max().unwrap_or(0).max(1) as f64)
}

/// Checks a `tokenizer.json`. Returns the limit on the growth of a text by its normaliser and
/// pre-tokenizer.
pub(super) fn check(file: &Value) -> Result<Growth, Malformed> {
    // The merges are checked before the crate reads the file, because it would panic.
    check_merges(&file["model"])?;
    // Dropout is a setting for training. It would give the same prompt other tokens at each call.
    if let Some(dropout) = file["model"]["dropout"].as_f64().filter(|p| *p > 0.0) {
        return Err(Malformed(format!(
            "model.dropout is {dropout}: the tokens of a text would be random; set it to null"
        )));
    }
    for field in ["single", "pair"] {
        let pieces = file["post_processor"][field].as_array();
        if let Some(pieces) = pieces.filter(|pieces| pieces.len() > MOST_PIECES) {
            let pieces = pieces.len();
            return Err(Malformed(format!(
                "post_processor.{field} has {pieces} pieces"
            )));
        }
    }
    let mut all = Growth::NONE;
    for field in ["normalizer", "pre_tokenizer", "decoder"] {
        let growth = Growth::of(&file[field])?;
        if growth.factor > MOST_GROWTH || growth.more > MOST_BYTES {
            let factor = growth.factor.max(growth.more);
            return Err(Malformed(format!(
                "{field}: it may make {factor:.0} bytes of one"
            )));
        }
        // A decoder reads tokens and never the text, so it is checked but not counted.
        if field != "decoder" {
            all = all.then(growth);
        }
    }
    Ok(all)
}

/// Refuses merges whose result is not a token. The crate would write the result to a buffer with
/// the length of the longest token. Entries that are not merges pass, because the crate itself
/// refuses them.
fn check_merges(model: &Value) -> Result<(), Malformed> {
    let (Some(vocabulary), Some(merges)) = (model["vocab"].as_object(), model["merges"].as_array())
    else {
        return Ok(());
    };
    let prefix = model["continuing_subword_prefix"].as_str().unwrap_or("");
    for (i, merge) in merges.iter().enumerate() {
        let pair = match merge {
            Value::String(text) => text.split_once(' '),
            _ => merge[0].as_str().zip(merge[1].as_str()),
        };
        let Some((a, b)) = pair else {
            continue;
        };
        // The crate removes the prefix by its length, whatever bytes are there.
        let merged = b.get(prefix.len()..).map(|b| format!("{a}{b}"));
        if !merged.is_some_and(|merged| vocabulary.contains_key(&merged)) {
            let shown = |token: &str| token.chars().take(40).collect::<String>();
            let (a, b) = (shown(a), shown(b));
            return Err(Malformed(format!(
                "merge {i} of {a:?} and {b:?} makes no token of the vocabulary; the file is damaged"
            )));
        }
    }
    Ok(())
}

/// Refuses ids that no real vocabulary has, because tables have an entry per id.
pub(super) fn check_ids<'a>(tokens: impl Iterator<Item = (u32, &'a str)>) -> Result<(), Malformed> {
    match tokens.max() {
        Some((id, token)) if id >= MOST_TOKENS => {
            let token: String = token.chars().take(40).collect();
            Err(Malformed(format!(
                "token {token:?} has the id {id}, beyond any vocabulary; the file is damaged"
            )))
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn merges(prefix: Option<&str>, merges: Value) -> Result<(), Malformed> {
        let vocab = json!({"a": 0, "b": 1, "ab": 2, "##b": 3, "é": 4});
        let model = json!({
            "vocab": vocab, "merges": merges, "continuing_subword_prefix": prefix
        });
        check_merges(&model)
    }

    #[test]
    fn merges_make_tokens() {
        merges(None, json!(["a b"])).unwrap();
        merges(None, json!([["a", "b"]])).unwrap();
        merges(Some("##"), json!([["a", "##b"]])).unwrap();
        for (prefix, bad) in [
            (None, json!(["ab ab"])),
            (None, json!([["a", "b"], ["ab", "b"]])),
            // The cases are a token shorter than the prefix, and a prefix that ends inside a
            // character.
            (Some("##"), json!([["a", "b"]])),
            (Some("#"), json!([["a", "é"]])),
        ] {
            let error = merges(prefix, bad).unwrap_err();
            assert!(error.0.contains("makes no token"), "{error}");
        }
    }

    #[test]
    fn what_are_no_merges_is_left_to_the_crate() {
        for file in [
            json!([]),
            json!({}),
            json!(null),
            json!({"model": {"vocab": []}}),
        ] {
            assert_eq!(check(&file), Ok(Growth::NONE));
        }
        merges(None, json!([7, "ab", ["a"], null])).unwrap();
    }

    #[test]
    fn growth_is_the_product_of_all_steps() {
        let replace = |pattern: Value, content: &str| json!({"type": "Replace", "pattern": pattern, "content": content});
        let growth = |steps: &[Value]| {
            check(&json!({"normalizer": {"type": "Sequence", "normalizers": steps}}))
        };
        // The normaliser of Llama 2.
        let llama = [
            json!({"type": "Prepend", "prepend": "▁"}),
            replace(json!({"String": " "}), "▁"),
        ];
        let expected = Growth {
            factor: 3.0,
            more: 9.0,
        };
        assert_eq!(growth(&llama), Ok(expected));
        assert_eq!(expected.check(1 << 20), Ok(()));
        assert!(expected.check(1 << 26).is_err());
        let hundred = replace(json!({"String": "a"}), &"a".repeat(100));
        assert!(growth(&vec![hundred.clone(); 2]).is_ok());
        let error = growth(&vec![hundred; 4]).unwrap_err();
        assert!(error.0.contains("100000000 bytes of one"), "{error}");
        let regex = replace(json!({"Regex": ""}), &"a".repeat(999));
        assert_eq!(growth(&[regex]), Ok(Growth::by(1000.0)));
    }

    #[test]
    fn ids_are_bounded() {
        check_ids([(7, "a"), (MOST_TOKENS - 1, "b")].into_iter()).unwrap();
        let error = check_ids([(MOST_TOKENS, "a"), (0, "b")].into_iter()).unwrap_err();
        assert!(error.0.contains("4194304"), "{error}");
    }
}
