//! Byte-level BPE (`tokenizer.ggml.model` is `gpt2`).

use std::collections::HashSet;

use serde_json::{Value, json};

use super::{PRE, Vocabulary};
use crate::Error;
use crate::byte_level::PreTokenizer;
use crate::gguf::Gguf;

const MERGES: &str = "tokenizer.ggml.merges";

/// Returns the fields of `tokenizer.json` that depend on the kind of tokenizer.
pub(super) fn parts(file: &Gguf, vocabulary: &Vocabulary<'_>) -> Result<Value, Error> {
    let name = file.required_string(PRE)?;
    let Some(pre) = PreTokenizer::named(name) else {
        let known: Vec<&str> = PreTokenizer::names().collect();
        let supported = format!("only {}", known.join(", "));
        return Err(file.unsupported(PRE, &format!("`{name}`"), &supported));
    };
    let merges = file.strings(MERGES)?.ok_or_else(|| file.missing(MERGES))?;
    let tokens: HashSet<&str> = vocabulary.used().map(|(_, token)| token).collect();
    let merges = merges
        .iter()
        .map(|merge| match merge.split_once(' ') {
            // The crate `tokenizers` panics if `left`, `right` or their concatenation is not a
            // token.
            Some((left, right))
                if tokens.contains(left)
                    && tokens.contains(right)
                    && tokens.contains(&*format!("{left}{right}")) =>
            {
                Ok(json!([left, right]))
            }
            _ => {
                let expected = "two tokens with a space between that join to a third";
                Err(file.bad(MERGES, &format!("`{merge}`"), expected))
            }
        })
        .collect::<Result<Value, _>>()?;
    Ok(pre.parts(vocabulary.as_json(), merges))
}
